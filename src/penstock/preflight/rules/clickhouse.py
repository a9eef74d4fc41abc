"""Tables in ClickHouse that can hold a batch once."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.preflight.facts import Away, ClickHouseFacts, ClickHouseTable, Facts
from penstock.preflight.finding import Finding, error, ok, warning
from penstock.preflight.rules.away import away
from penstock.preflight.wanted import columns_of
from penstock.preflight.words import counted, listed
from penstock.sinks.clickhouse import POSITIONS_TABLE
from penstock.spec import ClickHouseSink

_WINDOW_MIN = 100
"""Inserts that a table should remember. One would do for a single sink that writes to it alone."""


def reachable(facts: Facts) -> Iterator[Finding]:
    match facts.clickhouse:
        case Away(where, why, refused):
            yield away("clickhouse", "ClickHouse", where, why, refused=refused)
        case ClickHouseFacts(where, version):
            yield ok("clickhouse", f"{where}: version {version}")


def tables(facts: Facts) -> Iterator[Finding]:
    """The tables are there, or can be made, and have the columns."""
    if not isinstance(facts.clickhouse, ClickHouseFacts):
        return
    for sink in _sinks(facts):
        about, table = f"sink {sink.name}", facts.clickhouse.tables.get(sink.table)
        if table is None:
            yield _to_be_made(about, sink.table, facts.clickhouse)
            continue
        missing = [name for name in columns_of(facts.spec, sink) if name not in table.columns]
        if missing:
            adds = listed(f"ADD COLUMN {name} TYPE" for name in missing)
            yield error(
                about,
                f"table {sink.table} has no column {listed(missing)}",
                why="The first batch would fail.",
                fix=f"ALTER TABLE {sink.table} {adds}; or name another table in the spec.",
            )
        else:
            yield ok(about, f"table {sink.table}: {table.engine}, {counted(len(table.columns), 'column')}")
    once = any(sink.guarantee == "exactly_once" for sink in _sinks(facts))
    if once and facts.clickhouse.tables.get(POSITIONS_TABLE) is None:
        yield _to_be_made("positions", POSITIONS_TABLE, facts.clickhouse)


def _to_be_made(about: str, table: str, clickhouse: ClickHouseFacts) -> Finding:
    if clickhouse.may_create is False:
        return error(
            about,
            f"table {table} is not there, and we may not create it",
            why="The first batch would fail.",
            fix="GRANT CREATE TABLE, CREATE VIEW ON the database TO the user; or create it by other means.",
        )
    return ok(about, f"table {table} is not there; the first batch creates it")


def engines(facts: Facts) -> Iterator[Finding]:
    """Tables that were there before keep rows as the guarantee needs them."""
    if not isinstance(facts.clickhouse, ClickHouseFacts):
        return
    for sink in _sinks(facts):
        table = facts.clickhouse.tables.get(sink.table)
        if table is None:
            continue
        if sink.guarantee == "exactly_once":
            yield from _once(sink, table)
        elif "Replacing" not in table.engine:
            yield warning(
                f"sink {sink.name}",
                f"table {sink.table} is a {table.engine}, and the guarantee is at_least_once",
                why="A batch that comes again after a crash is there twice: nothing replaces the first.",
                fix="Make the table a ReplacingMergeTree, or set the sink's guarantee to exactly_once.",
            )


def _once(sink: ClickHouseSink, table: ClickHouseTable) -> Iterator[Finding]:
    about, window = f"sink {sink.name}", table.deduplication_window
    alter = f"ALTER TABLE {sink.table} MODIFY SETTING non_replicated_deduplication_window = 1000"
    if not table.engine.endswith("MergeTree"):
        yield error(
            about,
            f"table {sink.table} is a {table.engine}, which recognises no insert",
            why="An insert whose answer was lost, and that is sent again, would be there twice.",
            fix="Name the table of the MergeTree family that holds the rows, or set at_least_once.",
        )
    elif table.engine.startswith(("Replicated", "Shared")):
        pass  # 1,000 by default in newer servers, 100 in older ones
    elif window == 0:
        yield error(
            about,
            f"table {sink.table} remembers no insert (non_replicated_deduplication_window = 0)",
            why="An insert whose answer was lost, and that is sent again, would be there twice.",
            fix=alter,
        )
    elif window < _WINDOW_MIN:
        yield warning(
            about,
            f"table {sink.table} remembers {counted(window, 'insert')} (non_replicated_deduplication_window)",
            why="If others write to it too, ours is forgotten before it can come again.",
            fix=alter,
        )
    if table.engine.endswith(
        ("ReplacingMergeTree", "SummingMergeTree", "AggregatingMergeTree", "CollapsingMergeTree")
    ):
        yield warning(
            about,
            f"table {sink.table} is a {table.engine}, which merges rows",
            why="The rows of a batch are counted when it comes again: rows that were merged look lost.",
            fix="Make the table a MergeTree, or set the sink's guarantee to at_least_once.",
        )
    if table.partition_key:
        yield warning(
            about,
            f"table {sink.table} is partitioned by {table.partition_key}",
            why="An insert becomes a block for each partition, so a batch is not visible as a whole.",
            fix="Make the table without PARTITION BY.",
        )


def _sinks(facts: Facts) -> list[ClickHouseSink]:
    return [sink for sink in facts.spec.sink if isinstance(sink, ClickHouseSink)]
