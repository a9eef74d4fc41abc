"""The PostgreSQL sink on a real server. Numbers in brackets are the invariants of protocol.py."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

import psutil
import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from penstock.errors import Fenced, PositionLost, ReplayDiffers, SinkError
from penstock.local.services import Addresses, Services
from penstock.paths import DataDir
from penstock.sinks.pgtable import newest_of_each
from penstock.sinks.postgres import PostgresSink, postgres_answers
from penstock.sinks.protocol import Batch

pytestmark = pytest.mark.integration

ROW = pa.schema(
    [
        pa.field("session_id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("events", pa.int64()),
        pa.field("country", pa.string()),
        pa.field("batch", pa.int64(), nullable=False),
    ]
)
PATIENCE_S = 60


def session(user: str, kind: str = "final", version: int = 1, **more: Any) -> dict[str, Any]:
    return {"session_id": f"{user}@10", "kind": kind, "version": version, "events": 1, **more}


def sessions(number: int, size: int = 20, **more: Any) -> list[dict[str, Any]]:
    """Sessions that no other batch has, with nulls and empty texts among their values."""
    countries = [None, "", "FR", 'a"b,\n\\']
    return [session(f"u{number}-{i}", events=i, country=countries[i % 4], **more) for i in range(size)]


def everybody(number: int, size: int = 20) -> list[dict[str, Any]]:
    """A batch that replaces the rows of every other batch."""
    return [session(f"u{i}", events=number) for i in range(size)]


@dataclass
class Place:
    """A table and a query of its own, the writers opened on it, and what its readers see."""

    address: str
    table: str
    query: str
    reader: psycopg.Connection[tuple[Any, ...]]
    key: tuple[str, ...] = ("session_id",)
    version: str | None = "version"
    exactly_once: bool = True
    max_rows: int = 7
    writers: list[PostgresSink] = field(default_factory=list)

    def writer(self, name: str = "sessions_table", *, adopt: bool = False) -> PostgresSink:
        sink = PostgresSink(
            name,
            self.address,
            self.table,
            self.query,
            key=self.key,
            version=self.version,
            exactly_once=self.exactly_once,
            max_rows=self.max_rows,
            adopt=adopt,
        )
        self.writers.append(sink)
        return sink

    def batch(self, number: int, rows: list[dict[str, Any]] | None = None) -> Batch:
        made = [{**row, "batch": number} for row in (sessions(number) if rows is None else rows)]
        return Batch.of(self.query, number, pa.Table.from_pylist(made, ROW))

    def select(self, what: str, relation: str = "") -> list[tuple[Any, ...]]:
        name = sql.Identifier(*(relation or self.table).split("."))
        statement = sql.SQL("SELECT {} FROM {}").format(sql.SQL(what), name)
        return self.reader.execute(statement).fetchall()

    def holds(self, *batches: Batch) -> bool:
        """Whether the table has the rows of these batches, each once, and no others."""
        there = self.select(", ".join(batches[0].rows.column_names))
        given = [tuple(row.values()) for each in batches for row in each.rows.to_pylist()]
        return sorted(there, key=repr) == sorted(given, key=repr)

    def latest(self) -> dict[str, tuple[str, int, int]]:
        """What TABLE_latest shows: kind, version and events of each session."""
        rows = self.select("session_id, kind, version, events", f"{self.table}_latest")
        return {row[0]: row[1:] for row in rows}

    def position(self) -> int:
        [(batch,)] = self.reader.execute(
            "SELECT batch FROM penstock_positions WHERE query = %s", [self.query]
        ).fetchall()
        return int(batch)

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """Nobody gets a row into the table meanwhile: writers stop after they have seen the position."""
        with psycopg.connect(self.address) as blocker:
            blocker.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE").format(sql.Identifier(self.table)))
            yield

    def waiting(self, kind: str) -> int:
        """How many sessions wait for a lock of that kind ('relation' or 'advisory')."""
        [(count,)] = self.reader.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = %s", [kind]
        ).fetchall()
        return int(count)

    def open_writers(self) -> int:
        [(count,)] = self.reader.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'penstock'"
        ).fetchall()
        return int(count)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def place(services: Addresses) -> Iterator[Place]:
    unique = uuid.uuid4().hex[:12]
    reader = psycopg.connect(services.postgres, autocommit=True)
    here = Place(services.postgres, f"sessions_{unique}", f"clickstream-{unique}", reader)
    yield here
    for sink in here.writers:
        sink.close()
    reader.close()


@pytest.fixture
def live(place: Place) -> Place:
    place.exactly_once = False
    return place


def test_batches_are_held_once(place: Place) -> None:
    batches = [place.batch(number) for number in range(8)]
    sink = place.writer()
    outcomes = [sink.write(each) for each in batches]
    assert not any(outcome.replayed for outcome in outcomes)
    assert [(o.count, o.digest) for o in outcomes] == [(b.count, b.digest) for b in batches]
    assert place.holds(*batches)
    assert place.position() == 7


def test_an_empty_batch_moves_the_position(place: Place) -> None:
    # [2]
    sink = place.writer()
    sink.write(place.batch(0))
    assert not sink.write(place.batch(1, [])).replayed
    assert place.writer().write(place.batch(1, [])).replayed
    assert not place.writer().write(place.batch(2)).replayed
    assert place.holds(place.batch(0), place.batch(2))


def test_the_first_batch_may_be_empty(place: Place) -> None:
    assert not place.writer().write(place.batch(0, [])).replayed
    assert not place.writer().write(place.batch(1)).replayed
    assert place.holds(place.batch(1))


def test_a_new_writer_does_not_write_a_batch_that_is_there_and_goes_on_after_it(place: Place) -> None:
    # [3]
    first = place.writer()
    first.write(place.batch(0))
    first.write(place.batch(1))
    second = place.writer()
    outcome = second.write(place.batch(1))
    assert (outcome.replayed, outcome.count, outcome.digest) == (True, 20, place.batch(1).digest)
    assert not second.write(place.batch(2)).replayed
    assert place.holds(place.batch(0), place.batch(1), place.batch(2))


def test_a_batch_that_comes_again_with_other_rows_is_refused(place: Place) -> None:
    # [3]
    place.writer().write(place.batch(0))
    with pytest.raises(ReplayDiffers):
        place.writer().write(place.batch(0, sessions(0, size=21)))
    assert place.holds(place.batch(0))


@pytest.mark.parametrize(
    ("due", "error"),
    [
        pytest.param(3, PositionLost, id="a gap"),
        pytest.param(0, Fenced, id="behind"),
    ],
)
def test_a_batch_that_does_not_follow_is_refused_and_leaves_nothing(
    place: Place, due: int, error: type[SinkError]
) -> None:
    # [2]
    sink = place.writer()
    sink.write(place.batch(0))
    sink.write(place.batch(1))
    with pytest.raises(error):
        place.writer().write(place.batch(due, sessions(9)))
    assert place.holds(place.batch(0), place.batch(1))
    assert place.position() == 1


def test_without_a_position_only_an_adopted_sink_goes_on(place: Place) -> None:
    with pytest.raises(PositionLost):
        place.writer().write(place.batch(5))
    adopted = place.writer(adopt=True)
    adopted.write(place.batch(5))
    adopted.write(place.batch(6))
    assert place.holds(place.batch(5), place.batch(6))


def test_two_sinks_of_one_query_have_positions_of_their_own(place: Place) -> None:
    place.writer("one").write(place.batch(0))
    place.writer("one").write(place.batch(1))
    assert not place.writer("other").write(place.batch(0)).replayed
    assert place.writer("one").write(place.batch(1)).replayed


def test_a_batch_that_fails_half_way_leaves_neither_rows_nor_position(place: Place) -> None:
    # [4]
    place.writer().write(place.batch(0))
    forbidden = sql.SQL("ALTER TABLE {} ADD CHECK (events < 15)").format(sql.Identifier(place.table))
    place.reader.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(place.table)))
    place.reader.execute(forbidden)
    with pytest.raises(SinkError, match="check constraint"):
        place.writer().write(place.batch(1))
    assert place.select("count(*)") == [(0,)]
    assert place.position() == 0


def test_many_sinks_that_make_the_same_tables_at_once_all_succeed(services: Addresses, place: Place) -> None:
    schema = f"s{uuid.uuid4().hex[:8]}"
    place.reader.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    place.table = f"{schema}.sessions"
    sinks = [place.writer(f"sink{i}") for i in range(6)]
    with ThreadPoolExecutor(len(sinks)) as pool:
        list(pool.map(lambda sink: sink.write(place.batch(0)), sinks))
    assert place.holds(place.batch(0))
    assert place.select("count(*)", f"{schema}.penstock_positions") == [(6,)]


def test_of_two_writers_that_see_the_same_position_one_writes_and_the_other_compares(place: Place) -> None:
    # [1] Without the lock both would write.
    one, other = place.writer(), place.writer()
    one.write(place.batch(0))
    other.write(place.batch(0))
    with ThreadPoolExecutor(2) as pool:
        with place.held_up():
            writes = [pool.submit(one.write, place.batch(1))]
            eventually(lambda: place.waiting("relation") == 1)
            writes.append(pool.submit(other.write, place.batch(1)))
            eventually(lambda: place.waiting("relation") + place.waiting("advisory") == 2)
        assert sorted(write.result().replayed for write in writes) == [False, True]
    assert place.holds(place.batch(0), place.batch(1))


def test_a_writer_that_waited_while_others_went_ahead_is_fenced_and_puts_nothing_back(place: Place) -> None:
    # [1]
    place.version = None
    zombie, heir = place.writer(), place.writer()
    zombie.write(place.batch(0, everybody(0)))
    heir.write(place.batch(0, everybody(0)))
    heir.write(place.batch(1, everybody(1)))
    with ThreadPoolExecutor(2) as pool:
        with place.held_up():
            ahead = pool.submit(heir.write, place.batch(2, everybody(2)))
            eventually(lambda: place.waiting("relation") == 1)
            late = pool.submit(zombie.write, place.batch(1, everybody(1)))
            eventually(lambda: place.waiting("advisory") == 1)
        assert not ahead.result().replayed
        with pytest.raises(Fenced):
            late.result()
    assert place.holds(place.batch(2, everybody(2)))
    assert place.position() == 2


_WRITER = """
import json, sys
import pyarrow as pa
from penstock.errors import SinkError
from penstock.sinks.postgres import PostgresSink
from penstock.sinks.protocol import Batch

