"""All metrics of one pipeline at one moment, from its board and its tally."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from penstock import __version__
from penstock.observe.board.board import Board
from penstock.observe.board.glance import (
    FlowGlance,
    Glance,
    LagGlance,
    PartitionGlance,
    Phase,
    ProcessGlance,
    StateGlance,
)
from penstock.observe.lag.looks import patience_ms, topic_series
from penstock.observe.lag.report import snake
from penstock.observe.lag.skew import Skew, skew
from penstock.observe.lag.trend import (
    Draining,
    Growing,
    Sawtooth,
    Stalled,
    Steady,
    TooFewSamples,
    Trend,
    trend,
)
from penstock.observe.prometheus import metrics as m
from penstock.observe.prometheus.histogram import Buckets
from penstock.observe.prometheus.metrics import Metric
from penstock.observe.prometheus.tally import Labels, Summary, Tally, process_of
from penstock.observe.samples import AuditVerdict, BrokerHealth, KafkaHealth

PARTITIONS_MAX = 256
"""Partitions with series of their own, by number; those beyond are told of together, as `rest`."""

_STALE_MS = 60_000
"""What was used, and which broker was up, is not known any more so long after a pipeline fell silent."""


@dataclass(frozen=True)
class Measured:
    """One value of a metric, or what a histogram or a summary counted."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Buckets | Summary


@dataclass(frozen=True)
class Known:
    """What is known of a pipeline beside what it writes down."""

    alive: bool | None = None
    """Whether its process lives; None where that cannot be told."""
    objective_ms: int | None = None
    trigger_ms: int = 0


Values = Iterator[tuple[Metric, Labels, float]]


def measured(board: Board, tally: Tally, now_ms: int, known: Known) -> list[Measured]:
    now = board.glance(now_ms)
    heard = now_ms - now.last_ms < _STALE_MS
    values = (
        *_pipeline(now, known),
        *_lag(now.lag),
        *_trend(_trend_now(board, now_ms, known.trigger_ms), now.lag),
        *_sinks(now),
        *_batches(now, known.trigger_ms),
        *_state(now.state, now_ms),
        *(value for flow in now.flows for value in _flow(flow)),
        *(_processes(now.processes) if heard else ()),
        *(_kafka(now.health) if heard else ()),
        *_audit(now.audit),
    )
    counted: tuple[tuple[tuple[Metric, Labels], float | Buckets | Summary], ...] = (
        *tally.counts.items(),
        *tally.summaries.items(),
        *((key, histogram.buckets()) for key, histogram in tally.histograms.items()),
    )
    return [
        *(Measured(metric, (board.name, *labels), value) for metric, labels, value in values),
        *(Measured(metric, (board.name, *labels), value) for (metric, labels), value in counted),
    ]


def _pipeline(now: Glance, known: Known) -> Values:
    yield m.PIPELINE_INFO, (__version__,), 1
    if now.last_ms:
        yield m.HEARTBEAT, (), now.last_ms / 1000
    if known.alive is not None:
        yield m.PROCESS_UP, (), known.alive
    for phase in get_args(Phase):
        yield m.PHASE, (phase,), phase == now.phase
    if now.phase_since_ms:
        yield m.PHASE_SINCE, (), now.phase_since_ms / 1000
    yield m.FAILED_IN_ROW, (), now.failures_in_row
    if known.objective_ms is not None:
        yield m.OBJECTIVE, (), known.objective_ms / 1000
    for lookup in now.lookups:
        since_ms = now.stale_since_ms.get(lookup, now.now_ms)
        yield m.LOOKUP_STALE, (lookup,), max(0, now.now_ms - since_ms) / 1000


def _lag(lag: LagGlance | None) -> Values:
    if lag is None:
        return
    yield m.LAG_RECORDS, (), lag.records
    yield m.LAG_AGE, (), lag.age_ms / 1000
    yield m.LAG_SEEN, (), lag.at_ms / 1000
    yield m.LAG_SKEW, (), _gini({one.partition: one.lag for one in lag.partitions})
    yield m.INPUT_SKEW, (), _gini({one.partition: one.rate_eps for one in lag.partitions})
    partitions = sorted(lag.partitions, key=lambda one: one.partition)
    for one in partitions[:PARTITIONS_MAX]:
        yield from _partition(str(one.partition), [one])
    if rest := partitions[PARTITIONS_MAX:]:
        yield from _partition("rest", rest)


def _partition(name: str, members: Sequence[PartitionGlance]) -> Values:
    yield m.PARTITION_END, (name,), sum(one.end for one in members)
    yield m.PARTITION_POSITION, (name,), sum(one.done for one in members)
    yield m.PARTITION_LAG, (name,), sum(one.lag for one in members)
    yield m.PARTITION_AGE, (name,), max(one.age_ms for one in members) / 1000


def _gini(amounts: Mapping[int, float]) -> float:
    # Ends are asked for before positions are looked up: a position may be ahead.
    match skew({partition: max(0, amount) for partition, amount in amounts.items()}):
        case Skew(gini=gini):
            return gini
        case _:
            return 0.0


