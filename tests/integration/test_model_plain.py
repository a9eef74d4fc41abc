"""The plain engine's final rows against the model's, batch by batch, on random streams with crashes.

Plain corrects nothing. Of a window that is over it forgets everything, and drops the events that come later;
of a session too, but an event that comes later may begin another. So windows get every stream, and are
compared while they are not over; sessions get streams in which no event comes later than the clock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from penstock.errors import SpecError
from penstock.spec import PipelineSpec
from penstock.testing import Model, Row, clocked, differences_by_batch
from tests.integration.test_model_groups import (
    CLEANSE,
    DEDUPE,
    GIVEN,
    OUT_OF_ORDER,
    SESSIONS,
    VARIANTS,
    Run,
    random_runs,
    random_streams,
    run_with_crashes,
)

pytestmark = pytest.mark.integration

NO_END = 2**62


@random_streams
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("variant", ["windows", "windows that overlap"])
def test_every_row_of_plain_windows_is_the_models_final_row(
    spark: SparkSession, variant: str, seed: int
) -> None:
    runs = random_runs(seed)
    expected = [
        [row for row in rows if row["end_ms"] > clock_before_ms]
        for rows, clock_before_ms in zip(_finals(variant, runs), _clocks(runs), strict=False)
    ]
    assert differences_by_batch(expected, _plain(spark, variant, runs, seed)) == []


@random_streams
@given(seed=st.integers(0, 2**32))
def test_every_row_of_plain_sessions_is_the_models_final_row(spark: SparkSession, seed: int) -> None:
    runs = _in_time(random_runs(seed))
    assert differences_by_batch(_finals("sessions", runs), _plain(spark, "sessions", runs, seed)) == []


@pytest.mark.parametrize(
    ("sections", "named"),
    [
        (SESSIONS | DEDUPE, "dedupe"),
        ({"sessions": {**SESSIONS["sessions"], "max_length": "7 seconds"}}, "sessions.max_length"),
    ],
)
def test_what_plain_cannot_do_is_refused(spark: SparkSession, sections: dict[str, Any], named: str) -> None:
    with pytest.raises(SpecError, match=f"engine = plain has no {named}"):
        run_with_crashes(spark, PipelineSpec(**GIVEN, **sections, engine="plain"), [], seed=0)


def _plain(spark: SparkSession, variant: str, runs: list[Run], seed: int) -> list[list[Row]]:
    sections, _ = VARIANTS[variant]
    return run_with_crashes(spark, PipelineSpec(**GIVEN, **sections, engine="plain"), runs, seed)


def _finals(variant: str, runs: list[Run]) -> list[list[Row]]:
    """The final rows as plain tells them: of all events at once, however late they came, in one version."""
    _, grouping = VARIANTS[variant]
    model = Model(CLEANSE, replace(grouping, lateness_ms=NO_END), OUT_OF_ORDER)
    told = [
        [{**row, "version": 1, "new_events": row["events"]} for row in rows if row["kind"] == "final"]
        for rows in model.run(*runs)
    ]
    for row in (row for rows in told for row in rows):
        del row["balance"]  # Spark's own sum stays null once it has overflowed on the way
    return told


def _clocks(runs: list[Run]) -> list[int]:
    """The clock before the first batch, and that of every batch."""
    clocks = [0]
    for run in runs:
        events = [CLEANSE.split(batch)[0] for batch in run]
        clocks += [clock_ms for _, clock_ms in clocked(events, OUT_OF_ORDER, clocks[-1])]
    return clocks


def _in_time(runs: list[Run]) -> list[Run]:
    """The same without the events that the clock has reached when they come."""
    clock_ms = 0
    kept: list[Run] = []
    for run in runs:
        kept.append([])
        for batch in run:
            events, _ = CLEANSE.split(batch)
            late = {(event.partition, event.offset) for event in events if event.ts_ms <= clock_ms}
            kept[-1].append([record for record in batch if (record.partition, record.offset) not in late])
            clock_ms = max([clock_ms, *(event.ts_ms - OUT_OF_ORDER for event in events)])
    return kept
