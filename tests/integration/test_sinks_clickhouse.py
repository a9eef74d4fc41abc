"""The ClickHouse sink on the embedded engine. Numbers in brackets are the invariants of protocol.py."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import clickhouse_connect
import psutil
import pyarrow as pa
import pytest
from clickhouse_connect.driver.client import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.engine.rows import for_sink
from penstock.errors import Fenced, PositionLost, ReplayDiffers, SinkError
from penstock.local.services import Addresses, Services
from penstock.paths import DataDir, shipped
from penstock.sinks.chcolumns import storable
from penstock.sinks.clickhouse import ClickHouseSink
from penstock.sinks.protocol import Batch
from penstock.spec import load

pytestmark = pytest.mark.integration

SPEC = load(shipped("pipelines") / "clickstream.toml", environ={})
assert SPEC.sessions is not None
FINAL, LIVE = SPEC.sink[0], SPEC.sink[1]
NUMBERS = {"events": pa.int64(), "purchases": pa.int64(), "revenue": pa.float64(), "top_price": pa.float64()}
KERNEL_ROW = pa.schema(
    [
        ("kind", pa.string()),
        ("span_id", pa.string()),
        ("key", pa.string()),
        ("start_ms", pa.int64()),
        ("end_ms", pa.int64()),
        ("version", pa.int64()),
        ("is_final", pa.bool_()),
        *((measure.name, NUMBERS.get(measure.name, pa.string())) for measure in SPEC.sessions.measures),
    ]
)


def session(user: str, kind: str = "final", version: int = 1, **measures: Any) -> dict[str, Any]:
    row = {"kind": kind, "span_id": f"{user}@10", "key": user, "start_ms": 10, "end_ms": 20}
    return {**row, "version": version, "is_final": kind == "final", "events": 1, **measures}


def sessions(number: int, size: int = 20, **measures: Any) -> list[dict[str, Any]]:
    """Final sessions that no other batch has, with nulls among their measures."""
    return [session(f"u{number}-{i}", events=i, revenue=i / 4, **measures) for i in range(size)]


@dataclass
class Place:
    """A table and a query of its own, the writers opened on it, and what its readers see."""

    address: str
    table: str
    query: str
    client: Client
    keep: str = "all"
    key: tuple[str, ...] = ("session_id",)
    writers: list[ClickHouseSink] = field(default_factory=list)

    def writer(self, name: str = "sessions_table", *, adopt: bool = False) -> ClickHouseSink:
        sink = ClickHouseSink(
            name, self.address, self.table, self.query, key=self.key, keep=self.keep, adopt=adopt
        )
        self.writers.append(sink)
        return sink

    def batch(self, number: int, rows: list[dict[str, Any]] | None = None) -> Batch:
        made = pa.Table.from_pylist(sessions(number) if rows is None else rows, KERNEL_ROW)
        wanted = FINAL if self.keep == "all" else LIVE
        return Batch.of(self.query, number, for_sink(made, wanted, SPEC, self.query, number))

    def holds(self, *batches: Batch) -> bool:
        """Whether the table has the rows of these batches, each once, and no others."""
        names = batches[0].rows.column_names
        select = f"SELECT {', '.join(names)} FROM {self.table}"  # noqa: S608
        there = [tuple(row) for row in self.client.query(select).result_rows]
        given = [tuple(row.values()) for each in batches for row in each.rows.to_pylist()]
        return sorted(there, key=repr) == sorted(given, key=repr)

    def latest(self) -> dict[str, tuple[str, int, int]]:
        """What TABLE_latest shows: kind, version and events of each session; it must show each once."""
        rows = self.client.query(
            f"SELECT session_id, kind, version, events FROM {self.table}_latest"  # noqa: S608
        ).result_rows
        assert len({row[0] for row in rows}) == len(rows)
        return {row[0]: tuple(row[1:]) for row in rows}

    def forget(self, batch: Batch) -> None:
        """Lose the rows of a batch and keep its token, as a server killed after its answer does."""
        self.client.command(
            f"ALTER TABLE {self.table} DELETE WHERE batch = {batch.number}", settings={"mutations_sync": 2}
        )


@pytest.fixture
def place(services: Addresses) -> Iterator[Place]:
    unique = uuid.uuid4().hex[:12]
    client = clickhouse_connect.get_client(dsn=services.clickhouse)
    here = Place(services.clickhouse, f"sessions_{unique}", f"clickstream-{unique}", client)
    yield here
    for sink in here.writers:
        sink.close()
    client.close()


@pytest.fixture
def live(place: Place) -> Place:
    place.keep = "newest"
    return place


def test_batches_are_held_once(place: Place) -> None:
    batches = [place.batch(number) for number in range(3)]
    sink = place.writer()
    outcomes = [sink.write(each) for each in batches]
    assert [outcome.replayed for outcome in outcomes] == [False, False, False]
    assert [(o.count, o.digest) for o in outcomes] == [(b.count, b.digest) for b in batches]
    assert place.holds(*batches)


def test_rows_in_many_chunks_are_held_once(place: Place) -> None:
    batch = place.batch(0)
    chunked = pa.concat_tables(batch.rows.slice(at, 3) for at in range(0, batch.count, 3))
    for _ in range(2):
        place.writer().write(Batch.of(place.query, 0, chunked))
    assert place.holds(batch)


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
        place.writer().write(place.batch(0, sessions(0, segment="other")))
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
        place.writer().write(place.batch(due))
    assert place.holds(place.batch(0), place.batch(1))


def test_without_a_position_only_an_adopted_sink_goes_on(place: Place) -> None:
    with pytest.raises(PositionLost):
        place.writer().write(place.batch(5))
    adopted = place.writer(adopt=True)
    adopted.write(place.batch(5))
    adopted.write(place.batch(6))
    assert place.holds(place.batch(5), place.batch(6))


def test_two_sinks_of_one_query_have_positions_of_their_own(place: Place) -> None:
    other = Place(place.address, f"{place.table}_other", place.query, place.client)
    place.writer("one").write(place.batch(0))
    place.writer("one").write(place.batch(1))
    other.writer("other").write(place.batch(0))
    assert place.writer("one").write(place.batch(1)).replayed
    assert not other.writer("other").write(place.batch(1)).replayed
    assert place.holds(place.batch(0), place.batch(1))
    assert other.holds(place.batch(0), place.batch(1))


def test_two_writers_side_by_side_hold_each_batch_once(place: Place) -> None:
    one, other = place.writer(), place.writer()
    for number in range(3):
        one.write(place.batch(number))
        other.write(place.batch(number))
    assert place.holds(*(place.batch(number) for number in range(3)))


def test_a_crash_between_rows_and_position_is_made_good(place: Place) -> None:
    crashed = place.writer()
    crashed.write(place.batch(0))
    crashed._insert(place.batch(1), crashed._token(place.batch(1)))
    assert not place.writer().write(place.batch(1)).replayed
    assert place.holds(place.batch(0), place.batch(1))
    assert place.writer().write(place.batch(1)).replayed


def test_a_crash_between_rows_and_position_does_not_hide_that_a_replay_differs(place: Place) -> None:
    # [3]
    crashed = place.writer()
    crashed.write(place.batch(0))
    crashed._insert(place.batch(1), crashed._token(place.batch(1)))
    with pytest.raises(ReplayDiffers):
        place.writer().write(place.batch(1, sessions(1, segment="other")))
    assert place.holds(place.batch(0), place.batch(1))


def test_rows_that_the_server_lost_come_back_although_it_remembers_their_token(place: Place) -> None:
    crashed = place.writer()
    crashed.write(place.batch(0))
    token = crashed._token(place.batch(1))
    crashed._insert(place.batch(1), token)
    place.forget(place.batch(1))
    crashed._insert(place.batch(1), token)
    assert place.holds(place.batch(0)), "the server should have dropped rows whose token it remembers"
    assert not place.writer().write(place.batch(1)).replayed
    assert place.holds(place.batch(0), place.batch(1))


def test_rows_that_the_server_lost_come_back_although_it_has_their_position(place: Place) -> None:
    place.writer().write(place.batch(0))
    place.forget(place.batch(0))
    place.writer().write(place.batch(0))
    assert place.holds(place.batch(0))


def test_rows_that_cannot_be_brought_back_are_a_sink_error(place: Place) -> None:
    place.writer().write(place.batch(0))
    place.forget(place.batch(0))
    place.writer().write(place.batch(0))
    place.forget(place.batch(0))
    with pytest.raises(SinkError, match="0 of 20 rows of batch 0"):
        place.writer().write(place.batch(0))


def test_a_batch_of_which_only_some_rows_are_there_is_refused(place: Place) -> None:
    crashed = place.writer()
    crashed.write(place.batch(0))
    crashed._insert(place.batch(1, sessions(1)[:7]), "half")
    with pytest.raises(SinkError, match="7 of 20 rows of batch 1"):
        place.writer().write(place.batch(1))


def test_the_live_table_shows_each_session_once_when_a_batch_comes_twice(live: Place) -> None:
    rows = [session("u1", "live", 1, events=1), session("u2", "live", 1, events=2)]
    for _ in range(2):
        sink = live.writer("sessions_live")
        assert not sink.write(live.batch(0, rows)).replayed
        sink.write(live.batch(0, rows))
    assert live.latest() == {"u1@10": ("live", 1, 1), "u2@10": ("live", 1, 2)}


def test_the_live_table_shows_the_newest_version_in_whatever_order_it_came(live: Place) -> None:
    sink = live.writer("sessions_live")
    sink.write(live.batch(0, [session("u1", "live", 1, events=1), session("u2", "live", 1, events=1)]))
    sink.write(live.batch(1, [session("u1", "final", 3, events=3), session("u2", "live", 2, events=2)]))
    # As a batch that comes again after the next one has been there.
    sink.write(live.batch(0, [session("u1", "live", 1, events=1), session("u2", "live", 1, events=1)]))
    expected = {"u1@10": ("final", 3, 3), "u2@10": ("live", 2, 2)}
    assert live.latest() == expected
    live.client.command(f"OPTIMIZE TABLE {live.table} FINAL")
    assert live.latest() == expected


def test_a_retracted_session_disappears_from_the_latest(live: Place) -> None:
    sink = live.writer("sessions_live")
    sink.write(live.batch(0, [session("u1", "live", 1), session("u2", "live", 1)]))
    sink.write(live.batch(1, [session("u1", "retracted", 2, events=None)]))
    assert live.latest() == {"u2@10": ("live", 1, 1)}
    live.client.command(f"OPTIMIZE TABLE {live.table} FINAL")
    assert live.latest() == {"u2@10": ("live", 1, 1)}


def test_a_retracted_session_disappears_from_the_latest_of_an_exactly_once_table(place: Place) -> None:
    sink = place.writer()
    sink.write(place.batch(0, [session("u1"), session("u2")]))
    sink.write(place.batch(1, [session("u1", "retracted", 2, is_final=True), session("u2", version=2)]))
    assert place.latest() == {"u2@10": ("final", 2, 1)}
    assert place.client.command(f"SELECT count() FROM {place.table}") == 4  # noqa: S608


def events(place: Place, number: int, size: int = 5) -> Batch:
    """Plain events: without a version, and without a kind."""
    rows = pa.table(
        {
            "shop": pa.array([i % 2 for i in range(size)], pa.int16()),
            "event_id": [f"e{i}" for i in range(size)],
            "seen_in": [number] * size,
            "query": [place.query] * size,
            "batch": [number] * size,
        }
    )
    return Batch.of(place.query, number, rows)


def test_plain_events_are_all_kept_exactly_once_and_have_no_view(place: Place) -> None:
    place.key = ("shop", "event_id")
    sink = place.writer()
    for number in range(2):
        sink.write(events(place, number))
    assert place.writer().write(events(place, 1)).replayed
    assert place.holds(events(place, 0), events(place, 1))
    assert place.client.command(f"EXISTS VIEW {place.table}_latest") == 0


def test_plain_events_that_come_again_at_least_once_are_shown_once_as_they_came_last(live: Place) -> None:
    live.key = ("shop", "event_id")
    for number in (0, 0, 1):
        live.writer().write(events(live, number))
    shown = live.client.query(f"SELECT event_id, seen_in FROM {live.table}_latest").result_rows  # noqa: S608
    assert sorted(tuple(row) for row in shown) == [(f"e{i}", 1) for i in range(5)]


def test_the_latest_shows_the_newest_version_of_a_key_of_several_columns(live: Place) -> None:
    live.key = ("session_id", "user_id")
    sink = live.writer()
    sink.write(live.batch(0, [session("u1", version=1), session("u1", version=2, key="other")]))
    sink.write(live.batch(1, [session("u1", version=3, events=9)]))
    rows = live.client.query(f"SELECT user_id, version FROM {live.table}_latest").result_rows  # noqa: S608
    assert sorted(tuple(row) for row in rows) == [("other", 2), ("u1", 3)]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
DECIMALS = st.decimals(-(10**8), 10**8, places=6)
MOMENTS = st.datetimes(datetime(1901, 1, 1), datetime(2298, 12, 31))
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), TEXTS),
    "tiny": (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    "small": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "whole": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "big": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "single": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "truth": (pa.bool_(), st.booleans()),
    "amount": (pa.decimal128(18, 6), DECIMALS),
    "day": (pa.date32(), MOMENTS.map(lambda moment: moment.date())),
    "moment": (pa.timestamp("us", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
    "clock": (pa.timestamp("ms"), MOMENTS.map(lambda moment: moment.replace(microsecond=5_000))),
    "raw": (pa.binary(), st.binary(max_size=8)),
    "texts": (pa.list_(pa.string()), st.lists(st.none() | TEXTS, max_size=3)),
    "amounts": (pa.list_(pa.decimal128(18, 6)), st.lists(DECIMALS, max_size=3)),
    "raws": (pa.list_(pa.binary()), st.lists(st.binary(max_size=4), max_size=3)),
    "item": (
        pa.struct([("name", pa.string()), ("prices", pa.map_(pa.string(), pa.float64()))]),
        st.fixed_dictionaries({"name": TEXTS, "prices": st.just([("a", 1.5)])}),
    ),
}
TYPED = pa.schema([("event_id", pa.int64()), *((name, kind) for name, (kind, _) in VALUES.items())])
TYPED_ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, (_, values) in VALUES.items()}),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def typed(services: Addresses) -> Iterator[Place]:
    """A place for rows of every type, kept over all examples."""
    unique = f"typed_{uuid.uuid4().hex[:12]}"
    client = clickhouse_connect.get_client(dsn=services.clickhouse)
    yield Place(services.clickhouse, unique, unique, client, key=("event_id",))
    client.close()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=TYPED_ROWS, other=TYPED_ROWS)
def test_rows_of_every_type_that_were_left_without_a_position_compare_as_what_they_were(
    typed: Place, rows: list[dict[str, Any]], other: list[dict[str, Any]]
) -> None:
    # [3] So they came back as they went: the comparison reads them all.
    query = f"typed-{uuid.uuid4().hex}"

    def batch(given: list[dict[str, Any]]) -> Batch:
        made = pa.Table.from_pylist([{"event_id": at, **row} for at, row in enumerate(given)], TYPED)
        for name, value, kind in (("query", query, pa.string()), ("batch", 0, pa.int64())):
            made = made.append_column(name, pa.array([value] * made.num_rows, kind))
        return Batch.of(query, 0, made)

    def writer() -> ClickHouseSink:
        return ClickHouseSink("typed", typed.address, typed.table, query, key=typed.key, keep="all")

    crashed, differing, after = writer(), writer(), writer()
    crashed._create(batch(rows).rows.schema)
    crashed._insert(batch(rows), crashed._token(batch(rows)))
    if len(other) == len(rows) and storable(batch(other).rows) != storable(batch(rows).rows):
        with pytest.raises(ReplayDiffers):
            differing.write(batch(other))
    assert not after.write(batch(rows)).replayed
    for sink in (crashed, differing, after):
        sink.close()


def test_readers_see_the_values_that_were_written(place: Place) -> None:
    place.key = ("event_id",)
    moment = datetime(2026, 7, 1, 12, 0, 0, 5, tzinfo=UTC)
    rows = pa.table(
        {
            "event_id": ["a"],
            "amount": pa.array([Decimal("12.34")], pa.decimal128(12, 2)),
            "day": [moment.date()],
            "at": pa.array([moment], pa.timestamp("us", "UTC")),
            "tags": pa.array([["x", None]], pa.list_(pa.string())),
            "none": pa.array([None], pa.list_(pa.string())),
            "item": [{"name": "é", "price": Decimal("1.50")}],
            "query": [place.query],
            "batch": [0],
        }
    )
    place.writer().write(Batch.of(place.query, 0, rows))
    [row] = place.client.query(
        f"SELECT amount, day, toString(at), tags, none, item FROM {place.table}"  # noqa: S608
    ).result_rows
    assert tuple(row) == (
        Decimal("12.34"),
        moment.date(),
        "2026-07-01 12:00:00.000005",
        ["x", None],
        [],
        '{"name":"é","price":"1.50"}',
    )


def test_a_column_of_a_type_that_has_no_place_is_named(place: Place) -> None:
    rows = pa.table({"session_id": ["a"], "took": pa.array([timedelta(1)])})
    with pytest.raises(SinkError, match=r"no type for column took \(duration"):
        place.writer().write(Batch.of(place.query, 0, rows))


def test_rows_that_nothing_tells_apart_are_refused(live: Place) -> None:
    with pytest.raises(SinkError, match="1 of 2 rows have no session_id"):
        live.writer().write(Batch.of(live.query, 0, pa.table({"session_id": ["a", None]})))
    with pytest.raises(SinkError, match="the rows have no column session_id"):
        live.writer().write(Batch.of(live.query, 0, pa.table({"event_id": ["a"]})))


@pytest.mark.parametrize("keep", ["all", "newest"])
def test_a_table_without_a_column_is_a_sink_error_that_names_it(place: Place, keep: str) -> None:
    place.keep = keep
    place.writer().write(place.batch(0))
    place.client.command(f"ALTER TABLE {place.table} DROP COLUMN revenue, DROP COLUMN country")
    with pytest.raises(SinkError, match="no column revenue, country") as caught:
        place.writer().write(place.batch(1))
    assert "ADD COLUMN" in caught.value.hint


def test_an_address_where_nothing_listens_is_a_sink_error_that_keeps_the_password(place: Place) -> None:
    address = "http://user:s3cret@127.0.0.1:1"
    with pytest.raises(SinkError, match=r"at 127.0.0.1:1 does not answer") as caught:
        ClickHouseSink("sessions", address, place.table, place.query, key=place.key, keep="all")
    assert "s3cret" not in str(caught.value)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Services]:
    """A ClickHouse of its own, to be killed."""
    running = Services(DataDir.at(tmp_path), tie_to_parent=True, only=("clickhouse",))
    try:
        running.start()
        yield running
    finally:
        running.stop()


def kill(services: Services) -> None:
    [status] = services.status()
    assert status.pid is not None
    process = psutil.Process(status.pid)
    os.kill(status.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_batch_that_failed_because_the_server_was_killed_goes_through_once_it_is_back(
    mortal: Services,
) -> None:
    # [4]
    address = mortal.addresses().clickhouse
    client = clickhouse_connect.get_client(dsn=address, autogenerate_session_id=False)
    place = Place(address, "sessions", "clickstream", client)
    sink = place.writer()
    sink.write(place.batch(0))
    kill(mortal)
    with pytest.raises(SinkError):
        sink.write(place.batch(1))
    with pytest.raises(SinkError, match="does not answer"):
        place.writer()
    mortal.revive()
    after = place.writer()
    assert not after.write(place.batch(1)).replayed
    after.write(place.batch(2))
    assert place.holds(place.batch(0), place.batch(1), place.batch(2))
