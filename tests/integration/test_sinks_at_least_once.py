"""Sinks that take rows at least once: what every store does with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.local.services import Addresses
from tests.integration.places.place import Place, new_place, sessions
from tests.integration.places.stores import STORES

pytestmark = pytest.mark.integration


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, services: Addresses) -> Iterator[Place]:
    """A place in each store in turn, for rows at least once."""
    with new_place(STORES[request.param], getattr(services, request.param), exactly_once=False) as here:
        yield here


def test_batches_are_held_and_told_of_as_they_are(place: Place) -> None:
    batches = [place.batch(number) for number in range(3)]
    sink = place.writer()
    outcomes = [sink.write(batch) for batch in batches]
    assert not any(outcome.replayed for outcome in outcomes)
    assert [(o.count, o.digest) for o in outcomes] == [(b.count, b.digest) for b in batches]
    assert place.holds(*batches)


def test_a_batch_that_comes_again_is_written_again_and_shown_once(place: Place) -> None:
    for _ in range(2):
        sink = place.writer()
        for _ in range(2):
            assert not sink.write(place.batch(0)).replayed
    assert place.holds(place.batch(0))


def test_a_batch_that_comes_again_with_other_rows_is_taken(place: Place) -> None:
    newer = [{**row, "version": 2, "country": "other"} for row in sessions(0)]
    place.write(place.batch(0))
    assert not place.write(place.batch(0, newer)).replayed
    assert place.holds(place.batch(0, newer))


def test_needs_no_position_and_batches_may_come_in_any_order(place: Place) -> None:
    batches = [place.batch(number) for number in (5, 9, 2)]
    place.write(*batches)
    assert place.holds(*batches)


def test_an_empty_batch_leaves_no_rows(place: Place) -> None:
    assert place.write(place.batch(0, [])).count == 0
    place.write(place.batch(1))
    assert place.holds(place.batch(1))
