"""What a ClickHouse server tells of the pipeline's tables."""

from __future__ import annotations

import re

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError

from penstock.errors import first_line
from penstock.preflight.facts import (
    Away,
    ClickHouseFacts,
    ClickHouseTable,
    Held,
    NoPosition,
    Unreadable,
    queries,
)
from penstock.sinks.clickhouse import POSITIONS_TABLE, connect
from penstock.sinks.protocol import Position
from penstock.spec import ClickHouseSink, PipelineSpec, Sink

_TABLES = """
SELECT name, engine, engine_full, partition_key FROM system.tables
WHERE database = currentDatabase() AND name IN {names:Array(String)}
"""
_COLUMNS = """
SELECT table, groupArray(name) FROM system.columns
WHERE database = currentDatabase() AND table IN {names:Array(String)} GROUP BY table
"""
_POSITIONS = f"""
SELECT slot, batch, rows, digest FROM {POSITIONS_TABLE}
WHERE query = {{query:String}} AND sink = {{sink:String}} ORDER BY batch DESC LIMIT 1 BY slot
"""  # noqa: S608  (a constant)


def read_clickhouse(spec: PipelineSpec, address: str) -> ClickHouseFacts | Away:
    where = address.rpartition("@")[2]  # without a password
    try:
        client = connect(address)
        try:
            return _facts(spec, client, where)
        finally:
            client.close()
    except OperationalError as error:
        return Away(where, first_line(error))
    except ClickHouseError as error:  # an answer, but not to our question: a wrong password, no such database
        return Away(where, first_line(error), refused=True)


def _facts(spec: PipelineSpec, client: Client, where: str) -> ClickHouseFacts:
    sinks = [sink for sink in spec.sink if isinstance(sink, ClickHouseSink)]
    names = {"names": [*(sink.table for sink in sinks), POSITIONS_TABLE]}
    columns = {name: frozenset(found) for name, found in client.query(_COLUMNS, parameters=names).result_rows}
    tables = {
        name: ClickHouseTable(engine, columns.get(name, frozenset()), _window(engine_full), partition_key)
        for name, engine, engine_full, partition_key in client.query(_TABLES, parameters=names).result_rows
    }
    once = [sink.name for sink in sinks if sink.guarantee == "exactly_once"]
    positions = {
        sink.name: _positions(client, query, sink)
        if POSITIONS_TABLE in tables
        else (NoPosition(),) * sink.writers
        for query, its_sinks in queries(spec).items()
        for sink in its_sinks
        if sink.name in once
    }
    return ClickHouseFacts(
        where=where,
        version=str(client.server_version),
        tables={name: tables.get(name) for name in names["names"]},
        may_create=_may_create(client),
        positions=positions,
    )


def _window(engine_full: str) -> int:
    """Of a table that is not replicated; 0 unless it was set."""
    found = re.search(r"\bnon_replicated_deduplication_window\s*=\s*(\d+)", engine_full)
    return int(found[1]) if found else 0


def _positions(client: Client, query: str, sink: Sink) -> tuple[Held, ...]:
    try:
        found = client.query(_POSITIONS, parameters={"query": query, "sink": sink.name}).result_rows
    except ClickHouseError as error:
        return (Unreadable(first_line(error)),) * sink.writers
    held = {slot: Position(*rest) for slot, *rest in found}
    return tuple(held.get(slot, NoPosition()) for slot in range(sink.writers))


def _may_create(client: Client) -> bool | None:
    try:
        return bool(client.query("CHECK GRANT CREATE TABLE, CREATE VIEW ON *").result_rows[0][0])
    except (ClickHouseError, IndexError):  # a server older than the statement
        return None
