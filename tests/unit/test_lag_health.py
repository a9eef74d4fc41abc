"""Five rules that say whether a partition is being read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.observe.lag.health import Reading, health
from penstock.observe.lag.looks import Look
from tests.unit.lag_pipelines import START_MS, Paper, steadily


def looks(*seen: tuple[int, int], every_s: int = 10) -> list[Look]:
    """(position, end), one look every ten seconds."""
    return [
        Look(START_MS + 1000 * every_s * number, position, end) for number, (position, end) in enumerate(seen)
    ]


# The correctness proof: positions and ends as they were seen every ten seconds, how many seconds before now
# the pipeline was last heard of, and the verdict. A window is a minute here.
CASES: dict[str, tuple[list[Look], int, Reading]] = {
    "never seen": ([], 0, "unknown"),
    "rule 1: nothing waits": (looks((5, 9), (9, 9)), 1, "ok"),
    "rule 1: nothing waits, and the pipeline has stopped": (looks((5, 9), (9, 9)), 9_999, "ok"),
    "rule 1: nothing waited half a minute ago, and no move since": (
        looks((9, 9), (9, 20), (9, 30), (9, 40)), 1, "ok"),
    "rule 1: that was longer ago than the window": (
        looks((9, 9), (9, 20), (9, 30), (9, 40), (9, 50), (9, 60), (9, 70), (9, 80), (9, 90)), 1, "stalled"),
    "rule 2: silent for over a minute, and records wait": (looks((1, 9), (5, 19)), 61, "stopped"),
    "rule 2: silent for less": (looks((1, 9), (5, 19)), 59, "ok"),
    "rule 2: silent, though all had been read a moment before": (looks((9, 9), (9, 19)), 61, "stopped"),
    "rule 3: the position went back": (looks((1, 30), (9, 30), (4, 40), (6, 50)), 1, "rewound"),
    "rule 3: it went back, and all is read again": (looks((1, 9), (9, 30), (4, 30), (30, 30)), 1, "ok"),
    "rule 3: it went back longer ago than the window": (
        looks((9, 90), (4, 90), (5, 90), (6, 90), (7, 90), (8, 90), (9, 90), (10, 90), (11, 90)), 1, "ok"),
    "rule 4: no move for a minute, and more comes": (
        looks((1, 9), (5, 19), (5, 29), (5, 39), (5, 49), (5, 59), (5, 69), (5, 79)), 1, "stalled"),
    "rule 4: no move for a minute, and nothing comes": (
        looks((1, 9), (5, 9), (5, 9), (5, 9), (5, 9), (5, 9), (5, 9), (5, 9)), 1, "stalled"),
    "rule 4: no move from the beginning": (
        looks((0, 9), (0, 9), (0, 9), (0, 9), (0, 9), (0, 9), (0, 9)), 1, "stalled"),
    "rule 4: no move, but not for long": (looks((1, 9), (5, 19), (5, 29), (5, 39)), 1, "ok"),
    "rule 5: it moves, and ever more is left": (
        looks((1, 9), (5, 19), (10, 29), (15, 39), (20, 49), (25, 59)), 1, "slow"),
    "rule 5: less was left once": (looks((1, 9), (5, 19), (10, 29), (28, 39), (30, 49), (32, 59)), 1, "ok"),
    "rule 5: always the same is left": (looks((1, 9), (11, 19), (21, 29), (31, 39), (41, 49)), 1, "ok"),
    "rule 5: too few batches to say": (looks((1, 9), (5, 19), (10, 29)), 1, "ok"),
    "rule 5: more waits before each batch, but not after it": (
        looks((0, 9), (9, 12), (9, 30), (30, 33), (30, 60), (60, 63), (60, 99), (99, 102)), 1, "ok"),
    "it is being read": (looks((10, 90), (20, 90), (30, 90), (40, 90), (50, 90)), 1, "ok"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_partition_is_judged_by_five_rules(case: str) -> None:
    series, silent_s, expected = CASES[case]
    heard_at_ms = series[-1].at_ms if series else START_MS
    found = health(series, heard_at_ms, heard_at_ms + 1_000 * silent_s)
    assert found.verdict == expected, found.reason


def test_a_position_beyond_an_end_that_was_asked_for_later_is_of_another_topic() -> None:
    series = looks((90, 95), (95, 95), (95, 7))
    assert health(series, series[-2].at_ms, series[-1].at_ms).verdict == "beyond"


def test_a_position_that_is_ahead_of_an_end_looked_at_before_is_no_trouble() -> None:
    series = looks((90, 95), (97, 95))
    assert health(series, series[-1].at_ms, series[-1].at_ms).verdict == "ok"


def test_a_verdict_carries_the_figures_it_rests_on() -> None:
    series, _, _ = CASES["rule 4: no move for a minute, and more comes"]
    found = health(series, series[-1].at_ms, series[-1].at_ms + 700)
    assert (found.lag, found.moved, found.waiting_ms, found.silent_ms) == (74, 0, 60_000, 700)
    assert found.reason == "74 wait, and the position has not moved for 60 s"


def test_silence_that_is_known_to_be_so_is_told_apart_from_a_look_at_kafka() -> None:
    series = looks((5, 9), (9, 9))
    now_ms = series[-1].at_ms + 3_600_000
    assert health(series, series[-1].at_ms, now_ms).reason == "nothing waited when it was last heard of"
    asked = [*series, Look(now_ms, 9, 9)]
    assert health(asked, series[-1].at_ms, now_ms).reason == "nothing waits"


@pytest.mark.parametrize("trigger_s", [0, 20, 60])
def test_who_has_long_batches_gets_a_longer_window(trigger_s: int) -> None:
    series = Paper(steadily(5_000), trigger_s=trigger_s, frozen=(1_210, 9_999)).run(1_300)
    last_ms = series[-1].at_ms
    found = health(series, last_ms, last_ms)
    assert found.verdict == ("ok" if trigger_s == 60 else "stalled")
    assert found.window_ms >= 3_000 * trigger_s


@settings(deadline=None)
@given(st.integers(1, 10**6), st.sampled_from(sorted(CASES)))
def test_scale_does_not_change_a_verdict(times: int, case: str) -> None:
    series, silent_s, expected = CASES[case]
    scaled = [replace(one, position=one.position * times, end=one.end * times) for one in series]
    heard_at_ms = series[-1].at_ms if series else START_MS
    assert health(scaled, heard_at_ms, heard_at_ms + 1_000 * silent_s).verdict == expected


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=30))
def test_a_partition_of_which_all_is_read_is_ok_whatever_happened_before(
    steps: list[tuple[int, int]],
) -> None:
    series, position, end = [], 0, 0
    for number, (comes, reads) in enumerate(steps):
        end += comes
        position = min(end, position + reads)
        series.append(Look(START_MS + 1_000 * number, position, end))
    series.append(Look(START_MS + 1_000 * len(steps), end, end))
    assert health(series, series[-1].at_ms, series[-1].at_ms).verdict == "ok"
