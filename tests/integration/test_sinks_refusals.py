"""Rows that a store does not take: set aside one by one where a sink is told to, and else the batch fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.errors import SinkError
from penstock.local.services import Addresses
from penstock.sinks.protocol import Batch, Written
from tests.integration.places.place import Place, bad, new_place, session, sessions
from tests.integration.places.postgres import PostgresPlace
from tests.integration.places.stores import STORES, only

pytestmark = pytest.mark.integration

MIXED: list[dict[str, Any]] = [bad("a"), *sessions(7, size=15), bad("b"), bad("c"), session("last")]
BAD = [0, 16, 17]


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, services: Addresses) -> Iterator[Place]:
    """A place in each store in turn that has a batch, and from now on refuses bad rows."""
    with new_place(STORES[request.param], getattr(services, request.param), set_aside=True) as here:
        here.write(here.batch(0))
        here.refuse_bad()
        yield here


def places_of(written: Written) -> list[int]:
    return [refusal.row for refusal in written.refused]


def taken(place: Place, batch: Batch, refused: list[int]) -> Batch:
    """What is left of a batch."""
    rows = [row for number, row in enumerate(batch.rows.to_pylist()) if number not in refused]
    return place.batch(batch.number, rows)


def test_bad_rows_are_told_of_and_all_others_are_held(place: Place) -> None:
    batch = place.batch(1, MIXED)
    written = place.write(batch)
    assert places_of(written) == BAD
    assert all(refusal.reason for refusal in written.refused)
    assert (written.count, written.digest, written.replayed) == (batch.count, batch.digest, False)
    assert place.holds(place.batch(0), taken(place, batch, BAD))
    assert place.position() == 1


def test_a_batch_that_comes_again_tells_of_the_same_rows(place: Place) -> None:
    batch = place.batch(1, MIXED)
    first = place.write(batch)
    again = place.write(batch)
    assert again.replayed
    assert again.refused == first.refused
    assert not place.write(place.batch(2)).refused
    assert place.holds(place.batch(0), taken(place, batch, BAD), place.batch(2))


def test_one_writer_goes_on_behind_bad_rows(place: Place) -> None:
    sink = place.writer()
    assert places_of(sink.write(place.batch(1))) == []
    assert places_of(sink.write(place.batch(2, MIXED))) == BAD
    assert places_of(sink.write(place.batch(3, [bad("z")]))) == [0]
    assert places_of(sink.write(place.batch(4))) == []
    left = taken(place, place.batch(2, MIXED), BAD)
    assert place.holds(place.batch(0), place.batch(1), left, place.batch(4))


def test_a_writer_that_dies_before_the_position_leaves_nothing_in_doubt(place: Place) -> None:
    batch = place.batch(1, MIXED)
    place.die_before_position(batch)
    written = place.write(batch)
    assert places_of(written) == BAD
    assert place.holds(place.batch(0), taken(place, batch, BAD))
    assert place.position() == 1


def test_at_least_once_the_others_are_held_as_well(place: Place, services: Addresses) -> None:
    with new_place(type(place), place.address, set_aside=True, exactly_once=False) as here:
        here.write(here.batch(0))
        here.refuse_bad()
        batch = here.batch(1, MIXED)
        for _ in range(2):
            assert places_of(here.write(batch)) == BAD
        assert here.holds(here.batch(0), taken(here, batch, BAD))


def test_without_a_place_for_them_the_batch_fails_as_a_whole(place: Place) -> None:
    strict = place.beside(set_aside=False)
    with pytest.raises(SinkError, match="sink sessions") as caught:
        strict.write(strict.batch(1, MIXED))
    assert "refused" in caught.value.hint
    assert strict.holds(strict.batch(0))
    assert strict.position() == 0
    strict.close()


@only("clickhouse", "postgres")
def test_a_table_that_takes_nothing_is_no_matter_of_rows(place: Place) -> None:
    with pytest.raises(SinkError, match="rows are refused"):
        place.write(place.batch(1, [bad(str(number)) for number in range(30)]))
    assert place.holds(place.batch(0))
    assert place.position() == 0


@only("postgres")
@pytest.mark.parametrize(
    "rule",
    [
        "ALTER TABLE {} ADD CONSTRAINT one UNIQUE (events) DEFERRABLE INITIALLY DEFERRED",
        "ALTER TABLE {} ALTER COLUMN country SET NOT NULL",
    ],
)
def test_postgres_refuses_for_many_reasons(place: PostgresPlace, rule: str) -> None:
    place.run("DELETE FROM {}", place.table)
    place.run(rule, place.table)
    good = session("good", events=1, country="FR")
    wrong = {
        "UNIQUE": session("wrong", events=1, country="FR"),
        "NOT NULL": session("wrong", events=2, country=None),
    }
    [row] = [row for word, row in wrong.items() if word in rule]
    batch = place.batch(1, [good, row])
    assert places_of(place.write(batch)) == [1]
    assert place.holds(taken(place, batch, [1]))


@only("postgres")
def test_a_trigger_may_refuse_a_row(place: PostgresPlace) -> None:
    place.run("ALTER TABLE {} DROP CONSTRAINT counted", place.table)
    place.run(
        "CREATE OR REPLACE FUNCTION no_bad() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF new.events < 0 THEN RAISE EXCEPTION 'fewer than none'; END IF; RETURN new; END $$"
    )
    place.run("CREATE TRIGGER judge BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION no_bad()", place.table)
    written = place.write(place.batch(1, MIXED))
    assert {refusal.reason for refusal in written.refused} == {"fewer than none"}
    assert places_of(written) == BAD
