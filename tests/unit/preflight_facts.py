"""Facts of a pipeline with which all is well, for tests that change one of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from penstock.preflight.facts import (
    CheckpointFacts,
    ClickHouseFacts,
    ClickHouseTable,
    Facts,
    KafkaFacts,
    PostgresFacts,
    PostgresTable,
    Start,
    Topic,
    TopicSettings,
)
from penstock.preflight.finding import Finding
from penstock.preflight.judge import RULES, Rule
from penstock.preflight.wanted import columns_of, key_of
from penstock.sinks.protocol import Position
from penstock.spec import PipelineSpec

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

SPEC = PipelineSpec(
    **{
        "name": "visits",
        "source": {
            "topic": "clicks",
            "partitions": 2,
            "schema": "user string, ts long, page string",
            "key": "user",
            "event_time": "ts",
        },
        "sessions": {
            "key": "user",
            "gap": "30 minutes",
            "measures": {"clicks": "count(*)", "page": "last(page)"},
        },
        "sink": [
            {"kind": "kafka", "topic": "sessions"},
            {"kind": "clickhouse", "table": "sessions", "name": "table"},
            {"kind": "postgres", "table": "sessions", "name": "rows"},
        ],
    }
)
KAFKA_SINK, CLICKHOUSE_SINK, POSTGRES_SINK = SPEC.sink
DONE = Position(7, 10, "digest")
"""Batch 7 is held, and batch 8 is due."""


def topic(name: str, **changes: Any) -> Topic:
    settings = TopicSettings(**{"min_in_sync": 2, **changes.pop("settings", {})})
    return replace(Topic(name, 2, replicas=3, in_sync=3, settings=settings), **changes)


KAFKA = KafkaFacts(
    where="broker:9092",
    brokers=3,
    topics={
        name: topic(name)
        for name in (
            "clicks",
            "visits-clock",
            "sessions",
            "penstock-positions",
            "__consumer_offsets",
            "__transaction_state",
        )
    },
    first={0: 0, 1: 0},
    ends={0: 100, 1: 100},
    transaction_timeout_max_ms=900_000,
    offsets_retention_ms=60 * DAY_MS,
    positions={"sessions": (DONE,)},
)
CLICKHOUSE = ClickHouseFacts(
    where="house:8123",
    version="26.9",
    tables={
        "sessions": ClickHouseTable("MergeTree", frozenset(columns_of(SPEC, CLICKHOUSE_SINK)), 1000),
        "penstock_positions": ClickHouseTable("MergeTree", frozenset({"query"}), 1000),
    },
    may_create=True,
    positions={"table": (DONE,)},
)
POSTGRES = PostgresFacts(
    where="elephant:5432",
    version="18.4",
    tables={
        "sessions": PostgresTable(
            frozenset(columns_of(SPEC, POSTGRES_SINK)), frozenset({frozenset({key_of(SPEC, POSTGRES_SINK)})})
        ),
        "penstock_positions": PostgresTable(frozenset({"query"}), frozenset()),
    },
    positions={"rows": (DONE,)},
)
CHECKPOINT = CheckpointFacts(
    query="visits",
    path="/data/checkpoints/visits",
    sinks=("sessions", "table", "rows"),
    planned=7,
    committed=7,
    next={0: 90, 1: 90},
)
FACTS = Facts(
    spec=SPEC,
    now_ms=NOW_MS,
    start=Start(),
    cores=4,
    disk_free_bytes=50_000_000_000,
    data="/data",
    kafka=KAFKA,
    clickhouse=CLICKHOUSE,
    postgres=POSTGRES,
    checkpoints=(CHECKPOINT,),
)


def respecified(**changes: Any) -> PipelineSpec:
    """The spec with other sections."""
    return PipelineSpec(**{**SPEC.model_dump(mode="json", by_alias=True, exclude_none=True), **changes})


def with_kafka(**changes: Any) -> Facts:
    return replace(FACTS, kafka=replace(KAFKA, **changes))


def with_topic(name: str, **changes: Any) -> Facts:
    return with_kafka(topics={**KAFKA.topics, name: topic(name, **changes)})


def with_clickhouse(**changes: Any) -> Facts:
    return replace(FACTS, clickhouse=replace(CLICKHOUSE, **changes))


def with_postgres(**changes: Any) -> Facts:
    return replace(FACTS, postgres=replace(POSTGRES, **changes))


def with_checkpoint(**changes: Any) -> Facts:
    return replace(FACTS, checkpoints=(replace(CHECKPOINT, **changes),))


def matters(facts: Facts, rules: Iterable[Rule] = RULES) -> list[Finding]:
    """What a person would have to read: all that is not well."""
    return [finding for rule in rules for finding in rule(facts) if finding.severity != "ok"]


def told(facts: Facts) -> list[tuple[str, str, str]]:
    return [(finding.severity, finding.about, finding.what) for finding in matters(facts)]


def only(facts: Facts) -> Finding:
    """The one thing that is not well."""
    found = matters(facts)
    assert len(found) == 1, [finding.text() for finding in found]
    return found[0]
