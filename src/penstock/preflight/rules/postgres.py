"""Tables in PostgreSQL that take a row once, and a server that lets us."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.preflight.facts import Away, Facts, PostgresFacts, PostgresTable
from penstock.preflight.finding import Finding, error, ok, warning
from penstock.preflight.rules.away import away
from penstock.preflight.wanted import columns_of, key_of, positions_beside
from penstock.preflight.words import counted, listed
from penstock.spec import PostgresSink


def reachable(facts: Facts) -> Iterator[Finding]:
    match facts.postgres:
        case Away(where, why, refused):
            yield away("postgres", "PostgreSQL", where, why, refused=refused)
        case PostgresFacts(where, version):
            yield ok("postgres", f"{where}: version {version}")


def server(facts: Facts) -> Iterator[Finding]:
    """The server takes writes, and keeps them."""
    found, sinks = facts.postgres, _sinks(facts)
    if not isinstance(found, PostgresFacts) or not sinks:
        return
    if found.read_only:
        yield error(
            "postgres",
            f"{found.where} is read-only",
            why="It is a standby, or default_transaction_read_only is on: no batch can be written.",
            fix="Name the primary in [services] postgres.",
        )
    if not found.may_make_temporary:
        yield error(
            "postgres",
            "we may not make temporary tables",
            why="The rows of a batch go through one.",
            fix="GRANT TEMPORARY ON DATABASE ... TO the user.",
        )
    if not found.fsync:
        yield warning(
            "postgres",
            "fsync is off",
            why="A server that goes down loses what it had acknowledged, positions and rows alike.",
            fix="Set fsync = on.",
        )


def connections(facts: Facts) -> Iterator[Finding]:
    """There is room for our connections beside those of others."""
    found = facts.postgres
    if not isinstance(found, PostgresFacts):
        return
    ours = sum(sink.writers for sink in _sinks(facts)) + sum(1 for t in facts.spec.enrich if t.query)
    what = (
        f"{found.connections_free} of {found.connections_max} connections are free, the pipeline takes {ours}"
    )
    fix = "Raise max_connections, or close what is idle."
    if found.connections_free < ours:
        yield error("postgres", what, why="Some of its sinks could not connect.", fix=fix)
    elif found.connections_free < 2 * ours:
        # A sink that starts again may be there before the server has noticed that its old session is over.
        yield warning("postgres", what, why="After a crash both the old and the new ones are open.", fix=fix)


def tables(facts: Facts) -> Iterator[Finding]:
    """The tables are there, or can be made, and take a row by its key."""
    found = facts.postgres
    if not isinstance(found, PostgresFacts):
        return
    for sink in _sinks(facts):
        table = found.tables.get(sink.table)
        if table is None:
            yield _to_be_made(f"sink {sink.name}", sink.table, found)
        else:
            yield from _fits(facts, sink, table)
    for name in sorted({positions_beside(sink.table) for sink in _exactly_once(facts)}):
        positions = found.tables.get(name)
        if positions is None:
            yield _to_be_made("positions", name, found)
        elif not positions.writable:
            yield _not_writable("positions", name)


def _fits(facts: Facts, sink: PostgresSink, table: PostgresTable) -> Iterator[Finding]:
    about, key = f"sink {sink.name}", key_of(facts.spec, sink)
    missing = [name for name in columns_of(facts.spec, sink) if name not in table.columns]
    if missing:
        adds = listed(f"ADD COLUMN {name} TYPE" for name in missing)
        yield error(
            about,
            f"table {sink.table} has no column {listed(missing)}",
            why="The first batch would fail.",
            fix=f"ALTER TABLE {sink.table} {adds}; or name another table in the spec.",
        )
    if frozenset({key}) not in table.unique:
        yield error(
            about,
            f"table {sink.table} has no unique index on {key}",
            why="Rows are put in by their key: without one, the first batch fails.",
            fix=f"CREATE UNIQUE INDEX ON {sink.table} ({key})",
        )
    if not table.writable:
        yield _not_writable(about, sink.table)
    elif not missing and frozenset({key}) in table.unique:
        yield ok(about, f"table {sink.table}: {counted(len(table.columns), 'column')}, unique by {key}")


def _to_be_made(about: str, table: str, found: PostgresFacts) -> Finding:
    if found.creatable.get(table, True):
        return ok(about, f"table {table} is not there; the first batch creates it")
    return error(
        about,
        f"table {table} is not there, and we may not create it",
        why="The first batch would fail.",
        fix="GRANT CREATE ON SCHEMA ... TO the user; or create it by other means.",
    )


def _not_writable(about: str, table: str) -> Finding:
    return error(
        about,
        f"we may not write to table {table}",
        why="The first batch would fail.",
        fix=f"GRANT SELECT, INSERT, UPDATE ON {table} TO the user.",
    )


def _sinks(facts: Facts) -> list[PostgresSink]:
    return [sink for sink in facts.spec.sink if isinstance(sink, PostgresSink)]


def _exactly_once(facts: Facts) -> list[PostgresSink]:
    return [sink for sink in _sinks(facts) if sink.guarantee == "exactly_once"]
