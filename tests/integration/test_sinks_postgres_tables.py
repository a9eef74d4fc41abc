"""Tables in PostgreSQL: keys and versions, tables of the user's own, and what is wrong with a table."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import sql

from penstock.errors import SinkError
from penstock.local.services import Addresses
from penstock.sinks.pgtable import newest_of_each
from penstock.sinks.protocol import Batch
from tests.integration.places.place import new_place, session
from tests.integration.places.postgres import PostgresPlace

pytestmark = pytest.mark.integration


@pytest.fixture
def place(services: Addresses) -> Iterator[PostgresPlace]:
    with new_place(PostgresPlace, services.postgres) as here:
        yield here


@pytest.fixture
def live(services: Addresses) -> Iterator[PostgresPlace]:
    with new_place(PostgresPlace, services.postgres, exactly_once=False) as here:
        yield here


def test_a_row_gives_way_only_to_a_higher_version(live: PostgresPlace) -> None:
    sink = live.writer()
    sink.write(live.batch(0, [session("u1", "live", 1), session("u2", "live", 1)]))
    sink.write(live.batch(1, [session("u1", "final", 3, events=3), session("u2", "live", 2, events=2)]))
    # As a batch that comes again after the next one has been there.
    assert not sink.write(
        live.batch(0, [session("u1", "live", 1), session("u2", "live", 2, events=9)])
    ).replayed
    assert live.latest() == {"u1@10": ("final", 3, 3), "u2@10": ("live", 2, 2)}


def test_without_a_version_what_comes_later_wins(live: PostgresPlace) -> None:
    live.version = None
    sink = live.writer()
    sink.write(live.batch(0, [session("u1", version=5, events=1)]))
    sink.write(live.batch(1, [session("u1", version=2, events=2), session("u1", version=1, events=3)]))
    assert live.latest() == {"u1@10": ("final", 1, 3)}


def test_rows_of_nothing_but_their_key_are_held_once(live: PostgresPlace) -> None:
    live.version = None
    for _ in range(2):
        live.write(Batch.of(live.query, 0, pa.table({"session_id": ["a", "b", "a"]})))
    assert sorted(live.select("*")) == [("a",), ("b",)]


@given(
    rows=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 3)), max_size=30),
    versioned=st.booleans(),
    chunk=st.integers(1, 7),
)
def test_of_each_key_the_last_of_the_highest_version_is_kept(
    rows: list[tuple[str, int, int]], versioned: bool, chunk: int
) -> None:
    columns = [
        pa.array([row[i] for row in rows], kind)
        for i, kind in enumerate([pa.string(), pa.int32(), pa.int64()])
    ]
    whole = pa.table([*columns, pa.array(range(len(rows)))], names=["user", "part", "version", "at"])
    table = pa.concat_tables([whole.slice(at, chunk) for at in range(0, len(rows), chunk)] or [whole])
    newest: dict[tuple[str, int], tuple[int, int]] = {}
    for at, (user, part, version) in enumerate(rows):
        if not versioned or (version, at) > newest.get((user, part), (-1, -1)):
            newest[(user, part)] = (version, at)
    kept = newest_of_each(table, ["user", "part"], "version" if versioned else None).to_pylist()
    assert [(row["user"], row["part"], row["version"], row["at"]) for row in kept] == sorted(
        (*key, *value) for key, value in newest.items()
    )


def test_a_retracted_session_stays_in_the_table_and_leaves_the_latest(place: PostgresPlace) -> None:
    sink = place.writer()
    sink.write(place.batch(0, [session("u1", "live", 1), session("u2", "live", 1)]))
    sink.write(place.batch(1, [session("u1", "retracted", 2, events=None)]))
    assert place.latest() == {"u2@10": ("live", 1, 1)}
    assert place.select("count(*)") == [(2,)]


def test_rows_without_a_kind_have_no_view(live: PostgresPlace) -> None:
    live.version = None
    live.write(Batch.of(live.query, 0, pa.table({"session_id": ["a"]})))
    with pytest.raises(psycopg.errors.UndefinedTable):
        live.latest()


def test_a_table_of_the_users_own_keeps_its_types_and_its_other_columns(live: PostgresPlace) -> None:
    live.version, live.target = None, f'Odd "name" {live.query}'
    live.run(
        'CREATE TABLE {} (session_id uuid UNIQUE, events smallint, "when" timestamptz, '
        "note text DEFAULT 'mine')",
        live.table,
    )
    identity = uuid.uuid4()
    rows = pa.table({"session_id": [str(identity)], "events": [7], "when": ["2026-07-01 12:00:00"]})
    live.write(Batch.of(live.query, 0, rows))
    assert live.select("*") == [(identity, 7, datetime(2026, 7, 1, 12, tzinfo=UTC), "mine")]


def test_a_row_of_the_users_own_that_has_no_version_gives_way(place: PostgresPlace) -> None:
    place.write(place.batch(0, []))
    place.run("ALTER TABLE {} ALTER version DROP NOT NULL", place.table)
    row = "INSERT INTO {} (session_id, kind, query, batch, slot) VALUES ('u1@10', 'final', '', 0, 0)"
    place.run(row, place.table)
    place.write(place.batch(1, [session("u1")]))
    assert place.latest() == {"u1@10": ("final", 1, 1)}


def test_a_user_who_may_write_but_not_create_uses_tables_that_are_there(
    services: Addresses, place: PostgresPlace
) -> None:
    place.write(place.batch(0))
    role = sql.Identifier(f"r{uuid.uuid4().hex[:8]}")
    place.run("CREATE ROLE {} LOGIN", role)
    place.run("GRANT ALL ON penstock_positions, {} TO {}", place.table, role)
    place.address = services.postgres.replace("postgres@", f"{role.as_string()[1:-1]}@")
    assert not place.write(place.batch(1)).replayed
    assert place.holds(place.batch(0), place.batch(1))


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_table_without_a_column_is_a_sink_error_whose_hint_can_be_run(
    place: PostgresPlace, exactly_once: bool
) -> None:
    place.exactly_once = exactly_once
    place.write(place.batch(0))
    for name in ("events", "country"):
        place.run("ALTER TABLE {} DROP COLUMN {} CASCADE", place.table, sql.Identifier(name))
    with pytest.raises(SinkError, match="no column events, country") as caught:
        place.write(place.batch(1))
    run_hint(place, caught.value)
    assert not place.write(place.batch(1)).replayed


def test_a_table_without_a_unique_key_is_a_sink_error_whose_hint_can_be_run(place: PostgresPlace) -> None:
    place.run(
        "CREATE TABLE {} (session_id text, kind text, version int, events int, country text, query text, "
        "batch int, slot int)",
        place.table,
    )
    with pytest.raises(SinkError, match="no unique index on session_id") as caught:
        place.write(place.batch(0))
    run_hint(place, caught.value)
    assert not place.write(place.batch(0)).replayed
    assert place.holds(place.batch(0))


def run_hint(place: PostgresPlace, error: SinkError) -> None:
    statement = error.hint[error.hint.index("(") + 1 : error.hint.rindex(") or name")]
    place.reader.execute(statement.encode())


@pytest.mark.parametrize("name", ["session_id", "version"])
def test_rows_that_nothing_tells_apart_are_refused(live: PostgresPlace, name: str) -> None:
    columns: dict[str, list[Any]] = {"session_id": ["a", "b"], "version": [1, 2]}
    with pytest.raises(SinkError, match=f"1 of 2 rows have no {name}"):
        live.write(Batch.of(live.query, 0, pa.table({**columns, name: [None, columns[name][1]]})))
    with pytest.raises(SinkError, match=f"the rows have no column {name}"):
        live.write(Batch.of(live.query, 0, pa.table(columns).drop_columns([name])))
