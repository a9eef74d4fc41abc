"""How fast each store takes sessions, by the size of a batch: the sinks alone, without Spark."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import psycopg
import pyarrow as pa
from psycopg import sql

from penstock.bench.limits import Limits, Use, limiting, using
from penstock.bench.rig import Rig
from penstock.sinks.clickhouse import ClickHouseSink
from penstock.sinks.control import ensure_control_topic
from penstock.sinks.encode import json_rows
from penstock.sinks.kafka import KeyedKafkaSink, TransactionalKafkaSink
from penstock.sinks.pgcopy import column_type
from penstock.sinks.postgres import PostgresSink
from penstock.sinks.protocol import Batch, Sink
from penstock.sinks.topics import ensure_topics

SIZES = (1, 500, 5_000)
_ROWS = 20_000
_BATCHES_MIN, _BATCHES_MAX = 5, 40
_KEY = "session_id"


@dataclass(frozen=True)
class Taken:
    """What a store took in of batches of one size."""

    store: str
    guarantee: str
    batch: int
    rows_per_s: float
    cpu_s_per_million: float
    """Of the whole machine: the store's share is in it."""
    limited_by: str


def measure_stores(rig: Rig, limits: Limits, sizes: Sequence[int] = SIZES) -> list[Taken]:
    """Every store, with either guarantee, by the size of a batch; the first batch is not counted."""
    found: list[Taken] = []
    for store, open_sink in _openers(rig).items():
        for guarantee in ("exactly_once", "at_least_once"):
            for size in sizes:
                query = f"stores-{uuid.uuid4().hex[:8]}"
                with closing(open_sink(query, guarantee == "exactly_once")) as sink:
                    use, rows = _write(sink, query, size)
                cpu = use.cpu_s / rows * 1e6
                by, _ = limiting(use, limits)
                found.append(Taken(store, guarantee, size, rows / use.seconds, cpu, by))
    return found


def _openers(rig: Rig) -> dict[str, Callable[[str, bool], Sink]]:
    at = rig.addresses

    def topic(query: str, exactly_once: bool) -> Sink:
        ensure_topics(at.kafka, {query: 4})
        ensure_control_topic(at.kafka, slots=1)
        if not exactly_once:
            return KeyedKafkaSink("rows", at.kafka, query, json_rows(_KEY))
        return TransactionalKafkaSink("rows", at.kafka, query, query, json_rows(_KEY))

    def clickhouse(query: str, exactly_once: bool) -> Sink:
        keep = "all" if exactly_once else "newest"
        return ClickHouseSink("rows", at.clickhouse, _table(query), query, key=(_KEY,), keep=keep)

    def postgres(query: str, exactly_once: bool) -> Sink:
        return PostgresSink(
            "rows",
            at.postgres,
            _table(query),
            query,
            key=(_KEY,),
            version="version",
            exactly_once=exactly_once,
        )

    return {"kafka": topic, "clickhouse": clickhouse, "postgres": postgres}


def _table(query: str) -> str:
    return query.replace("-", "_")


def _write(sink: Sink, query: str, size: int) -> tuple[Use, int]:
    count = min(_BATCHES_MAX, max(_BATCHES_MIN, _ROWS // size))
    batches = [Batch.of(query, number, sessions(query, number, size)) for number in range(count + 1)]
    sink.write(batches[0])
    used: list[Use] = []
    with using(used.append):
        for batch in batches[1:]:
            sink.write(batch)
    return used[0], count * size


def single_inserts_per_s(postgres: str, count: int = 2_000) -> float:
    """Rows a second from a client without a sink, which inserts and commits each by itself."""
    rows = sessions("single", 0, count)
    table = sql.Identifier(f"single_{uuid.uuid4().hex[:8]}")
    with psycopg.connect(postgres, autocommit=True) as connection:
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(column_type(field)))
            for field in rows.schema
        )
        key = sql.Identifier(_KEY)
        connection.execute(sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY ({}))").format(table, columns, key))
        places = sql.SQL(", ").join([sql.Placeholder()] * rows.num_columns)
        insert = sql.SQL("INSERT INTO {} VALUES ({}) ON CONFLICT DO NOTHING").format(table, places)
        values = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        began = time.perf_counter()
        for row in values:
            connection.execute(insert, row)
        return count / (time.perf_counter() - began)


def sessions(query: str, number: int, size: int) -> pa.Table:
    """Rows like those of closed sessions, none like another."""
    serials = range(number * size, (number + 1) * size)
    columns = {
        _KEY: pa.array([f"u{n:08d}@1800000000000" for n in serials]),
        "version": pa.array([1] * size, pa.int64()),
        "start_ms": pa.array([1_800_000_000_000 + n for n in serials], pa.int64()),
        "end_ms": pa.array([1_800_000_600_000 + n for n in serials], pa.int64()),
        "is_final": pa.array([True] * size),
        "user_id": pa.array([f"u{n:08d}" for n in serials]),
        "events": pa.array([n % 40 for n in serials], pa.int64()),
        "revenue": pa.array([n % 997 / 10 for n in serials], pa.float64()),
        "first_page": pa.array(["/product"] * size),
        "country": pa.array(["de"] * size),
        "query": pa.array([query] * size),
        "batch": pa.array([number] * size, pa.int64()),
        "slot": pa.array([0] * size, pa.int32()),
    }
    required = {_KEY, "version", "query", "batch", "slot"}
    schema = pa.schema(
        [pa.field(name, column.type, nullable=name not in required) for name, column in columns.items()]
    )
    return pa.table(columns, schema=schema)
