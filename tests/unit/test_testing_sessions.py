"""The model of sessions: each rule on a few events written by hand, then what must hold for all events."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.testing import (
    Batch,
    Dedupe,
    Event,
    Row,
    Sessions,
    clocked,
    count,
    first,
    highest,
    last,
    lowest,
    total,
)

GAP, LATENESS = 10, 20
MODEL = Sessions(GAP, LATENESS, {"events": count()})


def at(ts_ms: int, key: str = "u", offset: int | None = None, **values: Any) -> Event:
    return Event(key, ts_ms, 0, ts_ms if offset is None else offset, values)


def told(rows: list[Row]) -> list[tuple[str, str, int, int]]:
    """Kind, identity, version and events of the rows that tell of a session."""
    return [(r["kind"], r["session_id"], r["version"], r.get("events", 0)) for r in rows if "session_id" in r]


def test_a_session_lives_then_is_final_when_the_clock_passes_its_gap() -> None:
    live, waiting, final, gone = MODEL.run([([at(0), at(4)], 0), ([], 13), ([], 14), ([], 1_000)])
    assert told(live) == [("live", "u@0", 1, 2)]
    assert waiting == []
    assert told(final) == [("final", "u@0", 2, 2)]
    assert (final[0]["end_ms"], final[0]["is_final"], final[0]["new_events"]) == (4, True, 0)
    assert gone == []


def test_two_events_exactly_a_gap_apart_are_one_session_and_a_millisecond_more_makes_two() -> None:
    [rows] = MODEL.run([([at(0, "a"), at(GAP, "a"), at(0, "b"), at(GAP + 1, "b")], 0)])
    assert sorted((r["key"], r["events"]) for r in rows) == [("a", 2), ("b", 1), ("b", 1)]


def test_an_event_between_two_sessions_merges_them_and_retracts_the_absorbed_one() -> None:
    _, _, merged = MODEL.run([([at(0), at(15)], 0), ([at(16)], 0), ([at(8)], 0)])
    assert told(merged) == [("retracted", "u@15", 3, 0), ("live", "u@0", 3, 4)]
    assert merged[0]["reason"] == "merged into u@0"


def test_an_earlier_event_moves_the_start_and_the_old_identity_is_retracted() -> None:
    _, moved = MODEL.run([([at(5)], 0), ([at(4)], 0)])
    assert told(moved) == [("retracted", "u@5", 2, 0), ("live", "u@4", 2, 2)]
    assert moved[0]["reason"] == "moved to u@4"


def test_of_two_identities_that_end_the_earlier_moves_and_the_later_merges() -> None:
    _, rows = MODEL.run([([at(20), at(5)], 0), ([at(0), at(12)], 0)])
    assert [(r["session_id"], r["reason"]) for r in rows[:2]] == [
        ("u@5", "moved to u@0"),
        ("u@20", "merged into u@0"),
    ]


def test_a_late_event_inside_lateness_corrects_the_session() -> None:
    *_, corrected = MODEL.run([([at(0)], 0), ([], 20), ([at(2)], 21)])
    assert told(corrected) == [("corrected", "u@0", 3, 2)]


def test_a_final_session_that_reopens_is_live_and_corrected_when_it_closes_again() -> None:
    *_, reopened, again, quiet = MODEL.run([([at(0)], 0), ([], 10), ([at(9)], 11), ([], 19), ([], 20)])
    assert told(reopened) == [("live", "u@0", 3, 2)]
    assert told(again) == [("corrected", "u@0", 4, 2)]
    assert quiet == []


def test_the_retraction_of_a_final_identity_is_final_too() -> None:
    *_, rows = MODEL.run([([at(5)], 0), ([], 15), ([at(4)], 16)])
    assert [(r["kind"], r["is_final"]) for r in rows] == [("retracted", True), ("corrected", True)]


@pytest.mark.parametrize(("clock", "kind"), [(GAP + LATENESS - 1, "final"), (GAP + LATENESS, "late")])
def test_an_event_is_late_once_the_clock_is_gap_and_lateness_past_it(clock: int, kind: str) -> None:
    [[row]] = MODEL.run([([at(0)], clock)])
    assert row["kind"] == kind


def test_a_late_row_says_where_the_event_is_and_how_late() -> None:
    [[late]] = MODEL.run([([at(0, offset=7)], 57)])
    assert (late["partition"], late["offset"], late["ts"]) == (0, 7, 0)
    assert late["reason"] == "late: 57 ms behind the clock, 30 allowed"


def test_an_old_event_that_reaches_a_kept_session_is_not_late() -> None:
    *_, rows = MODEL.run([([at(0), at(9)], 0), ([at(-5)], 38)])
    assert told(rows) == [("retracted", "u@0", 2, 0), ("final", "u@-5#1", 2, 3)]


def test_a_session_is_kept_until_the_end_of_the_batch_whose_clock_passes_its_lateness() -> None:
    *_, reached, forgotten = MODEL.run([([at(0)], 0), ([at(1)], 1_000), ([at(2)], 1_000)])
    assert told(reached) == [("final", "u@0", 2, 2)]
    assert [r["kind"] for r in forgotten] == ["late"]


def test_events_of_one_batch_that_belong_together_are_late_only_when_the_last_of_them_is() -> None:
    [rows] = MODEL.run([([at(5), at(0)], 30)])
    assert told(rows) == [("final", "u@0", 1, 2)]
    [rows] = MODEL.run([([at(5), at(0)], 35)])
    assert [(r["kind"], r["ts"]) for r in rows] == [("late", 0), ("late", 5)]


def test_an_event_that_is_not_late_but_reaches_only_a_forgotten_session_starts_one_of_its_own() -> None:
    *_, rows = MODEL.run([([at(0)], 0), ([], 30), ([at(5)], 30)])
    assert told(rows) == [("final", "u@5", 1, 1)]


def test_the_versions_of_an_identity_only_ever_rise() -> None:
    rows = MODEL.run(
        [*(([at(ts)], 0) for ts in (0, 1, 2, 13)), ([], 32), ([at(5)], 32), ([at(0, offset=9)], 32)]
    )
    versions = [r["version"] for batch in rows for r in batch if r["session_id"] == "u@0"]
    assert versions == sorted(set(versions))


def test_keys_have_sessions_of_their_own() -> None:
    [rows] = MODEL.run([([at(0, "a"), at(1, "b")], 0)])
    assert [r["session_id"] for r in rows] == ["a@0", "b@1"]


def test_sessions_are_cut_at_multiples_of_the_longest_length() -> None:
    cut = Sessions(GAP, LATENESS, {"events": count()}, max_length_ms=50)
    [rows] = cut.run([([at(ts) for ts in (-1, 0, 45, 49, 50, 55)], 0)])
    assert [(r["start_ms"], r["end_ms"]) for r in rows] == [(-1, -1), (0, 0), (45, 49), (50, 55)]


def test_an_old_event_is_not_saved_by_a_session_on_the_other_side_of_a_cut() -> None:
    cut = Sessions(GAP, LATENESS, {"events": count()}, max_length_ms=50)
    *_, rows = cut.run([([at(50)], 0), ([at(49)], 79)])
    assert [r["kind"] for r in rows] == ["late", "final"]


def test_an_id_counts_once_while_the_clock_has_not_passed_it_by_within() -> None:
    model = Sessions(GAP, LATENESS, {"events": count()}, dedupe=Dedupe("id", within_ms=15))
    again = [at(1, offset=8, id="x")]
    taken, repeated, forgotten = model.run([([at(0, id="x")], 0), (again, 14), (again, 15)])
    assert told(taken) == [("live", "u@0", 1, 1)]
    assert [(r["kind"], r.get("offset")) for r in repeated] == [("duplicate", 8), ("final", None)]
    assert repeated[1]["events"] == 1
    assert told(forgotten) == [("corrected", "u@0", 3, 2)]


def test_of_one_id_in_a_batch_the_first_by_time_counts_and_other_keys_and_nulls_do_not() -> None:
    model = Sessions(GAP, LATENESS, {"prices": total("price")}, dedupe=Dedupe("id", within_ms=15))
    batch = [at(2, id="x", price=1), at(1, id="x", price=2), at(1, "v", id="x", price=4)]
    batch += [at(3, offset=offset, id=None, price=8) for offset in (3, 4)]
    [rows] = model.run([(batch, 0)])
    assert [(r["kind"], r.get("prices")) for r in rows] == [("duplicate", None), ("live", 18), ("live", 4)]


def test_a_late_event_takes_no_id_and_a_late_duplicate_is_a_duplicate() -> None:
    model = Sessions(GAP, LATENESS, {"events": count()}, dedupe=Dedupe("id", within_ms=1_000))
    first_late, then = model.run([([at(0, id="x")], 100), ([at(99, id="x"), at(1, id="y")], 100)])
    assert [r["kind"] for r in first_late] == ["late"]
    assert [r["kind"] for r in then] == ["late", "live"]
    *_, repeated = model.run([([at(0, id="x")], 0), ([], 500), ([at(1, id="x")], 500)])
    assert [r["kind"] for r in repeated] == ["duplicate"]


def test_measures_pass_over_nulls_and_go_by_event_time_not_arrival() -> None:
    measures = {
        "all": count(),
        "prices": count("price"),
        "sum": total("price"),
        "low": lowest("price"),
        "high": highest("price"),
        "first": first("page"),
        "last": last(lambda event: event.values.get("page")),
    }
    batch = [at(2, page="c"), at(1, page="b", price=0.1), at(3), at(0, page="a", price=0.2)]
    [[row]] = Sessions(GAP, LATENESS, measures).run([(batch, 0)])
    assert {name: row[name] for name in measures} == {
        "all": 4,
        "prices": 2,
        "sum": 0.30000000000000004,
        "low": 0.1,
        "high": 0.2,
        "first": "a",
        "last": "c",
    }


def test_the_sum_of_nothing_is_null_and_the_count_of_nothing_is_zero() -> None:
    [[row]] = Sessions(GAP, LATENESS, {"sum": total("x"), "count": count("x")}).run([([at(0)], 0)])
    assert (row["sum"], row["count"]) == (None, 0)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((2**63 - 1, 1), None),
        ((-(2**63), -1), None),
        ((2**63 - 1, 1, -1), 2**63 - 1),
        ((-(2**63), 0), -(2**63)),
        ((2.0**63, 2**63), 2.0**64),
    ],
)
def test_a_sum_of_whole_numbers_is_null_where_a_long_cannot_hold_it(
    values: tuple[float, ...], shown: float | None
) -> None:
    assert total("x")([at(ts_ms, x=value) for ts_ms, value in enumerate(values)]) == shown


def test_the_clock_is_the_newest_time_of_the_batches_before_and_a_last_batch_follows_when_it_moved() -> None:
    a, b = [at(10), at(7)], [at(8)]
    assert clocked([a, b], 3) == [(a, 0), (b, 7)]
    assert clocked([b, a], 3) == [(b, 0), (a, 5), ([], 7)]
    assert clocked([a], 3, clock_ms=7) == [(a, 7)]
    assert clocked([[at(2)]], 3) == [([at(2)], 0)]
    assert clocked([], 3, clock_ms=7) == []


# What must hold for all events. Times are drawn so that distances of exactly a gap are frequent.
times = st.integers(-4, 16).map(lambda n: n * 5) | st.integers(-20, 80)


@st.composite
def streams(draw: st.DrawFn) -> list[list[Event]]:
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=6))
    offsets = iter(range(100))
    one = st.builds(lambda ts, key: Event(key, ts, 0, next(offsets), {}), times, st.sampled_from("ab"))
    return [[draw(one) for _ in range(size)] for size in sizes]


def newest(rows: list[list[Row]]) -> dict[str, Row]:
    """The state that a reader holds: the last row of each identity, without the retracted."""
    held = {row["session_id"]: row for batch in rows for row in batch if "session_id" in row}
    return {id_: row for id_, row in held.items() if row["kind"] != "retracted"}


@given(streams())
def test_each_event_is_told_of_exactly_once(batches: list[list[Event]]) -> None:
    timed = clocked(batches, 3)
    for (events, _), rows in zip(timed, MODEL.run(timed), strict=True):
        assert sum(r["new_events"] + (r["kind"] == "late") for r in rows) == len(events)


@given(streams())
def test_a_reader_ends_with_the_sessions_of_all_events_that_were_not_late(batches: list[list[Event]]) -> None:
    """Counted by brute force: two events are in one session when a chain of neighbours joins them."""
    timed = [(_in_time(events, clock), clock) for events, clock in clocked(batches, 3)]
    lost = Event("a", -1_000, 0, 1_000, {})
    rows = MODEL.run([*timed, ([lost], 1_000), ([], 10_000)])
    good = [event for events, _ in timed for event in events]
    expected: Counter[str] = Counter()
    for event in good:
        expected[f"{event.key}@{_start(event, good)}"] += 1
    held = newest(rows)
    assert {id_: row["events"] for id_, row in held.items()} == expected
    assert all(row["is_final"] for row in held.values())
    assert [r["offset"] for batch in rows for r in batch if r["kind"] == "late"] == [lost.offset]


def _in_time(events: Sequence[Event], clock_ms: int) -> list[Event]:
    """Events that no session they might reach is forgotten before: at most the lateness behind the clock."""
    return [event for event in events if event.ts_ms + LATENESS > clock_ms]


def _start(event: Event, events: list[Event]) -> int:
    """Walk back from an event as long as there is another at most a gap before."""
    start = event.ts_ms
    while earlier := [e.ts_ms for e in events if e.key == event.key and start - GAP <= e.ts_ms < start]:
        start = min(earlier)
    return start


@given(streams(), st.randoms(use_true_random=False))
def test_the_order_of_events_within_a_batch_changes_nothing(
    batches: list[list[Event]], chance: random.Random
) -> None:
    shuffled = [chance.sample(events, len(events)) for events in batches]
    assert MODEL.run(clocked(shuffled, 3)) == MODEL.run(clocked(batches, 3))


@given(streams(), st.data())
def test_cutting_a_batch_in_two_at_the_same_clock_leaves_readers_with_the_same_sessions(
    batches: list[list[Event]], data: st.DataObject
) -> None:
    """As long as none is older than the lateness: whom an older event reaches depends on who came before."""
    whole: list[Batch] = []
    cut: list[Batch] = []
    for events, clock in clocked(batches, 3):
        in_time = _in_time(events, clock)
        place = data.draw(st.integers(0, len(in_time)))
        whole.append((in_time, clock))
        cut += [(in_time[:place], clock), (in_time[place:], clock)]
    assert _state(MODEL.run([*cut, ([], 10_000)])) == _state(MODEL.run([*whole, ([], 10_000)]))


def _state(rows: list[list[Row]]) -> dict[str, tuple[Any, ...]]:
    return {id_: (row["end_ms"], row["is_final"], row["events"]) for id_, row in newest(rows).items()}
