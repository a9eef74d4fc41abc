from __future__ import annotations

import socket
import urllib.request

import pytest

from penstock.audit.metrics import AuditMetrics
from penstock.errors import ServiceError
from penstock.local.ports import free_ports

REPORT = {
    "records_lost": 3,
    "records_duplicated": 1,
    "batches": 12,
    "sinks": [{"name": "sessions", "lost": 3, "duplicated": 0}],
}


def test_the_last_look_is_served_to_prometheus() -> None:
    [port] = free_ports(1)
    metrics = AuditMetrics("clicks", port)
    metrics.tell({**REPORT, "records_lost": 0}, took_s=0.1)
    metrics.tell(REPORT, took_s=0.25)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        lines = page.read().decode().splitlines()
    assert 'penstock_records_lost{pipeline="clicks"} 3.0' in lines
    assert 'penstock_records_duplicated{pipeline="clicks"} 1.0' in lines
    assert 'penstock_audit_seconds{pipeline="clicks"} 0.25' in lines
    assert 'penstock_sink_rows_lost{pipeline="clicks",sink="sessions"} 3.0' in lines


def test_a_port_that_is_taken_is_an_error_for_people() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ServiceError, match="in use"):
            AuditMetrics("clicks", taken.getsockname()[1])
