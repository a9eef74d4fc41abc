"""The shape of lag: what a series of looks is called, and that neither scale nor noise changes it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.observe.lag.looks import Look, lows, patience_ms
from penstock.observe.lag.trend import (
    Burst,
    Draining,
    Growing,
    Retention,
    Sawtooth,
    Stalled,
    Steady,
    TooFewSamples,
    Trend,
    trend,
)
from tests.unit.lag_pipelines import START_MS, Paper, Rate, steadily


def lasting(base_eps: float, burst_eps: float, from_s: float, to_s: float) -> Rate:
    return lambda at_s: burst_eps if from_s <= at_s < to_s else base_eps


def after_idling(seconds: float, eps: float) -> Rate:
    return lasting(eps, 0.0, 0.0, seconds)


# The correctness proof: what a pipeline went through until now, and what that is called.
CASES: dict[str, tuple[list[Look], type[Trend]]] = {
    "it has just begun": (Paper(steadily(1_000)).run(3), TooFewSamples),
    "two batches in ten minutes": (Paper(steadily(1_000), trigger_s=400).run(700), TooFewSamples),
    "batches one after the other": (Paper(steadily(20_000)).run(300), Steady),
    "the same with 10 records a second": (Paper(steadily(10), capacity_eps=1_000).run(300), Steady),
    "the same with 200,000": (Paper(steadily(200_000), capacity_eps=1e6).run(300), Steady),
    "batches that vary by half": (Paper(steadily(20_000), jitter=0.5).run(300), Steady),
    "nothing comes": (Paper(steadily(0)).run(300), Steady),
    "a record a minute": (Paper(lambda at_s: 20.0 if at_s % 60 < 0.05 else 0.0).run(600), Steady),
    "a batch every ten seconds": (Paper(steadily(5_000), trigger_s=10).run(300), Sawtooth),
    "a batch every minute": (Paper(steadily(5_000), trigger_s=60).run(1_200), Sawtooth),
    "a batch every five seconds, 20 records a second": (
        Paper(steadily(20), trigger_s=5, overhead_s=0.3).run(300), Sawtooth),
    "half as fast as what comes in": (
        Paper(steadily(20_000), capacity_eps=10_000, max_batch=20_000).run(300), Growing),
    "5 % too slow": (
        Paper(steadily(20_000), capacity_eps=19_000, overhead_s=0.0, max_batch=20_000).run(300), Growing),
    "a batch every minute that is too small": (
        Paper(steadily(5_000), trigger_s=60, max_batch=200_000).run(1_200), Growing),
    "twice as much comes since a minute": (
        Paper(lasting(8_000, 16_000, 240, 300), capacity_eps=10_000, max_batch=10_000).run(300), Growing),
    "a backlog is read": (
        Paper(steadily(10_000), capacity_eps=40_000, max_batch=30_000, backlog=8e6).run(120), Draining),
    "the last of a backlog, and nothing comes": (
        Paper(steadily(0), capacity_eps=10_000, max_batch=20_000, backlog=1.2e6).run(100), Draining),
    "a burst is worked off": (
        Paper(lasting(5_000, 60_000, 100, 130), capacity_eps=20_000, max_batch=20_000).run(160), Burst),
    "a burst after nothing at all": (
        Paper(lasting(0, 60_000, 200, 230), capacity_eps=20_000, max_batch=20_000).run(280), Burst),
    "an outage is made up for": (
        Paper(steadily(10_000), capacity_eps=30_000, max_batch=30_000, frozen=(100, 140)).run(155), Burst),
    "a burst that is over": (
        Paper(lasting(5_000, 60_000, 60, 70), capacity_eps=20_000, max_batch=20_000).run(300), Steady),
    "an outage that is made up for": (
        Paper(steadily(10_000), capacity_eps=30_000, max_batch=30_000, frozen=(60, 80)).run(300), Steady),
    "more comes in than before, and is read": (
        Paper(lasting(2_000, 20_000, 150, 999)).run(300), Steady),
    "no batch for two minutes": (Paper(steadily(10_000), frozen=(180, 999)).run(300), Stalled),
    "no batch for two minutes, and nothing comes": (
        Paper(lasting(0, 10_000, 0, 185), frozen=(180, 999)).run(300), Stalled),
    "no batch from the beginning": (Paper(steadily(10_000), frozen=(0, 999)).run(120), Stalled),
    "no batch for half a minute": (Paper(steadily(10_000), frozen=(270, 999)).run(300), TooFewSamples),
    "no batch for five seconds": (Paper(steadily(10_000), frozen=(294, 999)).run(300), Steady),
    "no batch for two minutes where one comes each minute": (
        Paper(steadily(5_000), trigger_s=60, frozen=(1_090, 1_199)).run(1_200), Sawtooth),
    "nothing comes after an hour of work": (Paper(lasting(0, 5_000, 0, 200)).run(600), Steady),
    "it begins after an idle hour": (Paper(after_idling(200, 5_000)).run(230), Steady),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_a_pipeline_went_through_has_a_name(case: str) -> None:
    series, expected = CASES[case]
    assert type(trend(series)) is expected, trend(series)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("times", [3, 1_000])
def test_scale_does_not_change_the_name(case: str, times: int) -> None:
    series, expected = CASES[case]
    scaled = [Look(one.at_ms, one.position * times, one.end * times) for one in series]
    assert type(trend(scaled)) is expected


@pytest.mark.parametrize("case", CASES)
def test_where_a_topic_begins_and_when_does_not_change_the_name(case: str) -> None:
    series, expected = CASES[case]
    moved = [Look(one.at_ms - START_MS, one.position + 10**9, one.end + 10**9) for one in series]
    assert type(trend(moved)) is expected


def ramp(from_lag: float, to_lag: float, noise: float, count: int, seed: int) -> list[Look]:
    """A look and a batch each second; noise as a share of the whole rise."""
    chance = random.Random(seed)
    rise = to_lag - from_lag
    series = []
    for second in range(count):
        lag = from_lag + rise * second / count + noise * abs(rise) * chance.uniform(-0.5, 0.5)
        end = 10**9 + 1_000 * second
        series.append(Look(START_MS + 1_000 * second, end - max(1, round(lag)), end))
    return moving(series)


def moving(series: Sequence[Look]) -> list[Look]:
    """Positions that never go back, so that each is a batch's end."""
    kept = [series[0]]
    for sample in series[1:]:
        kept.append(replace(sample, position=max(sample.position, kept[-1].position + 1)))
    return kept


