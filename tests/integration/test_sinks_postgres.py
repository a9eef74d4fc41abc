"""What is PostgreSQL's own: transactions, locks, killed writers. What all keep is in test_sinks_protocol.py.

Numbers in brackets are the invariants of protocol.py.
"""

from __future__ import annotations

import signal
import traceback
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from psycopg import sql

from penstock.errors import Fenced, SinkError
from penstock.local.services import Addresses
from penstock.sinks.postgres import PostgresSink, postgres_answers
from tests.integration.places.place import PATIENCE_S, eventually, new_place, session
from tests.integration.places.postgres import PostgresPlace
from tests.integration.places.writer import start_writer

pytestmark = pytest.mark.integration


def everybody(number: int, size: int = 20) -> list[dict[str, Any]]:
    """A batch that replaces the rows of every other batch."""
    return [session(f"u{i}", events=number) for i in range(size)]


@pytest.fixture
def place(services: Addresses) -> Iterator[PostgresPlace]:
    with new_place(PostgresPlace, services.postgres) as here:
        yield here


def test_a_batch_that_fails_half_way_leaves_neither_rows_nor_position(place: PostgresPlace) -> None:
    # [4]
    place.write(place.batch(0))
    place.run("ALTER TABLE {} ADD CHECK (batch = 0 OR events < 15)", place.table)
    with pytest.raises(SinkError, match="check constraint"):
        place.write(place.batch(1))
    assert place.holds(place.batch(0))
    assert place.position() == 0


def test_many_sinks_that_make_the_same_tables_at_once_all_succeed(place: PostgresPlace) -> None:
    schema = f"s{uuid.uuid4().hex[:8]}"
    place.run("CREATE SCHEMA {}", sql.Identifier(schema))
    place.target = f"{schema}.sessions"
    sinks = [place.writer(f"sink{i}") for i in range(6)]
    with ThreadPoolExecutor(len(sinks)) as pool:
        list(pool.map(lambda sink: sink.write(place.batch(0)), sinks))
    assert place.holds(place.batch(0))
    assert place.select("count(*)", f"{schema}.penstock_positions") == [(6,)]


def test_of_two_writers_that_see_the_same_position_one_writes_and_the_other_compares(
    place: PostgresPlace,
) -> None:
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


def test_a_writer_that_waited_while_others_went_ahead_is_fenced_and_puts_nothing_back(
    place: PostgresPlace,
) -> None:
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


def test_a_writer_stopped_inside_its_transaction_is_ended_by_the_next_one_and_fenced(
    place: PostgresPlace,
) -> None:
    # [1] The stopped process keeps its connection, and with it the lock, for as long as it is stopped.
    place.write(place.batch(0))
    with place.held_up():
        zombie = start_writer(place, 1)
        eventually(lambda: place.waiting("relation") == 1)
        zombie.send_signal(signal.SIGSTOP)
    try:
        assert not place.write(place.batch(1), place.batch(2)).replayed
        zombie.send_signal(signal.SIGCONT)
        said, _ = zombie.communicate(timeout=PATIENCE_S)
    finally:
        zombie.kill()
    assert said.split() == ["SinkError", "Fenced"]
    assert place.holds(place.batch(0), place.batch(1), place.batch(2))
    assert place.position() == 2


def test_a_server_that_acknowledges_before_it_has_written_is_told_not_to(place: PostgresPlace) -> None:
    # Else one that is killed forgets what it acknowledged.
    place.address += f"{'&' if '?' in place.address else '?'}options=-csynchronous_commit%3Doff"
    shown = place.writer()._connection.execute("SHOW synchronous_commit").fetchone()
    assert shown == ("on",)


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
