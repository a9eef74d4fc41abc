"""What a reader saw against what is there in the end."""

from __future__ import annotations

from collections.abc import Hashable

from hypothesis import given
from hypothesis import strategies as st

from penstock.faults.seen import Row, differences, twice

NAMES = st.tuples(st.sampled_from("abcdef"), st.integers(1, 4))
TABLES = st.dictionaries(st.integers(0, 50), st.builds(Row, NAMES, st.integers(0, 1)), max_size=20)


def rows(*names: str) -> dict[object, Row]:
    return {place: Row((name, 1), "same") for place, name in enumerate(names)}


def test_a_reader_that_saw_what_is_there_has_nothing_to_say() -> None:
    assert differences("topic t", rows("a", "b"), rows("a", "b", "c")) == []


def test_a_row_that_was_taken_back_is_named() -> None:
    [problem] = differences("topic t", rows("a", "b", "c"), rows("a", "b"))
    assert problem == "topic t: 1 rows were seen and taken back, e.g. c/1"


def test_a_row_that_changed_in_its_place_was_taken_back() -> None:
    [problem] = differences("topic t", rows("a"), {0: Row(("a", 1), "other")})
    assert "taken back" in problem


def test_a_row_that_is_there_twice_is_named_whether_or_not_it_was_seen() -> None:
    [problem] = differences("topic t", rows("a"), rows("a", "b", "b"))
    assert problem == "topic t: 1 rows came twice, e.g. b/1"


def test_a_reader_that_saw_nothing_proves_nothing() -> None:
    assert differences("topic t", {}, rows("a")) == ["topic t: the reader saw nothing"]


@given(TABLES)
def test_as_many_rows_came_twice_as_there_are_beyond_the_different_names(table: dict[int, Row]) -> None:
    assert len(twice(table.values())) == len(table) - len({row.name for row in table.values()})


@given(TABLES, TABLES)
def test_only_a_part_of_what_is_there_is_seen_without_a_word(
    seen: dict[Hashable, Row], final: dict[Hashable, Row]
) -> None:
    is_part = bool(seen) and seen.items() <= final.items() and not twice(final.values())
    assert (differences("t", seen, final) == []) == is_part
