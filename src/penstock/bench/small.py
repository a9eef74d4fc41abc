"""Small events for experiments on state alone: a user, a time, a number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame

from penstock.bench.rig import Rig
from penstock.engine.cleanse import clean
from penstock.engine.decode import decode
from penstock.engine.grouping import group, measure_layout
from penstock.engine.plain import plain_events, plain_groups
from penstock.engine.source import read_source
from penstock.produce.wire import Message
from penstock.spec import PipelineSpec

START_MS = 1_800_000_000_000
_CHUNK = 2_000


def spec(name: str, engine: str, max_batch: int, **shape: Any) -> PipelineSpec:
    """Sessions or windows of small events on a topic of this name."""
    [(section, given)] = shape.items()
    measures = {"events": "count(*)", "total": "sum(x)", "newest": "last(x)"}
    return PipelineSpec(
        name=name,
        engine=engine,
        source={
            "topic": name,
            "schema": "user string, ts long, x double",
            "key": "user",
            "event_time": "ts",
            "max_batch": max_batch,
        },
        cleanse={"future": "20000 days"},
        sink=[{"kind": "kafka", "topic": "out"}],
        **{section: {"key": "user", "measures": measures, **given}},
    )


def messages(events: Iterable[tuple[int, int]]) -> Iterator[list[Message]]:
    """Records of (user, milliseconds after the start)."""
    stream = iter(events)
    while chunk := list(islice(stream, _CHUNK)):
        yield [
            {
                "key": b"%d" % user,
                "value": b'{"user":"u%07d","ts":%d,"x":%d.5}' % (user, START_MS + at_ms, user % 100),
            }
            for user, at_ms in chunk
        ]


def rows(rig: Rig, made: PipelineSpec) -> DataFrame:
    records = read_source(rig.spark, made, rig.addresses.kafka, [made.source.topic])
    if made.engine == "plain":
        return plain_groups(plain_events(rig.spark, records, made, rig.data, "groups", ""), made)
    events = clean(decode(rig.spark, records, made, "groups"), made, "groups")
    return group(rig.spark, events, made, [measure_layout(events, made)])
