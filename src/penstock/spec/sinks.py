"""The sinks of a description: which rows they get, and how."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from penstock.spec.names import Identifier, Name, TableName, Topic, listed
from penstock.spec.sections import ColumnNames, Section
from penstock.spec.units import Count

WRITERS_MAX = 256
"""Each has a partition of the topic of positions, and Kafka never takes a partition back."""


def _few(writers: int) -> int:
    if writers > WRITERS_MAX:
        raise ValueError(f"expected at most {WRITERS_MAX}")
    return writers


def _distinct(rows: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(rows)) < len(rows):
        raise ValueError("expected each kind of row once")
    return rows


RowKind = Literal["final", "live", "events", "rejected", "late", "duplicate", "refused"]
ASIDE: frozenset[RowKind] = frozenset({"rejected", "late", "duplicate", "refused"})
"""What is set aside: single records as they came, and rows that another sink does not take."""

Rows = Annotated[
    tuple[RowKind, ...],
    BeforeValidator(listed),
    AfterValidator(_distinct),
    Field(
        min_length=1,
        description="Which rows it gets, one kind or a list: final (a session or window has closed, or was"
        " corrected), live (an open one, after each batch that touched it), events (each good event,"
        " enriched), rejected (events that cleanse refused), late (events after the lateness), duplicate"
        " (events that dedupe had seen), refused (rows that another sink does not take: without a sink for"
        " them the pipeline stops at the first).",
        examples=["final", ["rejected", "late"]],
    ),
]
Guarantee = Annotated[
    Literal["exactly_once", "at_least_once"],
    Field(
        description="exactly_once: a replayed batch is recognised and not written twice."
        " at_least_once: cheaper; a crash may repeat the last batch.",
        examples=["exactly_once"],
    ),
]
SinkName = Annotated[
    Name, Field(description="What the sink is called in reports and overrides.", examples=["sessions"])
]
EventColumns = Annotated[
    ColumnNames,
    Field(
        description="The columns of events rows; all of them unless given.",
        examples=[["transaction_id", "amount"]],
    ),
]
EventKey = Annotated[
    str | None,
    Field(
        description="The column that names an event, for rows = events: a repeated event replaces itself.",
        examples=["transaction_id"],
    ),
]

Writers = Annotated[
    Count,
    AfterValidator(_few),
    Field(
        description="For rows = events: how many tasks write a batch side by side, each the keys of its slot"
        " in a transaction of its own. 1: the driver writes the whole. More pay off only where writing is"
        " what holds batches up and cores are idle. Fixed for a checkpoint.",
        examples=[4],
    ),
]


class KafkaSink(Section):
    """Rows as JSON records on a Kafka topic."""

    kind: Literal["kafka"] = Field(
        default="kafka", description="Which kind of sink; always written in TOML.", examples=["kafka"]
    )
    topic: Topic = Field(description="The topic to write.", examples=["sessions"])
    name: SinkName = Field(default_factory=lambda sink: str(sink.get("topic", "")))
    rows: Rows = ("final",)
    guarantee: Guarantee = "exactly_once"
    latency: Literal["batch", "realtime"] = Field(
        default="batch",
        description="realtime, for rows = events with guarantee = at_least_once: each event leaves as soon as"
        " it came, in tens of milliseconds.",
        examples=["realtime"],
    )
    key: EventKey = None
    columns: EventColumns = ()
    writers: Writers = 1

    @property
    def target(self) -> str:
        return self.topic


class ClickHouseSink(Section):
    """Rows in a ClickHouse table."""

    kind: Literal["clickhouse"] = Field(
        default="clickhouse",
        description="Which kind of sink; always written in TOML.",
        examples=["clickhouse"],
    )
    table: Identifier = Field(description="The table to write.", examples=["sessions"])
    name: SinkName = Field(default_factory=lambda sink: str(sink.get("table", "")))
    rows: Rows = ("final",)
    guarantee: Guarantee = "exactly_once"
    key: EventKey = None
    columns: EventColumns = ()
    writers: Writers = 1

    @property
    def target(self) -> str:
        return self.table


class PostgresSink(Section):
    """Rows in a PostgreSQL table, upserted: a session or window by its id, an event by its key."""

    kind: Literal["postgres"] = Field(
        default="postgres",
        description="Which kind of sink; always written in TOML.",
        examples=["postgres"],
    )
    table: TableName = Field(description="The table to write.", examples=["transactions"])
    name: SinkName = Field(default_factory=lambda sink: str(sink.get("table", "")))
    rows: Rows = ("final",)
    guarantee: Guarantee = "exactly_once"
    key: EventKey = None
    columns: EventColumns = ()
    writers: Writers = 1
    max_rows: Count = Field(
        default=5_000,
        description="The most rows in one statement; all statements of a batch are one transaction.",
        examples=["5,000"],
    )

    @property
    def target(self) -> str:
        return self.table


Sink = Annotated[KafkaSink | ClickHouseSink | PostgresSink, Field(discriminator="kind")]


def slots_on_kafka(sinks: Iterable[Sink]) -> int:
    """The most slots that a Kafka sink has: each position is on a partition of its own."""
    return max((sink.writers for sink in sinks if sink.kind == "kafka"), default=1)
