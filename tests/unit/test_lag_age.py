"""Lag in time: the age of the oldest record that waits, from when the end of the log was seen where."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.observe.lag.age import POINTS_MAX, Age, LagTime, LogEnd, NoLag, TooFewPoints

HOUR_MS = 3_600_000


def log_end(*points: tuple[int, int]) -> LogEnd:
    """Seen at (milliseconds, offset)."""
    log = LogEnd()
    for at_ms, offset in points:
        log.saw(offset, at_ms)
    return log


# The correctness proof: what was seen, the position, the time now, and the age it must be.
CASES: dict[str, tuple[LogEnd, int, int, Age]] = {
    "never looked": (log_end(), 5, 1_000, TooFewPoints(0)),
    "one look, nothing waits": (log_end((1_000, 10)), 10, 2_000, NoLag()),
    "one look, and more waits than it tells of": (log_end((1_000, 10)), 5, 4_000, TooFewPoints(3_000)),
    "the position is ahead of the end": (log_end((1_000, 10)), 12, 2_000, NoLag()),
    "the first of ten, which came within a second": (
        log_end((1_000, 0), (2_000, 10)), 0, 2_000, LagTime(950, 0, 1_000)),
    "the last of ten": (log_end((1_000, 0), (2_000, 10)), 9, 2_000, LagTime(50, 0, 1_000)),
    "a position exactly where the end was seen": (
        log_end((1_000, 0), (2_000, 10), (3_000, 20)), 10, 3_000, LagTime(950, 0, 1_000)),
    "only the pace between the two looks beside it counts": (
        log_end((0, 0), (1_000, 1_000), (2_000, 1_010), (3_000, 9_000)), 1_005, 3_000,
        LagTime(1_450, 1_000, 2_000)),
    "older than the first look: by the pace since": (
        log_end((10_000, 100), (20_000, 200)), 50, 20_000, LagTime(15_000, 10_000, None)),
    "older than the first look, and next to nothing has come since": (
        log_end((10_000, 100), (20_000, 102)), 50, 20_000, TooFewPoints(10_000)),
    "older than the first look, and the end stood still since": (
        log_end((10_000, 100), (20_000, 100)), 50, 20_000, TooFewPoints(10_000)),
    "the end stood still for an hour, and what waits came before": (
        log_end((0, 0), (1_000, 10), (2_000, 10), (HOUR_MS, 10)), 5, HOUR_MS,
        LagTime(HOUR_MS - 550, HOUR_MS - 1_000, HOUR_MS)),
    "nothing for an hour, and then one": (
        log_end((0, 10), (1_000, 10), (HOUR_MS, 10), (HOUR_MS + 1_000, 11)), 10, HOUR_MS + 1_000,
        LagTime(500, 0, 1_000)),
    "nothing for an hour, then one, and nothing for an hour again": (
        log_end((0, 10), (HOUR_MS, 10), (HOUR_MS + 1_000, 11), (2 * HOUR_MS, 11)), 10, 2 * HOUR_MS,
        LagTime(HOUR_MS - 500, HOUR_MS - 1_000, HOUR_MS)),
    "the topic was made anew: what was known of the old one is forgotten": (
        log_end((0, 0), (1_000, 1_000), (2_000, 4)), 2, 3_000, TooFewPoints(1_000)),
    "made anew, and seen to move": (
        log_end((0, 500), (1_000, 1_000), (2_000, 0), (3_000, 10)), 0, 3_000, LagTime(950, 0, 1_000)),
    "the clock was put back by an hour: ages go by the new one": (
        log_end((HOUR_MS, 0), (HOUR_MS + 1_000, 10), (1_000, 10), (2_000, 20)), 5, 2_000,
        LagTime(1_450, 1_000, 2_000)),
    "the clock is behind the last look: no age is below zero": (
        log_end((1_000, 0), (2_000, 10)), 5, 1_200, LagTime(0, 0, 200)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_age_of_the_oldest_record_that_waits(case: str) -> None:
    log, position, now_ms, expected = CASES[case]
    assert log.age(position, now_ms) == expected


@st.composite
def arrivals_and_looks(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """When records came and when the end was looked at, in milliseconds; bursts and hours of silence too."""
    gaps_ms = st.sampled_from([0, 1, 7, 300, 5_000, HOUR_MS])
    came, looks = [], []
    at_ms = 0
    for gap_ms in draw(st.lists(gaps_ms, min_size=1, max_size=60)):
        at_ms += gap_ms
        came.append(at_ms)
    looked_ms = 0
    for gap_ms in draw(st.lists(st.sampled_from([1, 1_000, 60_000, HOUR_MS]), min_size=2, max_size=60)):
        looked_ms += gap_ms
        looks.append(looked_ms)
    return came, looks


@settings(deadline=None)
@given(arrivals_and_looks(), st.data())
def test_the_true_age_lies_within_the_bounds_whatever_came_when(
    given_times: tuple[list[int], list[int]], data: st.DataObject
) -> None:
    came, looks = given_times
    log, seen = LogEnd(), 0
    for at_ms in looks:
        seen = sum(1 for when in came if when <= at_ms)
        log.saw(seen, at_ms)
    position = data.draw(st.integers(0, len(came)))
    now_ms = looks[-1] + data.draw(st.sampled_from([0, 500, HOUR_MS]))
    age = log.age(position, now_ms)
    if position >= seen:
        assert age == NoLag()
        return
    true_ms = now_ms - came[position]
    assert isinstance(age, LagTime | TooFewPoints)
    assert true_ms >= age.at_least_ms
    if isinstance(age, LagTime):
        assert age.ms >= age.at_least_ms
        if age.at_most_ms is not None:
            assert max(true_ms, age.ms) <= age.at_most_ms


@settings(deadline=None)
@given(st.lists(st.integers(0, 200), min_size=2, max_size=50), st.integers(1, 100))
def test_looking_twice_at_an_end_that_stands_still_changes_no_age(steps: list[int], position: int) -> None:
    once, often = LogEnd(), LogEnd()
    offset = 0
    for second, step in enumerate(steps):
        offset += step
        once.saw(offset, 1_000 * second)
        for _ in range(3):
            often.saw(offset, 1_000 * second)
    assert once.age(position, 60_000) == often.age(position, 60_000)


@settings(deadline=None)
@given(st.integers(2, 6), st.integers(0, 1_000))
def test_later_a_record_that_waits_is_older_by_as_much(points: int, later_ms: int) -> None:
    log = log_end(*((1_000 * point, 10 * point) for point in range(points)))
    first, second = log.age(5, 1_000 * points), log.age(5, 1_000 * points + later_ms)
    assert isinstance(first, LagTime)
    assert isinstance(second, LagTime)
    assert second.ms - first.ms == later_ms


def test_the_table_is_bounded_and_keeps_old_times_in_proportion_to_their_age() -> None:
    """Three days at 7 records a second, with a silence of an hour in each."""
    log, offset, came = LogEnd(), 0, {}
    for second in range(3 * 86_400):
        if second % 86_400 > 3_600:
            offset += 7
        came[offset] = second * 1000
        log.saw(offset, second * 1000)
    assert len(log) <= POINTS_MAX
    now_ms = 3 * 86_400_000
    errors = []
    for position in range(0, offset, 5_003):
        age = log.age(position, now_ms)
        assert isinstance(age, LagTime)
        true_ms = now_ms - came[position - position % 7 + 7]
        errors.append(abs(age.ms - true_ms) / true_ms)
    assert max(errors) < 0.05
