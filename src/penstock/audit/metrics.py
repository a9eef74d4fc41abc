"""What an audit found, as Prometheus reads it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from penstock.observe.prometheus import metrics as m
from penstock.observe.prometheus.measure import Measured
from penstock.observe.prometheus.metrics import Metric
from penstock.observe.prometheus.page import registry_of, serve


class AuditMetrics:
    """A page of gauges at http://127.0.0.1:PORT/metrics, for as long as the process lives."""

    def __init__(self, pipeline: str, port: int) -> None:
        self._pipeline = pipeline
        self._found: list[Measured] = []
        serve(registry_of(lambda: [self._found]), port)

    def tell(self, report: Mapping[str, Any], took_s: float) -> None:
        """Show what a look found."""
        self._found = [
            self._gauge(m.LOST, report["records_lost"]),
            self._gauge(m.DUPLICATED, report["records_duplicated"]),
            self._gauge(m.AUDITED, report["batches"]),
            self._gauge(m.AUDIT_TOOK, took_s),
            self._gauge(m.AUDIT_AT, time.time()),
            *(self._gauge(m.SINK_LOST, sink["lost"], sink["name"]) for sink in report["sinks"]),
            *(self._gauge(m.SINK_DUPLICATED, sink["duplicated"], sink["name"]) for sink in report["sinks"]),
        ]

    def _gauge(self, metric: Metric, value: float, *labels: str) -> Measured:
        return Measured(metric, (self._pipeline, *labels), value)