@settings(deadline=None)
@given(
    share=st.floats(0.05, 0.9),
    start=st.floats(0.0, 50_000.0),
    noise=st.floats(0.0, 0.1),
    count=st.integers(60, 300),
    seed=st.integers(0, 10_000),
)
def test_a_ramp_of_some_batches_is_growing_by_its_slope_whatever_the_noise_below_a_tenth_of_it(
    share: float, start: float, noise: float, count: int, seed: int
) -> None:
    assume(share * count >= 8)  # seconds' worth of what comes in, at a batch each second
    rise = share * 1_000 * count
    series = ramp(start, start + rise, noise, count, seed)
    found = trend(series)
    assert isinstance(found, Growing)
    assert found.slope_eps == pytest.approx(share * 1_000, rel=0.35)


@settings(deadline=None)
@given(noise=st.floats(0.0, 1.0), count=st.integers(60, 300), seed=st.integers(0, 10_000))
def test_noise_around_a_level_is_steady(noise: float, count: int, seed: int) -> None:
    chance = random.Random(seed)
    series = []
    for second in range(count):
        end = 10**9 + 1_000 * second
        lag = 3_000 + noise * 1_000 * chance.uniform(-1, 1)
        series.append(Look(START_MS + 1_000 * second, end - round(lag), end))
    assert trend(moving(series)) == Steady()


@settings(deadline=None)
@given(st.sampled_from(sorted(CASES)), st.integers(2, 10**6))
def test_scaling_by_anything_keeps_the_name(case: str, times: int) -> None:
    series, expected = CASES[case]
    scaled = [Look(one.at_ms, one.position * times, one.end * times) for one in series]
    assert type(trend(scaled)) is expected


def test_a_pause_of_thirty_seconds_does_not_tip_a_steady_series() -> None:
    series = Paper(steadily(20_000), frozen=(200, 230)).run(420)
    assert trend(series) == Steady()


def test_growing_towards_loss_says_when() -> None:
    """10 % too slow: what waits grows older by a second every ten, from 20 s to the 120 that it is kept."""
    series = ramp(20_000, 50_000, 0.0, 300, seed=1)
    found = trend(series, retention=Retention(kept_ms=120_000, age_ms=20_000))
    assert isinstance(found, Growing)
    assert found.slope_eps == pytest.approx(100, rel=0.05)
    assert found.loses_data_in_s == pytest.approx(1_000, rel=0.05)
    unknown = trend(series)
    assert isinstance(unknown, Growing)
    assert unknown.loses_data_in_s is None


def test_records_that_are_due_for_deletion_are_lost_at_once() -> None:
    found = trend(ramp(0, 90_000, 0.0, 300, seed=1), retention=Retention(kept_ms=60_000, age_ms=90_000))
    assert isinstance(found, Growing)
    assert found.loses_data_in_s == 0.0


def test_draining_says_when_it_will_be_done() -> None:
    found = trend(ramp(400_000, 100_000, 0.02, 300, seed=1))
    assert isinstance(found, Draining)
    assert found.done_in_s == pytest.approx(100, rel=0.1)


def test_a_burst_says_how_high_it_was_and_since_when() -> None:
    series, _ = CASES["a burst is worked off"]
    found = trend(series)
    assert isinstance(found, Burst)
    assert found.peak == max(sample.lag for sample in series)
    assert abs(found.since_ms - (START_MS + 100_000)) <= 5_000


def test_a_sawtooth_says_its_period_and_its_height() -> None:
    found = trend(CASES["a batch every minute"][0])
    assert isinstance(found, Sawtooth)
    assert found.period_s == pytest.approx(60, rel=0.05)
    assert found.high == pytest.approx(61 * 5_000, rel=0.1)
    assert found.low < found.high / 6


def test_a_stall_says_since_when() -> None:
    found = trend(CASES["no batch for two minutes"][0])
    assert isinstance(found, Stalled)
    assert abs(found.since_ms - (START_MS + 181_000)) <= 2_000


def test_a_long_outage_that_is_over_does_not_hide_the_next() -> None:
    calm = Paper(steadily(1_000), frozen=(100, 400)).run(500)
    assert patience_ms(calm) == 60_000


def test_the_spec_says_how_long_to_be_patient_where_nothing_was_seen_yet() -> None:
    waiting = Paper(steadily(1_000), frozen=(0, 999)).run(300)
    assert isinstance(trend(waiting), Stalled)
    assert isinstance(trend(waiting, trigger_ms=300_000), TooFewSamples)


def test_what_is_left_after_each_batch_does_not_see_the_rise_between_two() -> None:
    series = Paper(steadily(5_000), trigger_s=60, jitter=0.0).run(600)
    left = [sample.lag for sample in lows(series) if sample.lag > 0][2:]
    assert max(left) < 5_000 * 7
    assert max(b - a for a, b in pairwise(left)) < 5_000 * 2
