"""Writers of one sink that die, or that meet another. Numbers in brackets are the invariants of protocol.py.

Where a store cannot keep a rule, a test of its own says what it does instead.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import count, takewhile
from random import Random

import pytest

from penstock.errors import Fenced, ReplayDiffers, SinkError
from penstock.local.services import Addresses
from penstock.sinks.protocol import Sink
from tests.integration.places.kafka import KafkaPlace
from tests.integration.places.place import Place, eventually, new_place, sessions
from tests.integration.places.stores import STORES, only
from tests.integration.places.writer import start_writer

pytestmark = pytest.mark.integration


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, services: Addresses) -> Iterator[Place]:
    """A place in each store in turn."""
    with new_place(STORES[request.param], getattr(services, request.param)) as here:
        yield here


def test_a_batch_whose_writer_died_before_the_position_is_held_once_when_it_comes_again(place: Place) -> None:
    # [4]
    place.write(place.batch(0))
    place.die_before_position(place.batch(1))
    assert place.position() == 0
    assert not place.write(place.batch(1)).replayed
    assert place.write(place.batch(1)).replayed
    assert place.holds(place.batch(0), place.batch(1))


@only("kafka", "postgres")
def test_a_batch_whose_writer_died_before_the_position_is_not_to_be_seen(place: Place) -> None:
    # [4]
    place.write(place.batch(0))
    place.die_before_position(place.batch(1))
    assert place.holds(place.batch(0))
    # Nothing of it is there, so nothing is there to compare with.
    assert not place.write(place.batch(1, sessions(1, country="other"))).replayed


@only("clickhouse")
def test_clickhouse_shows_rows_that_have_no_position_yet_and_so_holds_their_batch_to_them(
    place: Place,
) -> None:
    # Two inserts are not one atomic act.
    place.write(place.batch(0))
    place.die_before_position(place.batch(1))
    assert place.holds(place.batch(0), place.batch(1))
    with pytest.raises(ReplayDiffers):
        place.write(place.batch(1, sessions(1, country="other")))


def side_by_side(place: Place) -> tuple[Sink, Sink]:
    """An older and a newer writer, both of which hold batch 0 and know it."""
    old = place.writer()
    old.write(place.batch(0))
    place.settle(old)
    new = place.writer()
    assert new.write(place.batch(0)).replayed
    return old, new


@only("kafka", "postgres")
def test_an_older_writer_is_fenced_when_a_newer_one_is_ahead(place: Place) -> None:
    # [1]
    old, new = side_by_side(place)
    for number in (1, 2):
        new.write(place.batch(number))
    with pytest.raises(Fenced):
        old.write(place.batch(1, sessions(1, country="zombie")))
    assert place.holds(place.batch(0), place.batch(1), place.batch(2))
    assert place.position() == 2


@only("kafka")
def test_an_older_writer_is_fenced_as_soon_as_a_newer_one_is_open(place: Place) -> None:
    # [1]
    old, new = side_by_side(place)
    with pytest.raises(Fenced, match="newer writer"):
        old.write(place.batch(1, sessions(1, country="zombie")))
    assert place.holds(place.batch(0))
    new.write(place.batch(1))
    assert place.holds(place.batch(0), place.batch(1))


@only("postgres")
def test_postgresql_does_not_fence_a_writer_that_is_first_but_tells_the_newer_one_that_they_differ(
    place: Place,
) -> None:
    # The lock is held for a batch, not for a writer's life: whoever asks first writes, the other compares.
    old, new = side_by_side(place)
    zombie = place.batch(1, sessions(1, country="zombie"))
    assert not old.write(zombie).replayed
    with pytest.raises(ReplayDiffers):
        new.write(place.batch(1))
    assert place.holds(place.batch(0), zombie)


@only("clickhouse")
def test_clickhouse_cannot_fence_but_holds_the_same_batch_of_two_writers_once(place: Place) -> None:
    old, new = side_by_side(place)
    for number in (1, 2):
        new.write(place.batch(number))
        old.write(place.batch(number))
    assert place.holds(*(place.batch(number) for number in range(3)))
    assert place.position() == 2


@only("clickhouse")
def test_clickhouse_cannot_fence_so_other_rows_of_an_older_writer_stay_until_their_batch_comes_again(
    place: Place,
) -> None:
    # Why a pipeline has a lock on its checkpoint.
    old, new = side_by_side(place)
    new.write(place.batch(1))
    zombie = place.batch(1, sessions(1, country="zombie"))
    assert not old.write(zombie).replayed
    assert place.holds(place.batch(0), place.batch(1), zombie)
    with pytest.raises(SinkError):
        place.write(place.batch(1))


def test_a_reader_that_looks_all_the_while_sees_whole_batches_in_their_order(place: Place) -> None:
    # Kafka shows a transaction partition by partition, so it is whole for readers of one.
    one_partition = {"partitions": 1} if isinstance(place, KafkaPlace) else {}
    seen: list[list[int]] = []
    enough = threading.Event()

    def write_on(watched: Place) -> None:
        sink = watched.writer()
        for number in takewhile(lambda _: not enough.is_set(), count()):
            sink.write(watched.batch(number))

    with (
        closing(place.beside(target=f"{place.target}_watched", **one_partition)) as watched,
        ThreadPoolExecutor(1) as pool,
    ):
        watched.write(watched.batch(0))
        writing = pool.submit(write_on, watched)
        try:
            while len({len(batches) for batches in seen}) < 4 and not writing.done():
                seen.append([row["batch"] for row in watched.rows()])
        finally:
            enough.set()
        writing.result()
    for batches in seen:
        assert Counter(batches) == dict.fromkeys(range(len(batches) // 20), 20)
    assert [len(batches) for batches in seen] == sorted(len(batches) for batches in seen)


def write_until_killed(place: Place, due: int, random: Random) -> int:
    """The last batch that a writer in a process of its own acknowledged before it was killed."""
    with start_writer(place, due) as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline().split() for _ in range(random.randrange(1, 6))]
        time.sleep(random.random() * 0.03)
        writer.kill()
        told += [line.split() for line in writer.stdout.read().splitlines()]
    assert all(replayed == "False" for _, replayed in told[1:])
    return int(told[-1][0])


def has_batches(place: Place, newest: int) -> bool:
    return place.holds(*(place.batch(number) for number in range(newest + 1)))


def whole_batches(place: Place, acknowledged: int) -> bool:
    return has_batches(place, acknowledged) or has_batches(place, acknowledged + 1)


def test_writers_killed_at_any_moment_leave_whole_batches_and_lose_none(place: Place) -> None:
    # [4]
    random = Random(4)
    due = 0
    for _ in range(3):
        acknowledged = write_until_killed(place, due, random)
        # The server may still be at what the writer had asked for.
        eventually(partial(whole_batches, place, acknowledged))
        due = acknowledged + 1  # as Spark does: the batch that was not acknowledged comes again
    place.write(place.batch(due))
    assert has_batches(place, due)
