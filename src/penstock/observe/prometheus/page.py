"""The page that Prometheus reads: http://127.0.0.1:PORT/metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isinf
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client import Metric as Family
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from penstock.errors import ServiceError
from penstock.observe.prometheus.histogram import Buckets
from penstock.observe.prometheus.measure import Measured
from penstock.observe.prometheus.metrics import METRICS, Kind, Metric
from penstock.observe.prometheus.tally import Summary

Look = Callable[[], Iterable[Sequence[Measured]]]
"""The metrics of each pipeline, now."""

_FAMILIES: dict[Kind, type[Any]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
    "summary": SummaryMetricFamily,
}


class PipelineCollector(Collector):
    """Looks when it is asked, and does nothing in between."""

    def __init__(self, look: Look) -> None:
        self._look = look

    def collect(self) -> list[Family]:
        """In the order of METRICS: the values of all pipelines for one metric must stand together."""
        families = {metric: _family(metric) for metric in METRICS}
        for pipeline in self._look():
            for one in pipeline:
                _put(families[one.metric], one)
        return [family for family in families.values() if family.samples]


def _family(metric: Metric) -> Any:
    """Each kind has a class of its own, and what they are given differs."""
    return _FAMILIES[metric.kind](metric.name, metric.help, labels=metric.labels)


def _put(family: Any, one: Measured) -> None:
    match one.value:
        case Buckets(reached, sum_s):
            buckets = [("+Inf" if isinf(bound) else str(bound), count) for bound, count in reached]
            family.add_metric(one.labels, buckets, sum_s)
        case Summary(count, sum_s):
            family.add_metric(one.labels, count, sum_s)
        case number:
            family.add_metric(one.labels, float(number))


def registry_of(look: Look) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(PipelineCollector(look))
    return registry


def serve(registry: CollectorRegistry, port: int) -> int:
    """Serve on 127.0.0.1 for as long as the process lives, and say on which port: 0 takes a free one."""
    try:
        server, _ = start_http_server(port, addr="127.0.0.1", registry=registry)
    except OSError as error:
        raise ServiceError(
            f"metrics cannot be served on port {port}: {error.strerror}", hint="Name a free port."
        ) from error
    return int(server.server_port)