def _trend_now(board: Board, now_ms: int, trigger_ms: int) -> Trend:
    looks = topic_series(board.lags)
    if looks and now_ms - looks[-1].at_ms > patience_ms(looks, trigger_ms):
        # A pipeline that is gone does not go on falling behind as it last did.
        return Stalled(looks[-1].at_ms) if looks[-1].lag else TooFewSamples(0)
    return trend(looks, trigger_ms=trigger_ms)


def _trend(found: Trend, lag: LagGlance | None) -> Values:
    for kind in get_args(Trend):
        yield m.LAG_TREND, (snake(kind.__name__),), isinstance(found, kind)
    match found:
        case Growing(slope_eps):
            yield m.LAG_SLOPE, (), slope_eps
        case Draining(done_in_s) if lag is not None and done_in_s > 0:
            yield m.LAG_SLOPE, (), -lag.records / done_in_s
        case Steady() | Sawtooth():
            yield m.LAG_SLOPE, (), 0
        case _:
            pass


def _sinks(now: Glance) -> Values:
    for sink in now.sinks:
        if sink.facts is not None:
            yield m.SINK_INFO, (sink.name, sink.facts.kind, sink.facts.guarantee), 1
        if sink.visible_at_ms:
            yield m.SINK_VISIBLE, (sink.name,), sink.visible_at_ms / 1000


def _batches(now: Glance, trigger_ms: int) -> Values:
    if now.batch is None:
        return
    yield m.TRIGGER_LAG, (), max(0.0, sum(now.batch.phases.values()) - trigger_ms) / 1000


def _state(state: StateGlance | None, now_ms: int) -> Values:
    if state is None:
        return
    yield m.STATE_MEMORY, (), state.memory_bytes
    yield m.STATE_DISK, (), state.disk_bytes
    yield m.CHECKPOINT, (), state.commit_ms / 1000
    if state.watermark_ms > 0:
        yield m.WATERMARK, (), state.watermark_ms / 1000
        yield m.WATERMARK_DELAY, (), (now_ms - state.watermark_ms) / 1000


def _flow(flow: FlowGlance) -> Values:
    yield m.BUSY, (flow.query,), flow.busy
    yield m.CYCLE, (flow.query,), flow.cycle_ms / 1000
    for stage in flow.stages:
        labels = (flow.query, stage.stage)
        yield m.PRESSURE, labels, stage.stage == flow.origin
        if stage.busy is not None:
            yield m.STAGE_BUSY, labels, stage.busy
            yield m.STAGE_WAITING, labels, max(0.0, 1 - stage.busy)
        if stage.rate_eps is not None:
            yield m.STAGE_RATE, labels, stage.rate_eps
        if stage.capacity_eps:  # 0 where the last batches had no records, which tells nothing
            yield m.STAGE_CAPACITY, labels, stage.capacity_eps


def _processes(processes: Sequence[ProcessGlance]) -> Values:
    if not processes:
        return
    yield m.EXECUTORS, (), sum(process_of(one.name) == "executors" for one in processes)
    for name in dict.fromkeys(process_of(one.name) for one in processes):
        members = [one for one in processes if process_of(one.name) == name]
        yield m.RSS, (name,), sum(one.rss_bytes for one in members)
        if heap_max_bytes := sum(one.heap_max_bytes for one in members):
            yield m.HEAP_USED, (name,), sum(one.heap_used_bytes for one in members)
            yield m.HEAP_MAX, (name,), heap_max_bytes


def _kafka(health: KafkaHealth | None) -> Values:
    if health is None:
        return
    yield m.UNDER_REPLICATED, (), health.under_replicated
    yield m.OFFLINE, (), health.offline
    for broker in health.brokers:
        yield m.BROKER_UP, (str(broker.id),), broker.alive
        yield from _broker(broker)


def _broker(broker: BrokerHealth) -> Values:
    name = str(broker.id)
    for metric, value in (
        (m.BROKER_DISK, broker.disk_bytes),
        (m.BROKER_IN, broker.bytes_in_per_s),
        (m.BROKER_OUT, broker.bytes_out_per_s),
    ):
        if value is not None:
            yield metric, (name,), value
    for request, p99_ms in (("produce", broker.produce_p99_ms), ("fetch", broker.fetch_p99_ms)):
        if p99_ms is not None:
            yield m.BROKER_REQUEST, (name, request), p99_ms / 1000


def _audit(audit: AuditVerdict | None) -> Values:
    if audit is None:
        return
    yield m.LOST, (), audit.lost
    yield m.DUPLICATED, (), audit.duplicated
    yield m.AUDITED, (), audit.batches
    yield m.AUDIT_AT, (), audit.at_ms / 1000
    for sink in audit.sinks:
        yield m.SINK_LOST, (sink.name,), sink.lost
        yield m.SINK_DUPLICATED, (sink.name,), sink.duplicated
