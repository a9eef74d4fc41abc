"""What an audit found, as Prometheus reads it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, start_http_server

from penstock.errors import ServiceError


class AuditMetrics:
    """A page of gauges at http://127.0.0.1:PORT/metrics, for as long as the process lives."""

    def __init__(self, pipeline: str, port: int) -> None:
        self._registry = CollectorRegistry()
        self._pipeline = pipeline
        self._lost = self._gauge("records_lost", "Records lost, at the place where most are.")
        self._duplicated = self._gauge("records_duplicated", "Records doubled, at the place where most are.")
        self._batches = self._gauge("audited_batches", "Batches that were compared.")
        self._looked = self._gauge("audit_seconds", "How long the last look took.")
        self._at = self._gauge("audit_timestamp_seconds", "When the last look ended.")
        self._sink_lost = self._gauge(
            "sink_rows_lost", "Rows that receipts tell of and the sink lacks.", "sink"
        )
        self._sink_duplicated = self._gauge(
            "sink_rows_duplicated", "Rows that the sink has too often.", "sink"
        )
        try:
            start_http_server(port, addr="127.0.0.1", registry=self._registry)
        except OSError as error:
            raise ServiceError(
                f"metrics cannot be served on port {port}: {error.strerror}", hint="Name a free port."
            ) from error

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, ["pipeline", *labels], namespace="penstock", registry=self._registry)

    def tell(self, report: Mapping[str, Any], took_s: float) -> None:
        """Show what a look found."""
        self._lost.labels(self._pipeline).set(report["records_lost"])
        self._duplicated.labels(self._pipeline).set(report["records_duplicated"])
        self._batches.labels(self._pipeline).set(report["batches"])
        self._looked.labels(self._pipeline).set(took_s)
        self._at.labels(self._pipeline).set(time.time())
        for sink in report["sinks"]:
            self._sink_lost.labels(self._pipeline, sink["name"]).set(sink["lost"])
            self._sink_duplicated.labels(self._pipeline, sink["name"]).set(sink["duplicated"])
