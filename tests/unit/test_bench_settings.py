"""What is made of runs with a setting turned back, and without."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, sqrt

import pytest

from penstock.bench.drain import Drained
from penstock.bench.result import Spread
from penstock.bench.settings import COLUMNS, OURS, Measured, Work, by_area, findings, in_turns, measure, rows
from penstock.errors import PenstockError
from penstock.tuning import settings, untuned

DONE = Drained(events=1_000, seconds=10.0, cpu_s=20.0, rss_mb=800.0, sessions=50)
RUN = Measured(DONE, p50_ms=500.0, p99_ms=1_000.0, cores=0.8)


def test_ours_is_tried_on_either_side_of_each() -> None:
    assert list(in_turns(["a", "b"], 1)) == [OURS, "a", OURS, "b", OURS]
    assert list(in_turns(["a"], 2)) == [OURS, "a", OURS, "a", OURS]


def test_a_run_is_held_against_those_beside_it() -> None:
    """The machine becomes half as fast behind the second run of ours."""
    slow = replace(DONE, seconds=20.0)
    runs = [
        (OURS, RUN),
        ("state.*", replace(RUN, p99_ms=1_100.0)),
        (OURS, replace(RUN, p99_ms=1_200.0)),
        ("jvm.*", replace(RUN, p99_ms=4_400.0, drained=replace(slow, seconds=80.0))),
        (OURS, replace(RUN, p99_ms=1_200.0, drained=slow)),
    ]
    noise, *told = findings(runs)
    # Once 2 times apart and once not at all; and 1.2 times, and not at all.
    assert f"throughput {exp(log(2) / sqrt(2)):.2f} times apart" in noise
    assert f"p99 {exp(log(1.2) / sqrt(2)):.2f} times apart" in noise
    assert told == [
        "without state.*: no difference to be seen",
        "without jvm.*: throughput 0.17 times, p99 3.67 times",
    ]


def test_more_rounds_tell_of_less() -> None:
    """Runs of ours are 1.2 times apart: 15 % more is nothing in one round, and something in six."""
    up, down = replace(RUN, p99_ms=1_200.0), RUN
    other = ("jvm.*", replace(RUN, p99_ms=1_265.0))
    once = [(OURS, up), other, (OURS, down)]
    often = [one for _ in range(3) for one in ((OURS, up), other, (OURS, down), other)] + [(OURS, up)]
    assert list(findings(once))[1] == "without jvm.*: no difference to be seen"
    assert list(findings(often))[1] == "without jvm.*: p99 1.15 times"


def test_a_row_has_every_column() -> None:
    [ours, other] = rows([(OURS, RUN), ("jvm.*", RUN), (OURS, replace(RUN, p99_ms=2_000.0))])
    assert set(ours) == set(other) == {column.key for column in COLUMNS}
    assert ours["p99_ms"] == Spread(1_500.0, 1_000.0, 2_000.0)


def test_by_area_all_but_those_of_other_works_are_turned_back() -> None:
    others = ("postgres", "realtime")
    whole = {one.id for one in settings() if not one.correctness and not one.area.name.startswith(others)}
    assert set().union(*(untuned(pattern) for pattern in by_area())) == whole


def test_an_unknown_name_is_told_before_anything_starts() -> None:
    with pytest.raises(PenstockError, match="there is no setting"):
        measure(["state.nothing"], Work(1, 1, 1.0), 1, print)
