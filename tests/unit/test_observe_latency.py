"""Latency histograms: percentiles, merging, storing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.observe.latency import Latency, Percentiles

DAY_MS = 86_400_000
COUNTS = st.lists(st.tuples(st.integers(1, 600_000), st.integers(1, 200)), min_size=1, max_size=40)


def bounds(counts: list[tuple[int, int]], quantile: float) -> tuple[float, float]:
    """The events on both sides of a quantile (a rank between two events may be rounded either way)."""
    events = np.sort(np.repeat([ms for ms, _ in counts], [weight for _, weight in counts]))
    below = events[max(int(quantile * len(events)), 1) - 1]
    return float(below) * 0.998, float(np.quantile(events, quantile, method="inverted_cdf")) * 1.002


@settings(max_examples=60, deadline=None)
@given(COUNTS)
def test_percentiles_are_those_of_the_events_to_three_digits(counts: list[tuple[int, int]]) -> None:
    found = Latency.of(counts).percentiles()
    for value, quantile in ((found.p50, 0.5), (found.p99, 0.99), (found.max, 1.0)):
        low, high = bounds(counts, quantile)
        assert low <= value <= high


@settings(max_examples=30, deadline=None)
@given(COUNTS, COUNTS)
def test_adding_one_to_another_is_counting_both(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    merged = Latency.of(one)
    merged.add(Latency.of(other))
    assert merged.percentiles() == Latency.of([*one, *other]).percentiles()


@settings(max_examples=30, deadline=None)
@given(COUNTS, COUNTS)
def test_what_was_stored_counts_as_before(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    stored = Latency.decode(Latency.of(one).encode())
    assert stored.percentiles() == Latency.of(one).percentiles()
    stored.add(Latency.of(other))
    assert stored.percentiles() == Latency.of([*one, *other]).percentiles()


def test_weights_decide_a_percentile() -> None:
    assert Latency.of([(10, 99), (900, 1)]).percentiles() == Percentiles(10, 10, 900)
    assert Latency.of([(10, 1), (900, 99)]).percentiles() == Percentiles(900, 900, 900)


def test_nothing_counted_is_all_zero_also_when_stored() -> None:
    assert Latency().percentiles() == Percentiles(0, 0, 0)
    assert Latency.of([]).percentiles() == Percentiles(0, 0, 0)
    assert Latency.decode(Latency().encode()).percentiles() == Percentiles(0, 0, 0)


def test_latencies_outside_the_range_count_at_its_ends() -> None:
    assert Latency.of([(0, 1)]).percentiles().p50 == 1
    assert Latency.of([(10 * DAY_MS, 1)]).percentiles().max == pytest.approx(DAY_MS, rel=0.002)


def test_a_stored_histogram_is_small_text() -> None:
    counts = [(ms, 7) for ms in range(1, 2_000)]
    text = Latency.of(counts).encode()
    assert text.isascii()
    assert "\n" not in text
    assert len(text) < len(str(counts)) / 4
