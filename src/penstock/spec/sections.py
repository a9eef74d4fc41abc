"""The sections of a description, each key with its meaning, its default and examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
)

from penstock.errors import SpecError
from penstock.spec.names import (
    ClickHouseAddress,
    Identifier,
    KafkaAddress,
    Name,
    PostgresAddress,
    Topic,
    listed,
)
from penstock.spec.problems import explain
from penstock.spec.sql import Aggregate, Column, Measure, parse_expression, parse_measure, parse_schema
from penstock.spec.units import Count, Duration


class Section(BaseModel):
    """A part of a description: frozen, and without room for unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            found = [problem.line(given) for problem in explain(type(self), error, given)]
            raise SpecError(type(self).__name__, found) from None

    # Without this mark pydantic would build nested sections through __init__, and the first wrong
    # section would hide the problems of all others.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


def _all(kind: type, given: object) -> bool:
    return isinstance(given, list | tuple) and all(isinstance(item, kind) for item in given)


def _columns(given: object) -> object:
    if isinstance(given, str):
        return parse_schema(given)
    if not _all(Column, given):
        raise ValueError('expected Spark DDL in quotes, e.g. "user_id string, ts long"')
    return given


def _ddl(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns)


def _condition(text: str) -> str:
    parse_expression(text)
    return text


def _call(given: object) -> tuple[Aggregate, str | None]:
    if not isinstance(given, str):
        raise ValueError('expected an aggregate in quotes, e.g. "sum(price)"')
    return parse_measure(given)


_NAMED_CALLS = TypeAdapter(dict[Identifier, Annotated[Any, AfterValidator(_call)]])


def _measures(given: object) -> object:
    if _all(Measure, given):
        return given
    if not isinstance(given, Mapping):
        raise ValueError('expected a section of measures, e.g. events = "count(*)"')
    calls = _NAMED_CALLS.validate_python(given)
    return [Measure(name, function, expression) for name, (function, expression) in calls.items()]


def _measure_table(measures: tuple[Measure, ...]) -> dict[str, str]:
    return {measure.name: measure.text for measure in measures}


def _distinct(rows: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(rows)) < len(rows):
        raise ValueError("expected each kind of row once")
    return rows


def _positive(duration: Duration) -> Duration:
    if duration.ms == 0:
        raise ValueError("expected more than 0")
    return duration


