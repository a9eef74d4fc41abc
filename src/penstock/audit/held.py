"""What the sinks of a pipeline hold, read from the stores themselves."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

import psycopg
import pyarrow as pa
from psycopg import sql

from penstock.audit.sent import Identity, identity
from penstock.audit.topic import read_topic
from penstock.engine.outputs import Endpoints
from penstock.engine.rows import span_id
from penstock.errors import ServiceError
from penstock.sinks.clickhouse import connect
from penstock.spec import ClickHouseSink, KafkaSink, PipelineSpec, Sink

_SPAN = pa.schema([("version", pa.int64()), ("kind", pa.string())])


@dataclass
class Letters:
    """The dead letters of one sink."""

    total: int = 0
    origins: set[tuple[object, object]] = field(default_factory=set)
    """Partition and offset of each record."""
    late: Counter[Identity] = field(default_factory=Counter)
    duplicate: Counter[Identity] = field(default_factory=Counter)


def held_rows(spec: PipelineSpec, sink: Sink, wanted: pa.Schema, at: Endpoints) -> pa.Table:
    """All rows that a sink holds, with those of the wanted columns that it has, and `version` and `kind`."""
    names = _columns(spec, sink)
    schema = pa.schema([column for column in wanted if column.name in names])
    if "events" not in sink.rows:
        schema = pa.unify_schemas([schema, _SPAN])
    if isinstance(sink, KafkaSink):
        rows = (json.loads(message.value() or b"") for message in read_topic(at.kafka, sink.topic))
        return pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema)
    if isinstance(sink, ClickHouseSink):
        client = connect(at.clickhouse)
        listed = ", ".join(f"`{name}`" for name in schema.names)
        query = f"SELECT {listed} FROM {sink.table}"  # noqa: S608  (names of the spec)
        found = client.query_arrow(query, use_strings=True).cast(schema)
        client.close()
        return found
    return _postgres_rows(at.postgres, sink.table, schema)


def _columns(spec: PipelineSpec, sink: Sink) -> set[str]:
    """The columns that readers of a sink see."""
    if "events" in sink.rows or spec.grouping is None:
        return set(spec.event_columns(sink))
    measures = {name for measure in spec.grouping.measures for name in measure.columns}
    return {span_id(spec), "start_ms", "end_ms", spec.grouping.key, *measures}


def _postgres_rows(address: str, table: str, schema: pa.Schema) -> pa.Table:
    query = sql.SQL("SELECT {} FROM {}").format(
        sql.SQL(", ").join(map(sql.Identifier, schema.names)), sql.Identifier(*table.split("."))
    )
    try:
        with psycopg.connect(address, connect_timeout=5) as connection:
            rows = connection.execute(query).fetchall()
    except psycopg.Error as error:
        raise ServiceError(f"table {table} of PostgreSQL cannot be read: {error}") from error
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def dead_letters(sink: KafkaSink, query: str, kafka: str) -> Letters:
    """The letters that a query wrote; a topic of dead letters may be shared."""
    letters = Letters()
    for message in read_topic(kafka, sink.topic):
        headers = dict(message.headers() or [])
        if headers.get("penstock.query") != query.encode():
            continue
        letters.total += 1
        letters.origins.add((headers.get("penstock.partition"), headers.get("penstock.offset")))
        match headers.get("penstock.kind"):
            case b"late":
                names = letters.late
            case b"duplicate":
                names = letters.duplicate
            case _:
                continue
        if (name := identity(message.value())) is not None:
            names[name] += 1
    return letters


def newest_tick_ms(topic: str, kafka: str) -> int:
    """The event time up to which the pipeline's own clock went on while nothing came."""
    return max((int(message.value() or 0) for message in read_topic(kafka, topic)), default=0)
