"""The model of windows: each rule on a few events written by hand, then what must hold for all events."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.testing import Dedupe, Event, Row, Windows, clocked, count, distinct, total

TUMBLING = Windows(size_ms=10, lateness_ms=5, measures={"events": count()})
SLIDING = Windows(size_ms=10, slide_ms=5, lateness_ms=5, measures={"events": count()})


def at(ts_ms: int, key: str = "u", offset: int | None = None, **values: Any) -> Event:
    return Event(key, ts_ms, 0, ts_ms if offset is None else offset, values)


def told(rows: list[Row]) -> list[tuple[str, str, int, int]]:
    return [(r["kind"], r["window_id"], r["version"], r["events"]) for r in rows if "window_id" in r]


def test_a_window_lives_then_is_final_when_the_clock_reaches_its_end() -> None:
    live, quiet, final, again = TUMBLING.run([([at(0), at(9), at(10)], 0), ([], 9), ([], 10), ([], 15)])
    assert told(live) == [("live", "u@0", 1, 2), ("live", "u@10", 1, 1)]
    assert [(r["start_ms"], r["end_ms"], r["is_final"]) for r in live] == [(0, 10, False), (10, 20, False)]
    assert quiet == []
    assert told(final) == [("final", "u@0", 2, 2)]
    assert again == []


def test_an_event_inside_lateness_corrects_its_window_and_the_next_millisecond_is_late() -> None:
    _, final, corrected, late = TUMBLING.run([([at(0)], 0), ([], 10), ([at(1)], 14), ([at(2)], 15)])
    assert told(final) == [("final", "u@0", 2, 1)]
    assert told(corrected) == [("corrected", "u@0", 3, 2)]
    assert [(r["kind"], r["ts"]) for r in late] == [("late", 2)]
    assert late[0]["reason"] == "late: 13 ms behind the clock"


def test_a_window_whose_first_event_comes_after_its_end_is_final_at_once() -> None:
    [rows] = TUMBLING.run([([at(0)], 12)])
    assert told(rows) == [("final", "u@0", 1, 1)]


def test_a_clock_that_jumps_past_the_lateness_still_makes_the_window_final_without_the_new_events() -> None:
    _, rows = TUMBLING.run([([at(0)], 0), ([at(1)], 100)])
    assert [r["kind"] for r in rows] == ["late", "final"]
    assert told(rows) == [("final", "u@0", 2, 1)]


def test_windows_before_1970_start_at_multiples_too() -> None:
    assert TUMBLING.starts(-1) == [-10]
    assert TUMBLING.starts(-10) == [-10]
    assert SLIDING.starts(-1) == [-10, -5]


def test_an_event_goes_into_each_window_that_slides_over_it_and_is_new_in_the_first() -> None:
    [rows] = SLIDING.run([([at(7)], 0)])
    assert [(r["window_id"], r["new_events"]) for r in rows] == [("u@0", 1), ("u@5", 0)]


def test_an_event_is_new_in_the_earliest_window_that_still_takes_it() -> None:
    [rows] = SLIDING.run([([at(7)], 15)])
    assert [(r["kind"], r["window_id"], r["new_events"]) for r in rows] == [("final", "u@5", 1)]


def test_a_duplicate_is_told_and_measured_in_no_window() -> None:
    model = Windows(10, 5, {"sum": total("x"), "kinds": distinct("x")}, dedupe=Dedupe("id", within_ms=3))
    one, two = model.run([([at(0, id="a", x=1), at(1, id="b", x=1)], 0), ([at(2, id="b", x=5)], 3)])
    assert [(r["kind"], r["sum"], r["kinds"]) for r in one] == [("live", 2, 1)]
    assert [(r["kind"], r["offset"]) for r in two] == [("duplicate", 2)]


@st.composite
def streams(draw: st.DrawFn) -> list[list[Event]]:
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=6))
    offsets = iter(range(100))
    one = st.builds(
        lambda ts, key: Event(key, ts, 0, next(offsets), {}), st.integers(-15, 40), st.sampled_from("ab")
    )
    return [[draw(one) for _ in range(size)] for size in sizes]


models = st.sampled_from([TUMBLING, SLIDING])


@given(models, streams())
def test_each_event_is_told_of_exactly_once(model: Windows, batches: list[list[Event]]) -> None:
    timed = clocked(batches, 3)
    for (events, _), rows in zip(timed, model.run(timed), strict=True):
        assert sum(r["new_events"] + (r["kind"] == "late") for r in rows) == len(events)


@given(models, streams())
def test_the_last_row_of_a_window_holds_all_events_that_it_took(
    model: Windows, batches: list[list[Event]]
) -> None:
    timed = clocked(batches, 3)
    rows = [row for batch in model.run([*timed, ([], 1_000)]) for row in batch if "window_id" in row]
    expected: dict[str, int] = {}
    for events, clock in timed:
        for event in events:
            for start in range(-30, 45, model.slide_ms or model.size_ms):
                if start <= event.ts_ms < start + 10 and clock < start + 15:
                    name = f"{event.key}@{start}"
                    expected[name] = expected.get(name, 0) + 1
    assert {row["window_id"]: row["events"] for row in rows} == expected
    assert {row["window_id"] for row in rows if row["kind"] == "final"} == set(expected)


@given(models, streams(), st.randoms(use_true_random=False))
def test_the_order_of_events_within_a_batch_changes_nothing(
    model: Windows, batches: list[list[Event]], chance: random.Random
) -> None:
    shuffled = [chance.sample(events, len(events)) for events in batches]
    assert model.run(clocked(shuffled, 3)) == model.run(clocked(batches, 3))
