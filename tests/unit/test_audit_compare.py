"""What a sink holds against what it must hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from penstock.audit.compare import compare, newest
from penstock.produce.oracle import expected_sessions
from penstock.produce.workload import Expected

EVENTS = pa.table(
    {
        "user_id": ["u1", "u1", "u2", "u1", "u3"],
        "event_type": ["view", "purchase", "click", "view", "purchase"],
        "page": ["/a", "/checkout", "/b", "/c", "/checkout"],
        "price_cents": pa.array([None, 1999, None, None, 500], pa.int32()),
        "ts_ms": [100, 150, 120, 160, 130],
    }
)
EXPECTED = Expected(expected_sessions(EVENTS, gap_ms=1_000), "session_id", weight="events")
COMPARED = ("events", "purchases", "revenue", "first_page", "last_page", "end_ms")
ROW = pa.schema(
    [
        ("session_id", pa.string()),
        ("version", pa.int64()),
        ("kind", pa.string()),
        *(EXPECTED.rows.schema.field(name) for name in COMPARED),
    ]
)


def row(user: str, start: int, **other: Any) -> dict[str, Any]:
    """The final row that a right sink holds of an expected session, with changes."""
    [wanted] = [s for s in EXPECTED.rows.to_pylist() if (s["user_id"], s["start_ms"]) == (user, start)]
    right = {name: wanted[name] for name in COMPARED}
    return {"session_id": f"{user}@{start}", "version": 1, "kind": "final", **right, **other}


def rows(*given: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(given), ROW)


U1, U2, U3 = row("u1", 100), row("u2", 120), row("u3", 130)
RETRACTED = {"version": 9, "kind": "retracted", **dict.fromkeys(COMPARED)}


def outcome(*given: dict[str, Any]) -> tuple[int, int, int, int]:
    found = compare(EXPECTED, rows(*given))
    return found.held, found.lost, found.duplicated, found.wrong


def test_a_sink_that_holds_every_session_as_expected_passes() -> None:
    found = compare(EXPECTED, rows(U3, U1, U2))
    assert (found.held, found.lost, found.duplicated, found.wrong, found.examples) == (3, 0, 0, 0, ())


def test_a_session_that_an_old_event_began_is_known_by_its_start_all_the_same() -> None:
    born = U1 | {"session_id": "u1@100#61"}
    moved = U1 | RETRACTED | {"session_id": "u1@140"}
    assert outcome(born, U2, U3, moved) == (3, 0, 0, 0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param([U2, U3], (2, 3, 0, 0), id="a missing session loses its events"),
        pytest.param([], (0, 5, 0, 0), id="an empty sink loses all"),
        pytest.param(
            [U1 | {"events": 1}, U2, U3], (3, 2, 0, 0), id="a session with too few events loses the rest"
        ),
        pytest.param(
            [U1 | {"events": 5}, U2, U3], (3, 0, 2, 0), id="a session with too many events doubled them"
        ),
        pytest.param([U1, U1, U2, U3], (3, 0, 3, 0), id="a row twice doubles its events"),
        pytest.param([U1, U1, U1, U2, U3], (3, 0, 6, 0), id="a row three times doubles its events twice"),
        pytest.param(
            [U1, U2, U3, U2 | {"session_id": "u9@1", "events": 4}],
            (4, 0, 4, 0),
            id="a session nobody expects is all too much",
        ),
        pytest.param(
            [U1 | {"events": 2}, U2 | {"events": 2}, U3],
            (3, 1, 1, 0),
            id="an event in the wrong session is lost there and doubled here",
        ),
    ],
)
def test_lost_and_duplicated_are_counted_in_records(
    given: list[dict[str, Any]], expected: tuple[int, int, int, int]
) -> None:
    assert outcome(*given) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("purchases", 2),
        ("revenue", 20.0),
        ("revenue", None),
        ("first_page", "/x"),
        ("last_page", None),
        ("end_ms", 161),
    ],
)
def test_a_session_with_the_right_events_and_a_wrong_measure_is_wrong(name: str, value: object) -> None:
    found = compare(EXPECTED, rows(U1 | {name: value}, U2, U3))
    assert (found.lost, found.duplicated, found.wrong) == (0, 0, 1)
    assert found.examples == (f"u1@100: {name} {value!r} instead of {U1[name]!r}",)


def test_revenue_is_compared_to_the_cent() -> None:
    assert outcome(U1 | {"revenue": U1["revenue"] + 1e-9}, U2, U3) == (3, 0, 0, 0)
    assert outcome(U1 | {"revenue": U1["revenue"] + 0.01}, U2, U3) == (3, 0, 0, 1)


def test_the_newest_version_counts_whatever_the_order_of_rows() -> None:
    old = U1 | {"events": 1, "last_page": "/a"}
    corrected = U1 | {"version": 2, "kind": "corrected"}
    assert outcome(corrected, old, U2, U3) == outcome(old, U3, corrected, U2) == (3, 0, 0, 0)
    assert outcome(old | {"version": 3}, corrected, U2, U3) == (3, 2, 0, 0)


def test_versions_are_compared_as_numbers() -> None:
    assert outcome(U1 | {"version": 10}, U1 | {"version": 9, "events": 1}, U2, U3) == (3, 0, 0, 0)


def test_a_retracted_session_is_not_there() -> None:
    gone = {"session_id": "u1@150", "version": 1, "kind": "final"} | {name: U1[name] for name in COMPARED}
    assert outcome(gone, gone | RETRACTED, U1, U2, U3) == (3, 0, 0, 0)
    assert outcome(U1, U1 | RETRACTED, U2, U3) == (2, 3, 0, 0)


def test_a_session_that_comes_back_after_its_retraction_is_there() -> None:
    assert outcome(U1 | RETRACTED, U1 | {"version": 10, "kind": "corrected"}, U2, U3) == (3, 0, 0, 0)


def test_a_retraction_that_is_there_twice_counts_as_a_duplicate() -> None:
    gone = U1 | {"session_id": "u1@150"}
    assert outcome(gone, gone | RETRACTED, gone | RETRACTED, U1, U2, U3) == (3, 0, 1, 0)


def test_nothing_expected_and_nothing_held_agree() -> None:
    found = compare(replace(EXPECTED, rows=EXPECTED.rows.slice(0, 0)), rows())
    assert (found.held, found.lost, found.duplicated, found.wrong) == (0, 0, 0, 0)


def test_at_most_five_examples_are_told() -> None:
    strangers = [U1 | {"session_id": f"u9@{number}"} for number in range(20)]
    assert len(compare(EXPECTED, rows(U1, U2, U3, *strangers)).examples) == 5


def test_newest_leaves_one_row_a_session_also_across_chunks() -> None:
    given = [U1, U2, U1 | {"version": 2}, U3, U2 | {"version": 3}]
    chunked = pa.concat_tables([rows(one) for one in given])
    found = newest(chunked, "session_id").to_pylist()
    assert [(one["session_id"], one["version"]) for one in found] == [
        ("u1@100", 2),
        ("u2@120", 3),
        ("u3@130", 1),
    ]


def test_a_missing_and_an_unexpected_row_are_named() -> None:
    assert compare(EXPECTED, rows(U1, U2, U3, U2 | {"session_id": "u9@1"})).examples == (
        "u9@1: not expected",
    )
    assert compare(EXPECTED, rows(U1, U2)).examples == ("u3@130: missing",)


def test_a_row_that_an_at_least_once_sink_holds_twice_is_no_duplicate() -> None:
    found = compare(EXPECTED, rows(U1, U1, U2, U3), exactly_once=False)
    assert (found.held, found.duplicated, found.agrees) == (3, 0, True)


def test_a_column_that_the_sink_does_not_have_is_not_compared() -> None:
    narrow = rows(U1 | {"revenue": 7.0}, U2, U3).drop_columns("revenue")
    assert compare(EXPECTED, narrow).agrees


STATES = Expected(
    pa.table({"id": ["a", "b", "c"], "state": ["captured", None, "authorised"], "amount": [1, 2, 3]}), "id"
)


def states(*given: tuple[str, str | None, int]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": id_, "state": state, "amount": amount} for id_, state, amount in given], STATES.rows.schema
    )


A, B, C = ("a", "captured", 1), ("b", None, 2), ("c", "authorised", 3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param([C, A, B], (3, 0, 0, 0), id="all as they must be, a null too"),
        pytest.param([A, B], (2, 1, 0, 0), id="one is missing"),
        pytest.param([A, B, C, ("d", "captured", 4)], (4, 0, 1, 0), id="one that nobody sent"),
        pytest.param([("a", "authorised", 1), B, C], (3, 0, 0, 1), id="an update was lost"),
        pytest.param([A, ("b", "captured", 2), C], (3, 0, 0, 1), id="a value where there must be none"),
        pytest.param([A, B, ("c", None, 3)], (3, 0, 0, 1), id="no value where there must be one"),
        pytest.param([("a", "authorised", 1), B, C, A], (3, 0, 0, 0), id="the last row of a key stands"),
        pytest.param([A, B, C, ("a", "authorised", 1)], (3, 0, 0, 1), id="also when it is the older state"),
    ],
)
def test_rows_without_versions_are_compared_by_their_key(
    given: list[tuple[str, str | None, int]], expected: tuple[int, int, int, int]
) -> None:
    found = compare(STATES, states(*given))
    assert (found.held, found.lost, found.duplicated, found.wrong) == expected
