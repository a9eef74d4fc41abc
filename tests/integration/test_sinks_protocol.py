"""What every store keeps of the sink protocol, said once, exactly once.

Numbers in brackets are the invariants of protocol.py. Writers that die or meet are in test_sinks_writers.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import Fenced, PositionLost, ReplayDiffers, SinkError
from penstock.local.services import Addresses
from penstock.sinks.protocol import NOTHING, Batch
from tests.integration.places.place import SINK, Place, new_place, sessions
from tests.integration.places.stores import STORES

pytestmark = pytest.mark.integration

OTHER_ROWS = [
    pytest.param(sessions(1, size=21), id="a row more"),
    pytest.param(sessions(1, size=19), id="a row less"),
    pytest.param(sessions(1, country="other"), id="another value"),
    pytest.param(sessions(1)[::-1], id="another order"),
    pytest.param([], id="no rows"),
]


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, services: Addresses) -> Iterator[Place]:
    """A place in each store in turn, for rows exactly once."""
    with new_place(STORES[request.param], getattr(services, request.param)) as here:
        yield here


def test_batches_are_held_once_and_told_of_as_they_are(place: Place) -> None:
    batches = [place.batch(number) for number in range(4)]
    sink = place.writer()
    outcomes = [sink.write(batch) for batch in batches]
    assert not any(outcome.replayed for outcome in outcomes)
    assert [(o.count, o.digest) for o in outcomes] == [(b.count, b.digest) for b in batches]
    assert place.holds(*batches)
    assert place.position() == 3


def test_an_empty_batch_moves_the_position(place: Place) -> None:
    # [2]
    empty = place.batch(1, [])
    place.write(place.batch(0))
    assert not place.write(empty).replayed
    assert place.position() == 1
    assert place.write(empty).replayed
    assert not place.write(place.batch(2)).replayed
    assert place.holds(place.batch(0), place.batch(2))


def test_a_writer_goes_on_after_an_empty_batch_of_its_own(place: Place) -> None:
    # [2]
    place.write(place.batch(0), place.batch(1, []), place.batch(2, []), place.batch(3))
    assert place.holds(place.batch(0), place.batch(3))
    assert place.position() == 3


def test_the_first_batch_may_be_empty(place: Place) -> None:
    # [2]
    assert not place.write(place.batch(0, [])).replayed
    assert place.write(place.batch(0, [])).replayed
    assert not place.write(place.batch(1)).replayed
    assert place.holds(place.batch(1))


def test_a_new_writer_does_not_write_a_batch_that_is_there_and_goes_on_after_it(place: Place) -> None:
    # [3]
    place.write(place.batch(0), place.batch(1))
    second = place.writer()
    outcome = second.write(place.batch(1))
    assert (outcome.replayed, outcome.count, outcome.digest) == (True, 20, place.batch(1).digest)
    assert not second.write(place.batch(2)).replayed
    assert place.holds(place.batch(0), place.batch(1), place.batch(2))
    assert place.position() == 2


@pytest.mark.parametrize("rows", OTHER_ROWS)
def test_a_batch_that_comes_again_with_other_rows_is_refused(
    place: Place, rows: list[dict[str, Any]]
) -> None:
    # [3]
    place.write(place.batch(0), place.batch(1))
    with pytest.raises(ReplayDiffers, match=f"sink {SINK}: batch 1 came again with other content"):
        place.write(place.batch(1, rows))
    assert place.holds(place.batch(0), place.batch(1))
    assert place.write(place.batch(1)).replayed


@pytest.mark.parametrize(
    ("due", "error"),
    [
        pytest.param(3, PositionLost, id="a gap of one"),
        pytest.param(9, PositionLost, id="a gap of many"),
        pytest.param(0, Fenced, id="behind"),
    ],
)
def test_a_batch_that_does_not_follow_is_refused_and_leaves_nothing(
    place: Place, due: int, error: type[SinkError]
) -> None:
    # [2]
    place.write(place.batch(0), place.batch(1))
    with pytest.raises(error) as caught:
        place.write(place.batch(due, sessions(99)))
    assert ("penstock check" if error is Fenced else f"--adopt {SINK}") in caught.value.hint
    assert place.holds(place.batch(0), place.batch(1))
    assert place.position() == 1


def test_a_writer_refuses_a_gap_behind_a_batch_of_its_own(place: Place) -> None:
    # [2]
    sink = place.writer()
    sink.write(place.batch(0))
    with pytest.raises(PositionLost):
        sink.write(place.batch(2))
    assert place.holds(place.batch(0))
    assert place.position() == 0


def test_a_sink_without_a_position_goes_on_only_if_it_is_adopted(place: Place) -> None:
    with pytest.raises(PositionLost, match="holds no position") as caught:
        place.write(place.batch(5))
    assert f"--adopt {SINK}" in caught.value.hint
    assert place.rows() == []
    place.write(place.batch(5), place.batch(6), adopt=True)
    place.write(place.batch(7))
    assert place.holds(place.batch(5), place.batch(6), place.batch(7))


def test_a_sink_whose_position_was_deleted_goes_on_only_if_it_is_adopted(place: Place) -> None:
    place.write(place.batch(0), place.batch(1))
    place.lose_position()
    assert place.position() is None
    for due in (1, 2):
        with pytest.raises(PositionLost, match="holds no position"):
            place.write(place.batch(due))
    assert place.holds(place.batch(0), place.batch(1))
    assert not place.write(place.batch(2), adopt=True).replayed
    assert place.holds(place.batch(0), place.batch(1), place.batch(2))
    assert place.position() == 2


def test_an_adopted_sink_takes_one_gap_and_not_a_second(place: Place) -> None:
    place.write(place.batch(0))
    adopted = place.writer(adopt=True)
    adopted.write(place.batch(5))
    with pytest.raises(PositionLost):
        adopted.write(place.batch(9))
    assert place.holds(place.batch(0), place.batch(5))


def test_adopting_a_sink_overrules_neither_a_batch_that_is_there_nor_a_writer_ahead(place: Place) -> None:
    # [3]
    place.write(place.batch(0), place.batch(1))
    assert place.write(place.batch(1), adopt=True).replayed
    with pytest.raises(ReplayDiffers):
        place.write(place.batch(1, sessions(1, country="other")), adopt=True)
    with pytest.raises(Fenced):
        place.write(place.batch(0), adopt=True)
    assert place.holds(place.batch(0), place.batch(1))


def test_two_sinks_of_one_query_have_positions_of_their_own(place: Place) -> None:
    with closing(place.beside(target=f"{place.target}_other")) as other:
        place.write(place.batch(0), place.batch(1), name="one")
        assert not other.write(place.batch(0), name="other").replayed
        assert place.write(place.batch(1), name="one").replayed
        assert not other.write(place.batch(1), name="other").replayed
        assert place.holds(place.batch(0), place.batch(1))
        assert other.holds(place.batch(0), place.batch(1))


def test_two_queries_that_write_to_one_place_have_positions_of_their_own(place: Place) -> None:
    with closing(place.beside(query=f"{place.query}-other")) as other:
        place.write(place.batch(0), place.batch(1))
        theirs = other.batch(0, sessions(70, size=5))
        assert not other.write(theirs).replayed
        assert other.write(theirs).replayed
        assert place.write(place.batch(1)).replayed
        assert place.holds(place.batch(0), place.batch(1), theirs)
        assert (place.position(), other.position()) == (1, 0)


def test_two_slots_of_one_sink_have_positions_and_rows_of_their_own(place: Place) -> None:
    with closing(place.beside(slot=1)) as other:
        place.write(place.batch(0), place.batch(1))
        theirs = [other.batch(0, []), other.batch(1, sessions(71, size=5))]
        assert not other.write(*theirs).replayed
        assert other.write(theirs[1]).replayed
        assert place.write(place.batch(1)).replayed
        assert place.holds(place.batch(0), place.batch(1), *theirs)
        assert not place.write(place.batch(2)).replayed
        assert (place.position(), other.position()) == (2, 1)
        with pytest.raises(PositionLost):
            other.write(other.batch(3))


class Attempt(NamedTuple):
    """A new writer that is given a batch."""

    ahead: int
    """Of the newest batch that is there."""
    country: str
    """In all its rows: one batch can come with this content or that."""
    adopt: bool


ATTEMPTS = st.builds(
    Attempt,
    ahead=st.sampled_from([1, 1, 1, 0, 0, -1, 2]),
    country=st.sampled_from(["FR", "PE"]),
    adopt=st.booleans(),
)


def verdict(held: Batch | None, batch: Batch, *, adopt: bool) -> bool | type[SinkError]:
    """Whether the batch counts as replayed, or how it is refused: the table in ARCHITECTURE.md."""
    newest = held.number if held else NOTHING
    if batch.number < newest:
        return Fenced
    if held and batch.number == newest:
        return held.digest == batch.digest or ReplayDiffers
    return False if batch.number == newest + 1 or adopt else PositionLost


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(attempts=st.lists(ATTEMPTS, min_size=4, max_size=12))
def test_any_history_of_writers_leaves_what_the_protocol_says(place: Place, attempts: list[Attempt]) -> None:
    # [2] [3]
    unique = uuid.uuid4().hex[:12]
    held: list[Batch] = []
    with closing(place.beside(target=f"walk_{unique}", query=f"walk-{unique}")) as here:
        for ahead, country, adopt in attempts:
            newest = held[-1] if held else None
            number = max(0, (newest.number if newest else NOTHING) + ahead)
            batch = here.batch(number, sessions(number, size=3, country=country))
            expected = verdict(newest, batch, adopt=adopt)
            try:
                outcome: bool | type[SinkError] = here.write(batch, adopt=adopt).replayed
            except SinkError as error:
                outcome = type(error)
            assert outcome == expected
            if outcome is False:
                held.append(batch)
            assert here.position() == (held[-1].number if held else None)
        assert here.holds(*held)
