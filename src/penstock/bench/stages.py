"""What each stage of the clickstream costs by itself, what limits it, and what that makes of the whole.

The reference work: clicks of 230 bytes with 10 fields in 8 partitions, 0.5 % malformed, up to 2 s out of
order, 200,000 users and 20,000 products, sessions of about 20 clicks. Stages are measured one on top of
another, into nothing; what one adds to those before it is its own.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.bench.limits import Limits, Use, limiting, measure_limits, using
from penstock.bench.result import Column, Result, Row, Spread, in_words
from penstock.bench.rig import Cost, Rig, open_rig
from penstock.bench.stores import Taken, measure_stores
from penstock.engine.checkpoint import Checkpoint
from penstock.engine.cleanse import clean
from penstock.engine.decode import decode
from penstock.engine.enrich import Lookups
from penstock.engine.grouping import group, measure_layout
from penstock.engine.plain import plain_events, plain_groups
from penstock.engine.refresh import references
from penstock.engine.source import read_source
from penstock.paths import shipped
from penstock.produce.clickstream import ClickChunk, ClickstreamPlan
from penstock.produce.wire import Message
from penstock.sinks.topics import QUIET
from penstock.sizing import keep as keep_figure
from penstock.spec import PipelineSpec, load
from penstock.toolchain import ensure_jars, ensure_java

COLUMNS = (
    Column("stage", "stage"),
    Column("guarantee", "guarantee"),
    Column("batch", "rows a batch"),
    Column("events_per_s", "alone, /s", drawn=True),
    Column("cpu_s_per_million", "CPU-s per million", 2, drawn=True),
    Column("limited_by", "limited by"),
)
WHOLE, PLAIN, COMBINED = "whole path", "whole path, plain", "whole path, combined before the shuffle"
TOUCHED, SPARKS = "limit: read, and each byte hashed", "read by Spark's own source"
_READ, _DECODE, _LOOKUP, STATE = "read", "decode", "lookup", "shuffle + state"
_CHUNK = 1_000
_EPS = 20_000
_START_MS = 1_800_000_000_000
_POLL = 5_000
_IDLE_S = 5.0


def chunks(plan: ClickstreamPlan, events: int, start_ms: int = _START_MS) -> Iterator[ClickChunk]:
    """So many clicks, as if sent at 20,000 a second."""
    stream = plan.records("bench", _EPS)
    for sent in range(0, events, _CHUNK):
        yield stream.chunk(min(_CHUNK, events - sent), start_ms + sent * 1000 // _EPS)


def clicks(plan: ClickstreamPlan, events: int, start_ms: int = _START_MS) -> Iterator[list[Message]]:
    """The same on the wire."""
    return map(plan.encoder("bench").encode, chunks(plan, events, start_ms))


def reference_plan(users: int = 200_000) -> ClickstreamPlan:
    """Clicks that are easy to compare: none is late, none comes twice."""
    return ClickstreamPlan(users=users, malformed=0.005, invalid=0, delayed=0, late=0, duplicate=0)


REFERENCE = reference_plan()


def reference_spec(name: str, **overrides: str) -> PipelineSpec:
    settings = {"name": name, "cleanse.future": "20000 days", "source.max_batch": "300,000", **overrides}
    return load(shipped("pipelines") / "clickstream.toml", environ={}, overrides=settings)


def cumulated(
    rig: Rig, spec: PipelineSpec, combined: PipelineSpec, plain: PipelineSpec
) -> dict[str, Callable[[], DataFrame]]:
    """Each stage with those before it, by the name of the last."""
    spark, data = rig.spark, rig.data

    checkpoint = Checkpoint(data.checkpoints / spec.name, spec.source.topic)
    lookups = Lookups(spark, references(spec, data, "", print), checkpoint, print)
    checkpoint.close()

    def records(spec: PipelineSpec) -> DataFrame:
        return read_source(spark, spec, rig.addresses.kafka, [spec.source.topic])

    def events() -> DataFrame:
        return clean(decode(spark, records(spec), spec, "groups"), spec, "groups")

    def enriched() -> DataFrame:
        return lookups.enrich(events())

    def sessions(spec: PipelineSpec) -> DataFrame:
        found = enriched()
        return group(spark, found, spec, [measure_layout(found, spec)])

    return {
        _READ: lambda: records(spec),
        TOUCHED: lambda: records(spec).select(F.xxhash64("value")),
        SPARKS: lambda: records(plain),
        _DECODE: lambda: events().drop("_value"),
        _LOOKUP: lambda: enriched().drop("_value"),
        STATE: lambda: sessions(spec),
        COMBINED: lambda: sessions(combined),
        PLAIN: lambda: plain_groups(plain_events(spark, records(plain), plain, data, "groups", ""), plain),
    }


@dataclass(frozen=True)
class Measured:
    """A stage with those before it, in one round."""

    cost: Cost
    use: Use


def measure(events: int, rounds: int, say: Callable[[str], None]) -> Result:
    """All stages in turns; the first round is the warm-up."""
    spec, plain = reference_spec("bench"), reference_spec("bench-plain", engine="plain")
    combined = reference_spec("bench", **{"sessions.combine": "true"})
    found: dict[str, list[Measured]] = {}
    readers: dict[str, list[float]] = {}
    with open_rig(spec, say, ("kafka", "clickhouse", "postgres")) as rig:
        limits = measure_limits(rig.data.root)
        REFERENCE.write_reference(rig.data.reference)
        events = rig.fill(spec.source.topic, spec.source.partitions, clicks(REFERENCE, events))
        for number in range(rounds + 1):
            for name, frame in cumulated(rig, spec, combined, plain).items():
                used: list[Use] = []
                with using(used.append):
                    cost = rig.measure(frame(), events)
                said = f"{cost.per_million:6.2f} CPU-s per million  {cost.eps:9,.0f}/s"
                say(f"round {number}  ... {name:30} {said}")
                if number:
                    found.setdefault(name, []).append(Measured(cost, used[0]))
            for name, read in _READERS.items():
                eps = read(rig, spec.source.topic, events)
                say(f"round {number}  ... {name:30} {eps:37,.0f}/s")
                if number:
                    readers.setdefault(name, []).append(eps)
        stores = measure_stores(rig, limits)
    per_million = {name: median(one.cost.per_million for one in each) for name, each in found.items()}
    # A microsecond an event is a second a million.
    keep_figure("event_us", per_million[_LOOKUP], "penstock bench stages")
    return Result(
        "stages",
        f"{events:,} clicks through each stage and those before it, {in_words(rounds)} in turns behind one"
        " that warms up; a stage's own cost is what it adds. Alone: what all cores could do of that stage"
        " and nothing else. Sinks: sessions, written one batch behind the other, by one writer.",
        COLUMNS,
        [
            *stage_rows(found, limits),
            *(_reader_row(name, eps) for name, eps in readers.items()),
            *(_sink_row(taken) for taken in stores),
        ],
        findings(per_million, median(one.cost.eps for one in found[STATE]), limits.cores),
    )


def stage_rows(found: Mapping[str, list[Measured]], limits: Limits) -> list[Row]:
    """Of each stage what it adds to those before it; of whole paths all."""
    rows: list[Row] = []
    before = [0.0] * len(found[_READ])
    for name, rounds in found.items():
        whole = [one.cost.per_million for one in rounds]
        is_whole = name in (COMBINED, PLAIN, TOUCHED, SPARKS)
        own = whole if is_whole else [max(now - then, 0.01) for now, then in zip(whole, before, strict=True)]
        by, share = limiting(rounds[-1].use, limits)
        rows.append(
            {
                "stage": name,
                "events_per_s": Spread.of([limits.cores / cost * 1e6 for cost in own]),
                "cpu_s_per_million": Spread.of(own),
                "limited_by": f"{by} ({share:.0%} used)",
            }
        )
        if name == STATE:
            rows.append(
                {
                    "stage": f"{WHOLE}, measured",
                    "events_per_s": Spread.of([one.cost.eps for one in rounds]),
                    "cpu_s_per_million": Spread.of(whole),
                    "limited_by": f"{by} ({share:.0%} used)",
                }
            )
        if not is_whole:
            before = whole
    return rows


def findings(per_million: Mapping[str, float], whole_eps: float, cores: int) -> list[str]:
    """The bottleneck, and what the stages say of the whole."""
    own = {
        _READ: per_million[_READ],
        _DECODE: per_million[_DECODE] - per_million[_READ],
        _LOOKUP: per_million[_LOOKUP] - per_million[_DECODE],
        STATE: per_million[STATE] - per_million[_LOOKUP],
    }
    slowest = max(own, key=lambda name: own[name])
    predicted = cores / sum(own.values()) * 1e6
    return [
        f"bottleneck: {slowest}, {own[slowest]:.1f} of {sum(own.values()):.1f} CPU-s per million",
        f"predicted for the whole, all {cores} cores busy: {predicted:,.0f}/s; measured: {whole_eps:,.0f}/s"
        f" ({whole_eps / predicted:.0%} of it; the rest is planning, commits and waiting between batches)",
        f"plain takes {per_million[PLAIN] / per_million[STATE]:.1f} times as much CPU",
    ]


def _reader_row(name: str, eps: Sequence[float]) -> Row:
    return {"stage": name, "events_per_s": Spread.of(eps)}


def _sink_row(taken: Taken) -> Row:
    return {
        "stage": f"sink {taken.store}",
        "guarantee": taken.guarantee,
        "batch": taken.batch,
        "events_per_s": taken.rows_per_s,
        "cpu_s_per_million": taken.cpu_s_per_million,
        "limited_by": taken.limited_by,
    }


def _by_librdkafka(rig: Rig, topic: str, events: int) -> float:
    """Records a second that Python's client takes in and throws away."""
    consumer = Consumer(
        {"bootstrap.servers": rig.addresses.kafka, "group.id": "bench", "enable.auto.commit": False, **QUIET}
    )
    try:
        partitions = consumer.list_topics(topic, timeout=_IDLE_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        began, read = time.perf_counter(), 0
        while read < events and (messages := consumer.consume(_POLL, _IDLE_S)):
            read += len(messages)
        return read / (time.perf_counter() - began)
    finally:
        consumer.close()


def _by_kafka_clients(rig: Rig, topic: str, events: int) -> float:
    """The same by Kafka's own measuring tool, in a JVM of its own; its start is not counted."""
    jars = ":".join(str(jar) for jar in ensure_jars("kafka", print))
    settings = ["--bootstrap-server", rig.addresses.kafka, "--topic", topic]
    said = subprocess.run(
        [
            str(ensure_java(print).home / "bin" / "java"),
            "-cp",
            jars,
            "org.apache.kafka.tools.ConsumerPerformance",
            *settings,
            "--num-records",
            str(events),
            "--timeout",
            "20000",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names, values = (line.split(", ") for line in said.strip().splitlines()[-2:])
    told = dict(zip((name.strip() for name in names), values, strict=True))
    return float(told["fetch.nMsg.sec"])


_READERS: dict[str, Callable[[Rig, str, int], float]] = {
    "limit: librdkafka reads": _by_librdkafka,
    "limit: kafka-clients reads": _by_kafka_clients,
}
