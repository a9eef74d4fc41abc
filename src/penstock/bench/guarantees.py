"""What exactly once costs: the clickstream with every sink exactly once, and at least once, in turns.

Throughput is of a topic that is full already; latency is of clicks that come at a steady rate. All runs share
one Spark, one Kafka and one ClickHouse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from penstock.bench.inprocess import Run
from penstock.bench.result import Column, Result, Row, Spread, in_words
from penstock.bench.rig import Rig, open_rig
from penstock.bench.running import produce
from penstock.bench.stages import clicks
from penstock.engine.receipt import Receipt
from penstock.observe.latency import Latency
from penstock.paths import shipped
from penstock.produce.clickstream import ClickstreamPlan
from penstock.spec import PipelineSpec, load, to_toml

GUARANTEES = ("exactly_once", "at_least_once")
INTERVALS = ("0 seconds", "1 second", "5 seconds")
"""Triggers: a batch is what is committed, so this is the interval of checkpoints."""
COLUMNS = (
    Column("guarantee", "guarantee"),
    Column("interval", "a batch at most every"),
    Column("events_per_s", "events/s", drawn=True),
    Column("p50_ms", "p50, ms", drawn=True),
    Column("p99_ms", "p99, ms", drawn=True),
    Column("batch_ms", "a batch, ms"),
    Column("sinks", "of which the sinks"),
)
_BATCH = 50_000
_WARM_UP_S = 10.0
_WITHIN_S = 300.0
_FULL = "guarantees-full"


@dataclass(frozen=True)
class Price:
    """What was measured of one guarantee in one round."""

    eps: float | None
    p50_ms: float
    p99_ms: float
    batch_ms: float
    sinks: str


def described(guarantee: str, topic: str, run: str, interval: str = "0 seconds") -> PipelineSpec:
    """The shipped pipeline with a name, topics and tables of its own."""
    overrides = {
        "name": run,
        "source.topic": topic,
        "source.max_batch": str(_BATCH),
        "trigger": interval,
        "cleanse.future": "20000 days",
        # Sessions end while it is measured: most rows are final ones, and those go to three sinks.
        "sessions.gap": "5 seconds",
        "sessions.lateness": "5 seconds",
        "sink.0.topic": f"{run}-sessions",
        "sink.1.table": f"{run}_live".replace("-", "_"),
        "sink.2.table": f"{run}_sessions".replace("-", "_"),
        "sink.3.topic": f"{run}-dead",
        **{f"sink.{number}.guarantee": guarantee for number in (0, 2, 3)},
    }
    return load(shipped("pipelines") / "clickstream.toml", environ={}, overrides=overrides)


def measure(events: int, rounds: int, rate: int, seconds: float, say: Callable[[str], None]) -> Result:
    """Both guarantees in turns, the first round to warm up; then the intervals, once each."""
    measured: dict[tuple[str, str], list[Price]] = {}
    with open_rig(described(GUARANTEES[0], _FULL, "price"), say, ["kafka", "clickhouse"]) as rig:
        plan = ClickstreamPlan.fitting(described(GUARANTEES[0], _FULL, "price"), seed=7)
        plan.write_reference(rig.data.reference)
        events = rig.fill(_FULL, 8, clicks(plan, events))
        for number in range(rounds + 1):
            for guarantee in GUARANTEES:
                run = f"price-{number}-{guarantee.split('_')[0]}"
                eps, receipts = _throughput(rig, guarantee, events, f"{run}-full")
                p50_ms, p99_ms = _latency(rig, guarantee, INTERVALS[0], rate, seconds, run)
                price = Price(eps, p50_ms, p99_ms, median(r.total_ms for r in receipts), _sinks(receipts))
                said = f"p50 {p50_ms:6,.0f} ms   p99 {p99_ms:6,.0f} ms"
                say(f"round {number}  {guarantee:14} {eps:9,.0f}/s   {said}")
                if number:
                    measured.setdefault((guarantee, INTERVALS[0]), []).append(price)
        for interval in INTERVALS[1:]:
            for guarantee in GUARANTEES:
                run = f"price-{interval.split()[0]}s-{guarantee.split('_')[0]}"
                p50_ms, p99_ms = _latency(rig, guarantee, interval, rate, seconds, run)
                say(f"{interval:9} {guarantee:14} p50 {p50_ms:6,.0f} ms   p99 {p99_ms:6,.0f} ms")
                measured[guarantee, interval] = [Price(None, p50_ms, p99_ms, 0, "")]
    once, least = (measured[guarantee, INTERVALS[0]] for guarantee in GUARANTEES)
    return Result(
        "guarantees",
        f"The clickstream with all its sinks, {in_words(rounds)} in turns behind one that warms up:"
        f" {events:,} clicks that were there already, in batches of {_BATCH:,}; then {rate:,} a second.",
        COLUMNS,
        [_row(guarantee, interval, prices) for (guarantee, interval), prices in measured.items()],
        [
            f"exactly once / at least once, {what}: {_ratio(once, least, key):.2f}"
            for what, key in (("throughput", "eps"), ("p50", "p50_ms"), ("p99", "p99_ms"))
        ],
    )


def _ratio(once: Sequence[Price], least: Sequence[Price], key: str) -> float:
    return float(median(getattr(p, key) for p in once) / median(getattr(p, key) for p in least))


def _row(guarantee: str, interval: str, prices: Sequence[Price]) -> Row:
    known = [price.eps for price in prices if price.eps is not None]
    return {
        "guarantee": guarantee,
        "interval": interval,
        "events_per_s": Spread.of(known) if known else None,
        "p50_ms": Spread.of([price.p50_ms for price in prices]),
        "p99_ms": Spread.of([price.p99_ms for price in prices]),
        "batch_ms": Spread.of([price.batch_ms for price in prices]) if known else None,
        "sinks": prices[-1].sinks,
    }


def _throughput(rig: Rig, guarantee: str, events: int, run: str) -> tuple[float, list[Receipt]]:
    """Records a second from the end of the first batch to the end of the last, and the receipts of those."""
    with Run(rig, described(guarantee, _FULL, run)) as pipeline:
        pipeline.wait_for(events, _WITHIN_S)
    (began, first), *_, (ended, _) = pipeline.receipts
    return (events - first.records) / (ended - began), [receipt for _, receipt in pipeline.receipts[1:]]


def _sinks(receipts: Sequence[Receipt]) -> str:
    """What each took of a batch, in the middle."""
    kinds = ("sessions", "live table", "table", "dead letters")
    times = [median(receipt.sinks[number].write_ms for receipt in receipts) for number in range(len(kinds))]
    return ", ".join(f"{kind} {ms:,.0f} ms" for kind, ms in zip(kinds, times, strict=True))


def _latency(
    rig: Rig, guarantee: str, interval: str, rate: int, seconds: float, run: str
) -> tuple[float, float]:
    """p50 and p99 from creation to visible, of the batches behind the warm-up."""
    spec = described(guarantee, f"{run}-clicks", run, interval)
    rig.fill(spec.source.topic, spec.source.partitions, iter(()))
    file = rig.data.root / f"{run}.toml"
    file.write_text(to_toml(spec))
    with Run(rig, spec) as pipeline:
        pipeline.ready.wait(_WITHIN_S)
        produce(rig.data, file, rate, seconds + _WARM_UP_S)
    began_ms = pipeline.receipts[0][1].started_at_ms + _WARM_UP_S * 1000
    seen = Latency()
    for _, receipt in pipeline.receipts:
        if receipt.started_at_ms > began_ms:
            seen.add(Latency.of(receipt.latency_ms))
    found = seen.percentiles()
    return found.p50, found.p99