Sql = Annotated[str, AfterValidator(_condition)]
ColumnNames = Annotated[tuple[str, ...], BeforeValidator(listed)]
RowKind = Literal["final", "live", "rejected", "late"]
Rows = Annotated[
    tuple[RowKind, ...],
    BeforeValidator(listed),
    AfterValidator(_distinct),
    Field(
        min_length=1,
        description="Which rows it gets, one kind or a list: final (a session has closed, or was corrected),"
        " live (an open session, after each batch that touched it), rejected (events that cleanse refused),"
        " late (events after the lateness).",
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


class Source(Section):
    """The Kafka topic that is read."""

    topic: Topic = Field(description="The topic to read.", examples=["clicks"])
    partitions: Count = Field(
        default=8, description="Partitions of the topic; used when Penstock creates it.", examples=[8]
    )
    format: Literal["json"] = Field(
        default="json", description="How a record's value is written.", examples=["json"]
    )
    columns: Annotated[tuple[Column, ...], BeforeValidator(_columns), PlainSerializer(_ddl)] = Field(
        alias="schema",
        min_length=1,
        description="The columns of a record, as Spark DDL: string, boolean, byte, short, int, long, float,"
        " double, decimal(p,s), date, timestamp, timestamp_ntz, binary (base64), struct<...>, array<...>,"
        " map<string,...>.",
        examples=["user_id string, price double, ts long", "at timestamp, items array<struct<id: int>>"],
    )
    key: str = Field(description="The column producers use as the record's key.", examples=["user_id"])
    event_time: str = Field(
        description="The column with the time of the event: a long, in epoch milliseconds.", examples=["ts"]
    )
    created: str | None = Field(
        default=None,
        description="The column with the wall clock when the record was made: a long, in epoch milliseconds."
        " With it, end-to-end latency is measured.",
        examples=["created_ms"],
    )
    epoch: Literal["ms", "s"] = Field(
        default="ms",
        description="What a number means where the schema says timestamp:"
        " milliseconds or seconds since 1970.",
        examples=["s"],
    )
    starting: Literal["earliest", "latest"] = Field(
        default="earliest",
        description="Where the first run begins; later runs go on where the last one stopped.",
        examples=["latest"],
    )
    max_batch: Count = Field(
        default=200_000, description="The most rows one micro-batch may read.", examples=["200,000", "50k"]
    )

    @property
    def ddl(self) -> str:
        """The schema as one line of Spark DDL."""
        return _ddl(self.columns)


class Cleanse(Section):
    """Which events are good. The others leave as `rejected` rows, with the reason."""

    require: ColumnNames = Field(
        default=(), description="Columns that must not be null.", examples=[["event_id", "ts"]]
    )
    where: Sql | None = Field(
        default=None,
        description="A Spark SQL condition that a good event meets.",
        examples=["price IS NULL OR price >= 0"],
    )
    future: Duration = Field(
        default=Duration.parse("5 minutes"),
        description="An event time further ahead of the broker's clock than this is refused,"
        " so that one wrong clock cannot close every session.",
        examples=["5 minutes"],
    )


class Enrich(Section):
    """Reference data joined to each event. An event without a match keeps nulls."""

    name: Name = Field(description="What it is called in reports and overrides.", examples=["users"])
    path: str = Field(
        min_length=1,
        description="A Parquet file, relative to the data directory or absolute.",
        examples=["reference/users.parquet"],
    )
    on: str = Field(
        description="The column to match, of the same name in the schema and the file.", examples=["user_id"]
    )
    take: ColumnNames = Field(
        min_length=1,
        description="The columns to take from the file; their types come from it.",
        examples=[["segment", "country"]],
    )


class Sessions(Section):
    """Events of one key with no pause longer than the gap."""

    key: str = Field(description="The column whose values have sessions.", examples=["user_id"])
    gap: Annotated[Duration, AfterValidator(_positive)] = Field(
        description="A session ends after this long without an event.", examples=["30 minutes"]
    )
    out_of_order: Duration = Field(
        default=Duration.parse("3 seconds"),
        description="How far behind the newest event others may arrive before their session can close.",
        examples=["3 seconds"],
    )
    lateness: Duration = Field(
        default=Duration.parse("2 minutes"),
        description="How long after closing an event still corrects its session; a later one is a late row.",
        examples=["2 minutes"],
    )
    partitions: Count = Field(
        default=4,
        description="State partitions: the most tasks that sessions can use. Fixed for a checkpoint's life.",
        examples=[4],
    )
    measures: Annotated[tuple[Measure, ...], BeforeValidator(_measures), PlainSerializer(_measure_table)] = (
        Field(
            min_length=1,
            description="The columns of a session: a name and one aggregate of a Spark SQL expression"
            " (count, sum, min, max, first, last; first and last by event time).",
            examples=[{"events": "count(*)", "revenue": "sum(price)"}],
        )
    )


class KafkaSink(Section):
    """Rows as JSON records on a Kafka topic."""

    kind: Literal["kafka"] = Field(
        default="kafka", description="Which kind of sink; always written in TOML.", examples=["kafka"]
    )
    topic: Topic = Field(description="The topic to write.", examples=["sessions"])
    name: SinkName = Field(default_factory=lambda sink: str(sink.get("topic", "")))
    rows: Rows = ("final",)
    guarantee: Guarantee = "exactly_once"

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

    @property
    def target(self) -> str:
        return self.table


Sink = Annotated[KafkaSink | ClickHouseSink, Field(discriminator="kind")]


class ServiceAddresses(Section):
    """Where the services are: an address, or "embedded" for the one that `penstock up` starts."""

    kafka: KafkaAddress = Field(
        default="embedded", description="Bootstrap brokers.", examples=["broker1:9092,broker2:9092"]
    )
    clickhouse: ClickHouseAddress = Field(
        default="embedded",
        description="ClickHouse's HTTP interface.",
        examples=["http://user:password@host:8123"],
    )
    postgres: PostgresAddress = Field(
        default="embedded",
        description="PostgreSQL.",
        examples=["postgresql://user:password@host:5432/database"],
    )
