"""What is made of runs with a setting turned back, and without."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.bench.drain import Drained
from penstock.bench.settings import COLUMNS, OURS, Measured, Work, by_area, findings, in_turns, measure, row
from penstock.errors import PenstockError
from penstock.tuning import settings, untuned

DONE = Drained(events=1_000, seconds=10.0, cpu_s=20.0, rss_mb=800.0, sessions=50)
RUN = Measured(DONE, p50_ms=500.0, p99_ms=1_000.0, cores=0.8)


def test_ours_is_tried_again_among_the_others() -> None:
    assert list(in_turns(["a", "b", "c", "d"], 1)) == [OURS, "a", "b", "c", OURS, "d", OURS]
    assert list(in_turns(["a"], 2)) == [OURS, "a", OURS, "a", OURS]


def test_what_is_within_the_spread_of_ours_is_not_told() -> None:
    ours = [RUN, replace(RUN, p99_ms=1_200.0)]
    same = [replace(RUN, p99_ms=1_100.0)]
    slower = [replace(RUN, p99_ms=2_200.0, drained=replace(DONE, seconds=20.0))]
    assert list(findings({OURS: ours, "state.*": same, "jvm.*": slower})) == [
        "without state.*: no difference to be seen",
        "without jvm.*: throughput 0.50 times, p99 2.00 times",
    ]


def test_a_row_has_every_column() -> None:
    assert set(row("jvm.*", [RUN])) == {column.key for column in COLUMNS}


def test_by_area_all_but_those_of_other_works_are_turned_back() -> None:
    others = ("postgres", "realtime")
    whole = {one.id for one in settings() if not one.correctness and not one.area.name.startswith(others)}
    assert set().union(*(untuned(pattern) for pattern in by_area())) == whole


def test_an_unknown_name_is_told_before_anything_starts() -> None:
    with pytest.raises(PenstockError, match="there is no setting"):
        measure(["state.nothing"], Work(1, 1, 1.0), 1, print)
