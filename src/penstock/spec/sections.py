"""The sections of a description, each key with its meaning, its default and examples."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
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


def _expressions(given: object) -> object:
    if not isinstance(given, Mapping):
        raise ValueError('expected a section of name = "Spark SQL"')
    return given


def _plain_value(given: object) -> object:
    if not isinstance(given, str | int | float | bool) or given in (inf, -inf) or given != given:
        raise ValueError("expected text, a finite number, true or false")
    return given


def _positive(duration: Duration) -> Duration:
    if duration.ms == 0:
        raise ValueError("expected more than 0")
    return duration


Sql = Annotated[str, AfterValidator(_condition)]
NamedSql = Annotated[dict[Identifier, Sql], BeforeValidator(_expressions)]
ColumnNames = Annotated[tuple[str, ...], BeforeValidator(listed)]
PositiveDuration = Annotated[Duration, AfterValidator(_positive)]
PlainValue = Annotated[str | int | float | bool, BeforeValidator(_plain_value)]


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
    min_batch: Count | None = Field(
        default=None,
        description="The least rows worth a micro-batch: fewer are waited for, but not longer than max_wait.",
        examples=[500],
    )
    max_wait: PositiveDuration = Field(
        default=Duration.parse("1 second"),
        description="How long min_batch may hold a record back.",
        examples=["1 second"],
    )

    @property
    def ddl(self) -> str:
        """The schema as one line of Spark DDL."""
        return _ddl(self.columns)


class Dedupe(Section):
    """Events that come a second time are told apart by their id; they leave as `duplicate` rows."""

    on: str = Field(description="The column that names an event.", examples=["event_id"])
    within: PositiveDuration = Field(
        description="How long, by the event's own time and the clock, an id is remembered for its key.",
        examples=["10 minutes"],
    )


class Cleanse(Section):
    """Which events are good. The others leave as `rejected` rows, with the reason."""

    set: NamedSql = Field(
        default={},
        description="Columns made or normalised by Spark SQL, from the columns as they came;"
        " all other keys see the result.",
        examples=[{"event_type": "lower(trim(event_type))"}],
    )
    require: ColumnNames = Field(
        default=(), description="Columns that must not be null.", examples=[["event_id", "ts"]]
    )
    where: NamedSql = Field(
        default={},
        description="Spark SQL conditions that a good event meets, each with the name that a reject gives.",
        examples=[{"price_not_negative": "price IS NULL OR price >= 0"}],
    )
    dedupe: Dedupe | None = None
    future: Duration = Field(
        default=Duration.parse("5 minutes"),
        description="An event time further ahead of the broker's clock than this is refused,"
        " so that one wrong clock cannot close every session.",
        examples=["5 minutes"],
    )
    past: PositiveDuration | None = Field(
        default=None,
        description="An event time further behind the broker's clock than this is refused.",
        examples=["7 days"],
    )


class Enrich(Section):
    """Reference data joined to each event: a file or the result of a query."""

    name: Name = Field(description="What it is called in reports and overrides.", examples=["users"])
    path: str | None = Field(
        default=None,
        min_length=1,
        description="A Parquet or CSV file (with a header), relative to the data directory or absolute.",
        examples=["reference/users.parquet"],
    )
    query: str | None = Field(
        default=None,
        min_length=1,
        description="Instead of a path: a SELECT for PostgreSQL.",
        examples=["SELECT user_id, segment, country FROM users"],
    )
    on: str = Field(
        description="The column to match, of the same name in the event and the reference data.",
        examples=["user_id"],
    )
    take: ColumnNames = Field(
        min_length=1,
        description="The columns to take; their types come from the reference data.",
        examples=[["segment", "country"]],
    )
    default: dict[str, PlainValue] = Field(
        default={},
        description="What a column is where the key is unknown; null unless given.",
        examples=[{"segment": "unknown"}],
    )
    refresh: PositiveDuration | None = Field(
        default=None,
        description="How often to look for a new version while running; never unless given.",
        examples=["5 minutes"],
    )


class Grouping(Section):
    """What sessions and windows have in common: a key, a clock, and measures."""

    key: str = Field(description="The column whose values are kept apart.", examples=["user_id"])
    out_of_order: Duration = Field(
        default=Duration.parse("3 seconds"),
        description="How far behind the newest event others may arrive before anything closes.",
        examples=["3 seconds"],
    )
    lateness: Duration = Field(
        default=Duration.parse("2 minutes"),
        description="How long after closing an event still corrects; a later one is a late row.",
        examples=["2 minutes"],
    )
    idle: PositiveDuration = Field(
        default=Duration.parse("1 minute"),
        description="When nothing has come for this long by the wall clock, the clock goes on by itself, this"
        " far behind: a silent topic does not hold anything open.",
        examples=["1 minute"],
    )
    partitions: Count = Field(
        default=4,
        description="State partitions: the most tasks that can work on it. Fixed for a checkpoint's life.",
        examples=[4],
    )
    combine: bool = Field(
        default=False,
        description="Fold events of a key before they go to the task of that key: for a key with more events"
        " than one core can take. Elsewhere it costs up to a tenth of the CPU. Any start may change it.",
        examples=[True],
    )
    measures: Annotated[tuple[Measure, ...], BeforeValidator(_measures), PlainSerializer(_measure_table)] = (
        Field(
            min_length=1,
            description="The columns of a row: a name and one aggregate of a Spark SQL expression (count,"
            " sum, min, max, first, last, distinct; first and last by event time). A distinct is exact up to"
            " 1,024 values; NAME_exact says whether it is. A sum is null while its column cannot hold it:"
            " beyond 64 bits of whole numbers, 38 digits of decimals.",
            examples=[{"events": "count(*)", "revenue": "sum(price)"}],
        )
    )


class Sessions(Grouping):
    """Events of one key with no pause longer than the gap. A pipeline has sessions, windows or neither."""

    gap: PositiveDuration = Field(
        description="A session ends after this long without an event.", examples=["30 minutes"]
    )
    max_length: PositiveDuration | None = Field(
        default=None,
        description="No session is longer: all are cut at the multiples of this time since 1970 (UTC).",
        examples=["1 day"],
    )


class Windows(Grouping):
    """Events of one key in spans of fixed length. A pipeline has sessions, windows or neither."""

    size: PositiveDuration = Field(description="How long a window is.", examples=["1 minute"])
    slide: PositiveDuration | None = Field(
        default=None,
        description="How far apart windows start, if not one after the other: size is a multiple of it.",
        examples=["10 seconds"],
    )

    @property
    def step(self) -> Duration:
        """How far apart windows start."""
        return self.slide or self.size


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
