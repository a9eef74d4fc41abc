"""What is ClickHouse's own: tokens, lost rows, views. What all stores keep is in test_sinks_protocol.py."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.errors import SinkError
from penstock.local.services import Addresses
from penstock.sinks.clickhouse import ClickHouseSink
from penstock.sinks.protocol import Batch
from tests.integration.places.clickhouse import ClickHousePlace
from tests.integration.places.place import new_place, session, sessions

pytestmark = pytest.mark.integration


@pytest.fixture
def place(services: Addresses) -> Iterator[ClickHousePlace]:
    with new_place(ClickHousePlace, services.clickhouse) as here:
        yield here


@pytest.fixture
def live(services: Addresses) -> Iterator[ClickHousePlace]:
    with new_place(ClickHousePlace, services.clickhouse, exactly_once=False) as here:
        yield here


def test_rows_in_many_chunks_are_held_once(place: ClickHousePlace) -> None:
    batch = place.batch(0)
    chunked = pa.concat_tables(batch.rows.slice(at, 3) for at in range(0, batch.count, 3))
    for _ in range(2):
        place.write(Batch.of(place.query, 0, chunked))
    assert place.holds(batch)


def test_rows_without_a_position_are_not_written_again_though_the_server_has_forgotten_their_token(
    place: ClickHousePlace,
) -> None:
    # It remembers the last 1,000.
    crashed = place.writer()
    crashed.write(place.batch(0))
    crashed._insert(place.batch(1), "another token")
    assert not place.write(place.batch(1)).replayed
    assert place.holds(place.batch(0), place.batch(1))


def test_rows_that_the_server_lost_come_back_although_it_remembers_their_token(
    place: ClickHousePlace,
) -> None:
    crashed = place.writer()
    crashed.write(place.batch(0))
    token = crashed._token(place.batch(1))
    crashed._insert(place.batch(1), token)
    place.forget(place.batch(1))
    crashed._insert(place.batch(1), token)
    assert place.holds(place.batch(0)), "the server should have dropped rows whose token it remembers"
    assert not place.write(place.batch(1)).replayed
    assert place.holds(place.batch(0), place.batch(1))


def test_rows_that_the_server_lost_come_back_although_it_has_their_position(place: ClickHousePlace) -> None:
    place.write(place.batch(0))
    place.forget(place.batch(0))
    place.write(place.batch(0))
    assert place.holds(place.batch(0))


def test_a_position_that_the_server_lost_comes_back(place: ClickHousePlace) -> None:
    place.write(place.batch(0), place.batch(1))
    place.lose_position()
    place.write(place.batch(1), adopt=True)
    assert place.position() == 1
    assert place.holds(place.batch(0), place.batch(1))


def test_rows_that_cannot_be_brought_back_are_a_sink_error(place: ClickHousePlace) -> None:
    for _ in range(2):
        place.write(place.batch(0))
        place.forget(place.batch(0))
    with pytest.raises(SinkError, match="0 of 20 rows of batch 0"):
        place.write(place.batch(0))


def test_a_batch_of_which_only_some_rows_are_there_is_refused_with_a_hint_that_can_be_followed(
    place: ClickHousePlace,
) -> None:
    crashed = place.writer()
    crashed.write(place.batch(0))
    crashed._insert(place.batch(1, sessions(1)[:7]), "half")
    with pytest.raises(SinkError, match="7 of 20 rows of batch 1") as caught:
        place.write(place.batch(1))
    hint = caught.value.hint
    delete = hint[hint.index("(") + 1 : hint.rindex(")")]
    place.client.command(delete, settings={"mutations_sync": 2})
    assert not place.write(place.batch(1)).replayed
    assert place.holds(place.batch(0), place.batch(1))


def test_the_live_table_shows_the_newest_version_in_whatever_order_it_came(live: ClickHousePlace) -> None:
    sink = live.writer()
    sink.write(live.batch(0, [session("u1", "live", 1, events=1), session("u2", "live", 1, events=1)]))
    sink.write(live.batch(1, [session("u1", "final", 3, events=3), session("u2", "live", 2, events=2)]))
    # As a batch that comes again after the next one has been there.
    sink.write(live.batch(0, [session("u1", "live", 1, events=1), session("u2", "live", 1, events=1)]))
    expected = {"u1@10": ("final", 3, 3), "u2@10": ("live", 2, 2)}
    assert live.latest() == expected
    live.client.command(f"OPTIMIZE TABLE {live.target} FINAL")
    assert live.latest() == expected


def test_a_retracted_session_disappears_from_the_latest(live: ClickHousePlace) -> None:
    sink = live.writer()
    sink.write(live.batch(0, [session("u1", "live", 1), session("u2", "live", 1)]))
    sink.write(live.batch(1, [session("u1", "retracted", 2, events=None)]))
    assert live.latest() == {"u2@10": ("live", 1, 1)}
    live.client.command(f"OPTIMIZE TABLE {live.target} FINAL")
    assert live.latest() == {"u2@10": ("live", 1, 1)}


def test_a_retracted_session_disappears_from_the_latest_of_an_exactly_once_table(
    place: ClickHousePlace,
) -> None:
    sink = place.writer()
    sink.write(place.batch(0, [session("u1"), session("u2")]))
    sink.write(place.batch(1, [session("u1", "retracted", 2), session("u2", version=2)]))
    assert place.latest() == {"u2@10": ("final", 2, 1)}
    assert place.select("count()") == [(4,)]


def events(place: ClickHousePlace, number: int, size: int = 5) -> Batch:
    """Plain events: without a version, and without a kind."""
    rows = pa.table(
        {
            "shop": pa.array([i % 2 for i in range(size)], pa.int16()),
            "event_id": [f"e{i}" for i in range(size)],
            "seen_in": [number] * size,
            "query": [place.query] * size,
            "batch": [number] * size,
            "slot": [0] * size,
        }
    )
    return Batch.of(place.query, number, rows)


def test_plain_events_are_all_kept_exactly_once_and_have_no_view(place: ClickHousePlace) -> None:
    place.key = ("shop", "event_id")
    sink = place.writer()
    for number in range(2):
        sink.write(events(place, number))
    assert place.write(events(place, 1)).replayed
    assert place.holds(events(place, 0), events(place, 1))
    assert place.client.command(f"EXISTS VIEW {place.target}_latest") == 0


def test_plain_events_that_come_again_at_least_once_are_shown_once_as_they_came_last(
    live: ClickHousePlace,
) -> None:
    live.key = ("shop", "event_id")
    for number in (0, 0, 1):
        live.write(events(live, number))
    assert sorted(live.select("event_id, seen_in", f"{live.target}_latest")) == [
        (f"e{i}", 1) for i in range(5)
    ]


def test_the_latest_shows_the_newest_version_of_a_key_of_several_columns(live: ClickHousePlace) -> None:
    live.key = ("session_id", "events")
    live.write(
        live.batch(0, [session("u1", version=1), session("u1", version=2, events=7)]),
        live.batch(1, [session("u1", version=3)]),
    )
    assert sorted(live.select("events, version", f"{live.target}_latest")) == [(1, 3), (7, 2)]


def test_rows_that_nothing_tells_apart_are_refused(live: ClickHousePlace) -> None:
    with pytest.raises(SinkError, match="1 of 2 rows have no session_id"):
        live.write(Batch.of(live.query, 0, pa.table({"session_id": ["a", None]})))
    with pytest.raises(SinkError, match="the rows have no column session_id"):
        live.write(Batch.of(live.query, 0, pa.table({"event_id": ["a"]})))


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_table_without_a_column_is_a_sink_error_that_names_it(
    place: ClickHousePlace, exactly_once: bool
) -> None:
    place.exactly_once = exactly_once
    place.write(place.batch(0))
    place.client.command(f"ALTER TABLE {place.target} DROP COLUMN events, DROP COLUMN country")
    with pytest.raises(SinkError, match="no column events, country") as caught:
        place.write(place.batch(1))
    assert "ADD COLUMN" in caught.value.hint


def test_an_address_where_nothing_listens_is_a_sink_error_that_keeps_the_password() -> None:
    address = "http://user:s3cret@127.0.0.1:1"
    with pytest.raises(SinkError, match=r"at http://user:\*\*\*@127.0.0.1:1 does not answer") as caught:
        ClickHouseSink("sessions", address, "t", "q", key=["id"], keep="all")
    assert "s3cret" not in str(caught.value)
