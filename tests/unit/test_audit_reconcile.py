"""Receipts against offsets and against the rows that sinks hold."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.audit.reconcile import Keeps, check_sink, continuity
from penstock.engine.receipt import Receipt, SinkReceipt


def receipt(batch: int, offsets: dict[int, tuple[int, int]], rows: int | None = None) -> Receipt:
    none: dict[str, Any] = dict.fromkeys(
        ("decoded", "rejected", "late", "duplicates", "opened", "closed", "corrected", "merged"), 0
    )
    sinks = () if rows is None else (SinkReceipt("s", rows, "", False, 1.0, 0),)
    return Receipt("q", batch, offsets, sinks=sinks, started_at_ms=0, compute_ms=1.0, total_ms=1.0, **none)


RECEIPTS = [
    receipt(0, {0: (0, 10), 1: (5, 5)}, rows=4),
    receipt(1, {0: (10, 12), 1: (5, 9)}, rows=3),
    receipt(2, {0: (12, 12), 1: (9, 9)}, rows=0),
]


def test_batches_that_follow_each_other_have_no_hole_and_no_overlap() -> None:
    found = continuity(RECEIPTS)
    assert (found.batches, found.records, found.skipped, found.repeated) == (3, 16, 0, 0)
    assert (found.reached, found.problems) == ({0: 12, 1: 9}, ())


def test_records_that_no_batch_covers_are_counted_and_named() -> None:
    found = continuity([RECEIPTS[0], receipt(2, {0: (13, 20), 1: (5, 6)})])
    assert (found.skipped, found.repeated) == (3, 0)
    assert found.problems == ("q: batch 2 skips offsets 10 to 12 of partition 0",)


def test_records_that_two_batches_cover_are_counted_and_named() -> None:
    found = continuity([RECEIPTS[0], receipt(1, {0: (8, 20)})])
    assert (found.skipped, found.repeated) == (0, 2)
    assert found.problems == ("q: batch 1 repeats offsets 8 to 9 of partition 0",)


@pytest.mark.parametrize("keeps", ["all", "each", "newest"])
def test_a_sink_that_holds_what_was_said_is_no_problem(keeps: Keeps) -> None:
    found = check_sink("s", keeps, RECEIPTS, {0: 4, 1: 3})
    assert (found.said, found.held, found.lost, found.duplicated, found.repeated) == (7, 7, 0, 0, 0)
    assert found.problems == ()


@pytest.mark.parametrize(
    ("keeps", "held", "lost", "duplicated", "repeated"),
    [
        pytest.param("all", {0: 4, 1: 2}, 1, 0, 0, id="a row of the last is missing"),
        pytest.param("all", {1: 3}, 4, 0, 0, id="a batch is missing"),
        pytest.param("all", {0: 8, 1: 3}, 0, 4, 0, id="a batch is there twice"),
        pytest.param("all", {0: 3, 1: 4}, 1, 1, 0, id="one short, one too many"),
        pytest.param("each", {0: 8, 1: 3}, 0, 0, 4, id="a batch came again, as it may"),
        pytest.param("each", {0: 4, 1: 2}, 1, 0, 0, id="a row is missing all the same"),
        pytest.param("newest", {0: 1, 1: 3}, 0, 0, 0, id="older rows were replaced"),
        pytest.param("newest", {0: 5, 1: 3}, 0, 1, 0, id="more rows than there were"),
    ],
)
def test_what_is_missing_or_too_often_there_is_counted(
    keeps: Keeps, held: dict[int, int], lost: int, duplicated: int, repeated: int
) -> None:
    found = check_sink("s", keeps, RECEIPTS, held)
    assert (found.lost, found.duplicated, found.repeated) == (lost, duplicated, repeated)
    assert bool(found.problems) == bool(lost or duplicated)


def test_the_newest_batch_must_be_whole_where_older_rows_are_replaced() -> None:
    found = check_sink("s", "newest", RECEIPTS[:2], {0: 4, 1: 1})
    places = "offsets 10 to 11 of partition 0, 5 to 8 of partition 1"
    assert found.lost == 2
    assert found.problems == (f"s: 2 rows of batch 1 are not there; made of {places}",)


def test_rows_of_a_batch_under_way_are_not_judged() -> None:
    found = check_sink("s", "all", RECEIPTS, {0: 4, 1: 3, 3: 100})
    assert (found.held, found.problems) == (7, ())


def test_a_sink_that_came_later_is_judged_from_its_first_batch() -> None:
    assert check_sink("s", "all", [receipt(0, {}), *RECEIPTS[1:]], {1: 3}).problems == ()


def test_of_many_batches_the_first_are_named_and_the_rest_counted() -> None:
    receipts = [receipt(batch, {0: (batch, batch + 1)}, rows=1) for batch in range(8)]
    problems = check_sink("s", "all", receipts, {}).problems
    assert len(problems) == 6
    assert problems[-1] == "s: 3 rows of 3 more batches are not there, up to batch 7"