place, first, last = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
def sink():
    return PostgresSink("sessions_table", place["address"], place["table"], place["query"],
                        key=["n"], version=None, exactly_once=True)
def batch(number):
    rows = pa.table({"n": pa.array(range(number * 1000, number * 1000 + 500)), "batch": [number] * 500})
    return Batch.of(place["query"], number, rows)

writer = sink()
for number in range(first, last):
    try:
        print(number, writer.write(batch(number)).replayed, flush=True)
    except SinkError as error:
        print(type(error).__name__, flush=True)
        try:
            sink().write(batch(number))
        except SinkError as second:
            print(type(second).__name__, flush=True)
        break
"""


def run_writer(place: Place, first: int, last: int) -> subprocess.Popen[str]:
    where = json.dumps({"address": place.address, "table": place.table, "query": place.query})
    command = [sys.executable, "-c", _WRITER, where, str(first), str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def numbers(batch: int) -> pa.Table:
    return pa.table({"n": pa.array(range(batch * 1000, batch * 1000 + 500)), "batch": [batch] * 500})


def test_a_writer_stopped_inside_its_transaction_is_ended_by_the_next_one_and_fenced(place: Place) -> None:
    # [1] The stopped process keeps its connection, and with it the lock, for as long as it is stopped.
    place.key, place.version = ("n",), None
    place.writer().write(Batch.of(place.query, 0, numbers(0)))
    try:
        with place.held_up():
            zombie = run_writer(place, 1, 2)
            eventually(lambda: place.waiting("relation") == 1)
            zombie.send_signal(signal.SIGSTOP)
        heir = place.writer()
        for number in (1, 2):
            assert not heir.write(Batch.of(place.query, number, numbers(number))).replayed
        zombie.send_signal(signal.SIGCONT)
        said, _ = zombie.communicate(timeout=PATIENCE_S)
    finally:
        zombie.kill()
    assert said.split() == ["SinkError", "Fenced"]
    assert place.position() == 2
    assert place.select("count(*), count(DISTINCT n)") == [(1500, 1500)]


def test_writers_killed_at_any_moment_leave_whole_batches_and_lose_none(place: Place) -> None:
    random = Random(4)
    place.key, place.version = ("n",), None
    due = 0
    for _ in range(5):
        writer = run_writer(place, due, 10_000)
        assert writer.stdout is not None
        told = [writer.stdout.readline().split() for _ in range(random.randrange(1, 6))]
        time.sleep(random.random() * 0.03)
        writer.kill()
        told += [line.split() for line in writer.stdout.read().splitlines()]
        writer.wait()
        assert all(replayed == "False" for _, replayed in told[1:])
        acknowledged = int(told[-1][0])
        # The server may still be at the commit that the writer had asked for.
        eventually(lambda: place.open_writers() == 0)
        assert place.position() in (acknowledged, acknowledged + 1)
        counted = place.select("count(*), count(DISTINCT batch), max(batch)")
        assert counted == [((place.position() + 1) * 500, place.position() + 1, place.position())]
        due = acknowledged + 1  # as Spark does: the batch that was not acknowledged comes again


def test_a_row_gives_way_only_to_a_higher_version(live: Place) -> None:
    sink = live.writer()
    sink.write(live.batch(0, [session("u1", "live", 1), session("u2", "live", 1)]))
    sink.write(live.batch(1, [session("u1", "final", 3, events=3), session("u2", "live", 2, events=2)]))
    # As a batch that comes again after the next one has been there.
    assert not sink.write(
        live.batch(0, [session("u1", "live", 1), session("u2", "live", 2, events=9)])
    ).replayed
    assert live.latest() == {"u1@10": ("final", 3, 3), "u2@10": ("live", 2, 2)}


def test_without_a_version_what_comes_later_wins(live: Place) -> None:
    live.version = None
    sink = live.writer()
    sink.write(live.batch(0, [session("u1", version=5, events=1)]))
    sink.write(live.batch(1, [session("u1", version=2, events=2), session("u1", version=1, events=3)]))
    assert live.latest() == {"u1@10": ("final", 1, 3)}


def test_at_least_once_a_batch_that_comes_again_replaces_itself(live: Place) -> None:
    for _ in range(2):
        assert not live.writer().write(live.batch(3)).replayed
    assert live.holds(live.batch(3))


def test_rows_of_nothing_but_their_key_are_held_once(live: Place) -> None:
    live.version = None
    for _ in range(2):
        live.writer().write(Batch.of(live.query, 0, pa.table({"session_id": ["a", "b", "a"]})))
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


def test_a_retracted_session_stays_in_the_table_and_leaves_the_latest(place: Place) -> None:
    sink = place.writer()
    sink.write(place.batch(0, [session("u1", "live", 1), session("u2", "live", 1)]))
    sink.write(place.batch(1, [session("u1", "retracted", 2, events=None)]))
    assert place.latest() == {"u2@10": ("live", 1, 1)}
    assert place.select("count(*)") == [(2,)]


def test_rows_without_a_kind_have_no_view(live: Place) -> None:
    live.version = None
    live.writer().write(Batch.of(live.query, 0, pa.table({"session_id": ["a"]})))
    with pytest.raises(psycopg.errors.UndefinedTable):
        live.latest()


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
DECIMALS = st.decimals(-(10**8), 10**8, places=6)
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), TEXTS),
    "tiny": (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    "small": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "whole": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "big": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "single": (pa.float32(), st.integers(-(2**16), 2**16).map(lambda n: n / 8)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "truth": (pa.bool_(), st.booleans()),
    "amount": (pa.decimal128(18, 6), DECIMALS),
    "day": (pa.date32(), st.dates(date(1, 1, 2), date(9999, 12, 30))),
    "moment": (pa.timestamp("us", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
    "clock": (pa.timestamp("us"), MOMENTS),
    "raw": (pa.binary(), st.binary(max_size=8)),
    "texts": (pa.list_(pa.string()), st.lists(st.none() | TEXTS, max_size=3)),
    "amounts": (pa.list_(pa.decimal128(18, 6)), st.lists(DECIMALS, max_size=3)),
    "moments": (pa.list_(pa.timestamp("us")), st.lists(st.none() | MOMENTS, max_size=3)),
    "raws": (pa.list_(pa.binary()), st.lists(st.binary(max_size=4), max_size=3)),
    "item": (
        pa.struct([("name", pa.string()), ("counts", pa.list_(pa.int64()))]),
        st.fixed_dictionaries({"name": TEXTS, "counts": st.lists(st.integers(-5, 5), max_size=2)}),
    ),
}


@pytest.fixture(scope="module")
def typed(services: Addresses) -> Iterator[Place]:
    """A place for rows of every type, kept over all examples."""
    with psycopg.connect(services.postgres, autocommit=True) as reader:
        reader.execute("SET timezone = 'UTC'")
        unique = f"typed_{uuid.uuid4().hex[:12]}"
        here = Place(services.postgres, unique, unique, reader, ("id",), None, exactly_once=False, max_rows=3)
        here.writer()
        yield here
        here.writers[0].close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(
        st.fixed_dictionaries({name: st.none() | values for name, (_, values) in VALUES.items()}),
        min_size=1,
        max_size=5,
    )
)
def test_values_of_every_type_come_back_as_they_went(typed: Place, rows: list[dict[str, Any]]) -> None:
    schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in VALUES.items())])
    table = pa.Table.from_pylist([{"id": at, **row} for at, row in enumerate(rows)], schema)
    typed.writers[0].write(Batch.of(typed.query, 0, table))
    held = [row for row in typed.select(f"id, {', '.join(VALUES)}") if row[0] < len(rows)]
    assert [dict(zip(VALUES, row[1:], strict=True)) for row in sorted(held, key=lambda row: row[0])] == rows


def test_what_json_and_text_cannot_hold_comes_as_near_as_it_can(live: Place) -> None:
    live.version = None
    money, nan = pa.decimal128(5, 2), float("nan")
    rows = pa.table(
        {
            "session_id": ["a"],
            "note": ["x\0y"],
            "rate": [nan],
            "prices": pa.array([[("p\0", Decimal("1.50"))]], pa.map_(pa.string(), money)),
            "rates": pa.array([[[1.5, nan, None]]], pa.list_(pa.list_(pa.float64()))),
            "at": pa.array([datetime(2026, 7, 1, 12, tzinfo=UTC)], pa.timestamp("ms", "Europe/Paris")),
            "none": pa.array([[]], pa.map_(pa.string(), pa.int64())),
        }
    )
    live.writer().write(Batch.of(live.query, 0, rows))
    [(note, rate, prices, rates, at, none)] = live.select("note, rate, prices, rates, at, none")
    assert note == "x\ufffdy"
    assert rate != rate
    assert prices == {"p\ufffd": "1.50"}
    assert rates == [[1.5, "nan", None]]
    assert at == datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert none == {}


def test_a_table_of_the_users_own_keeps_its_types_and_its_other_columns(live: Place) -> None:
    live.version, live.table = None, f'Odd "name" {live.query}'
    live.reader.execute(
        sql.SQL(
            "CREATE TABLE {} (session_id uuid UNIQUE, events smallint, "
            "\"when\" timestamptz, note text DEFAULT 'mine')"
        ).format(sql.Identifier(live.table))
    )
    identity = uuid.uuid4()
    rows = pa.table({"session_id": [str(identity)], "events": [7], "when": ["2026-07-01 12:00:00"]})
    live.writer().write(Batch.of(live.query, 0, rows))
    assert live.select("*") == [(identity, 7, datetime(2026, 7, 1, 12, tzinfo=UTC), "mine")]


def test_a_row_of_the_users_own_that_has_no_version_gives_way(place: Place) -> None:
    place.writer().write(place.batch(0, []))
    place.reader.execute(
        sql.SQL("ALTER TABLE {} ALTER version DROP NOT NULL").format(sql.Identifier(place.table))
    )
    place.reader.execute(
        sql.SQL("INSERT INTO {} (session_id, kind, batch) VALUES ('u1@10', 'final', 0)").format(
            sql.Identifier(place.table)
        )
    )
    place.writer().write(place.batch(1, [session("u1")]))
    assert place.latest() == {"u1@10": ("final", 1, 1)}


def test_a_user_who_may_write_but_not_create_uses_tables_that_are_there(
    services: Addresses, place: Place
) -> None:
    place.writer().write(place.batch(0))
    role = sql.Identifier(f"r{uuid.uuid4().hex[:8]}")
    for statement in (
        sql.SQL("CREATE ROLE {} LOGIN").format(role),
        sql.SQL("GRANT ALL ON penstock_positions, {} TO {}").format(sql.Identifier(place.table), role),
    ):
        place.reader.execute(statement)
    place.address = services.postgres.replace("postgres@", f"{role.as_string()[1:-1]}@")
    assert not place.writer().write(place.batch(1)).replayed
    assert place.holds(place.batch(0), place.batch(1))


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_table_without_a_column_is_a_sink_error_whose_hint_can_be_run(
    place: Place, exactly_once: bool
) -> None:
    place.exactly_once = exactly_once
    place.writer().write(place.batch(0))
    for name in ("events", "country"):
        drop = sql.SQL("ALTER TABLE {} DROP COLUMN {} CASCADE")
        place.reader.execute(drop.format(sql.Identifier(place.table), sql.Identifier(name)))
    with pytest.raises(SinkError, match="no column events, country") as caught:
        place.writer().write(place.batch(1))
    run_hint(place, caught.value)
    assert not place.writer().write(place.batch(1)).replayed


def test_a_table_without_a_unique_key_is_a_sink_error_whose_hint_can_be_run(place: Place) -> None:
    create = sql.SQL(
        "CREATE TABLE {} (session_id text, kind text, version int, events int, country text, batch int)"
    )
    place.reader.execute(create.format(sql.Identifier(place.table)))
    with pytest.raises(SinkError, match="no unique index on session_id") as caught:
        place.writer().write(place.batch(0))
    run_hint(place, caught.value)
    assert not place.writer().write(place.batch(0)).replayed
    assert place.holds(place.batch(0))


def run_hint(place: Place, error: SinkError) -> None:
    statement = error.hint[error.hint.index("(") + 1 : error.hint.rindex(") or name")]
    place.reader.execute(statement.encode())


@pytest.mark.parametrize("name", ["session_id", "version"])
def test_rows_that_nothing_tells_apart_are_refused(live: Place, name: str) -> None:
    columns: dict[str, list[Any]] = {"session_id": ["a", "b"], "version": [1, 2]}
    with pytest.raises(SinkError, match=f"1 of 2 rows have no {name}"):
        live.writer().write(Batch.of(live.query, 0, pa.table({**columns, name: [None, columns[name][1]]})))
    with pytest.raises(SinkError, match=f"the rows have no column {name}"):
        live.writer().write(Batch.of(live.query, 0, pa.table(columns).drop_columns([name])))


def test_a_column_of_a_type_that_has_no_place_is_named(live: Place) -> None:
    rows = pa.table({"session_id": ["a"], "version": [1], "took": pa.array([timedelta(1)])})
    with pytest.raises(SinkError, match=r"no type for column took \(duration"):
        live.writer().write(Batch.of(live.query, 0, rows))


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://user:s3cret@127.0.0.1:1/db",
        "postgresql://user:s3cret/s3cret@127.0.0.1:1/db",
        "postgresql://user:12/s3cret@127.0.0.1:1/db",
        "postgresql://user:s3cret@s3cret@127.0.0.1:1/db",
        "postgresql://user:s3cret?s3cret@127.0.0.1:1/db",
        "postgresql://user:%s3cret@127.0.0.1:1/db",
        "postgresql://user:[s3cret@127.0.0.1:1/db",
    ],
)
def test_an_address_where_nothing_answers_is_a_sink_error_that_keeps_the_password(address: str) -> None:
    with pytest.raises(SinkError, match=r"does not answer|cannot be read") as caught:
        PostgresSink("s", address, "t", "q", key=["id"], version=None, exactly_once=True)
    shown = "".join(traceback.format_exception(caught.value)[1:])
    told = [line for line in shown.splitlines() if "Error" in line or "rror:" in line]
    assert told
    assert not any("s3cret" in line for line in told)
    assert not postgres_answers(address)


def test_a_server_that_runs_answers(services: Addresses) -> None:
    assert postgres_answers(services.postgres)


@pytest.fixture
def mortal() -> Iterator[Services]:
    """A PostgreSQL of its own, to be killed."""
    with TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as directory:
        running = Services(DataDir.at(Path(directory)), tie_to_parent=True, only=("postgres",))
        try:
            running.start()
            yield running
        finally:
            running.stop()


def kill(services: Services) -> None:
    [status] = services.status()
    assert status.pid is not None
    family = [psutil.Process(status.pid), *psutil.Process(status.pid).children()]
    for process in family:
        process.kill()
    psutil.wait_procs(family, timeout=30)


def test_a_batch_that_failed_because_the_server_was_killed_goes_through_once_it_is_back(
    mortal: Services,
) -> None:
    # [4]
    address = mortal.addresses().postgres
    place = Place(address, "sessions", "clickstream", psycopg.connect(address, autocommit=True))
    sink = place.writer()
    sink.write(place.batch(0))
    kill(mortal)
    with pytest.raises(SinkError):
        sink.write(place.batch(1))
    with pytest.raises(SinkError, match="does not answer"):
        place.writer()
    assert not postgres_answers(address)
    mortal.revive()
    after = place.writer()
    assert not after.write(place.batch(1)).replayed
    after.write(place.batch(2))
    with psycopg.connect(address, autocommit=True) as place.reader:
        assert place.holds(place.batch(0), place.batch(1), place.batch(2))


def test_a_server_killed_at_any_moment_keeps_what_it_acknowledged_and_nothing_twice(mortal: Services) -> None:
    random = Random(7)
    address = mortal.addresses().postgres
    place = Place(address, "sessions", "clickstream", psycopg.connect(address, autocommit=True))
    due = 0
    for _ in range(5):
        killer = Timer(random.uniform(0.05, 0.5), kill, [mortal])
        sink = place.writer()
        killer.start()
        with pytest.raises(SinkError):  # noqa: PT012 - it fails when it fails
            while True:
                sink.write(place.batch(due))
                due += 1
        killer.join()
        mortal.revive()
        with psycopg.connect(address, autocommit=True) as place.reader:
            assert place.position() in (due - 1, due)
            assert place.holds(*(place.batch(number) for number in range(place.position() + 1)))
    assert due > 5
