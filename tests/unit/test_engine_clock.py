"""When a silent topic's clock ticks, and how far."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.clock import Silence, clock_topic, due_tick, horizon_ms
from penstock.spec import PipelineSpec
from tests.unit.test_spec_checks import EVENTS, WINDOWS
from tests.unit.test_spec_problems import CLICKSTREAM, with_values

T0 = 1_800_000_000_000
SILENCE = Silence(since_ms=T0, newest_ms=T0 - 90_000)  # events came a minute and a half behind the wall clock
MINUTE = 60_000
HALF_HOUR = 30 * MINUTE


def tick(after_ms: int, last_tick_ms: int = 0, **other: int) -> int | None:
    """The tick that is due so long after the last record, as a distance from the newest event."""
    given_ = {"idle_ms": MINUTE, "horizon_ms": HALF_HOUR} | other
    at_ms = due_tick(SILENCE, T0 + after_ms, last_tick_ms, **given_)
    return None if at_ms is None else at_ms - SILENCE.newest_ms


def test_no_tick_is_due_before_the_topic_is_idle() -> None:
    assert tick(0) is None
    assert tick(MINUTE) is None


def test_an_idle_clock_runs_on_with_the_wall_clock_from_the_newest_event() -> None:
    assert tick(MINUTE + 5_000) == 5_000
    assert tick(MINUTE + 12_345) == 12_345


def test_ticks_are_no_closer_together_than_they_need_be() -> None:
    assert tick(MINUTE + 4_999) is None
    last_ms = SILENCE.newest_ms + 5_000
    assert tick(MINUTE + 9_999, last_ms) is None
    assert tick(MINUTE + 10_000, last_ms) == 10_000


@pytest.mark.parametrize(
    ("horizon", "every"), [(HALF_HOUR, 5_000), (20_000, 2_000), (3_000, 1_000), (500, 500)]
)
def test_short_sessions_get_more_ticks_but_not_more_than_one_a_second(horizon: int, every: int) -> None:
    assert tick(MINUTE + every - 1, horizon_ms=horizon) is None
    assert tick(MINUTE + every, horizon_ms=horizon) == every


def test_the_last_tick_closes_everything_and_then_the_clock_stands_still() -> None:
    nearly_ms = SILENCE.newest_ms + HALF_HOUR - 1
    assert tick(MINUTE + HALF_HOUR + 7, nearly_ms) == HALF_HOUR  # however short the step
    assert tick(MINUTE + HALF_HOUR + 7, nearly_ms + 1) is None
    assert tick(1_000 * HALF_HOUR, nearly_ms + 1) is None


def test_a_tick_of_an_earlier_silence_is_not_gone_behind() -> None:
    ahead_ms = SILENCE.newest_ms + 20_000
    assert tick(MINUTE + 20_000, ahead_ms) is None
    assert tick(MINUTE + 25_000, ahead_ms) == 25_000


TIMES = st.integers(0, 10**7)


@given(
    newest_ms=TIMES,
    since_ms=TIMES,
    last_tick_ms=st.just(0) | TIMES,
    idle_ms=st.integers(1, 10**5),
    horizon=st.integers(1, 10**5),
    looks=st.lists(st.integers(0, 30_000), max_size=60),
)
def test_ticks_rise_from_the_newest_event_to_the_horizon_and_never_outrun_the_wall_clock(
    newest_ms: int, since_ms: int, last_tick_ms: int, idle_ms: int, horizon: int, looks: list[int]
) -> None:
    silence, now_ms, last_ms = Silence(since_ms, newest_ms), since_ms, last_tick_ms
    for wait_ms in looks:
        now_ms += wait_ms
        at_ms = due_tick(silence, now_ms, last_ms, idle_ms=idle_ms, horizon_ms=horizon)
        if at_ms is None:
            continue
        assert now_ms - since_ms > idle_ms
        assert max(newest_ms, last_ms) < at_ms <= newest_ms + horizon
        assert at_ms - newest_ms <= now_ms - since_ms - idle_ms
        last_ms = at_ms
    # Whatever was missed meanwhile, one look after all that time is enough to close everything.
    late_ms = since_ms + idle_ms + horizon
    at_ms = due_tick(silence, max(now_ms, late_ms), last_ms, idle_ms=idle_ms, horizon_ms=horizon)
    assert max(last_ms, at_ms or 0) >= newest_ms + horizon


def horizon_of(base: dict[str, Any], changes: dict[str, Any]) -> int:
    return horizon_ms(PipelineSpec(**with_values(changes, base)))


@pytest.mark.parametrize(
    ("base", "changes", "expected"),
    [
        (CLICKSTREAM, {}, HALF_HOUR + 2 * MINUTE + 3_000 + 1),
        (CLICKSTREAM, {"sessions.lateness": "0 seconds"}, HALF_HOUR + 3_000 + 1),
        (WINDOWS, {}, 10 * MINUTE + 3_000 + 1),  # ids are remembered longer than windows
        (WINDOWS, {"cleanse.dedupe.within": "1 second"}, MINUTE + 2 * MINUTE + 3_000 + 1),
        (EVENTS, {}, 0),
    ],
)
def test_the_horizon_is_where_no_state_is_left(
    base: dict[str, Any], changes: dict[str, Any], expected: int
) -> None:
    assert horizon_of(base, changes) == expected


def test_a_pipeline_has_a_clock_of_its_own() -> None:
    assert clock_topic(PipelineSpec(**CLICKSTREAM)) == "clickstream-clock"
