"""Where a cycle's time goes, and where pressure starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.engine.receipt import Receipt
from penstock.observe.board.pressure import SATURATED, Pressure, Stage, pressure
from penstock.observe.samples import StageWork, Work

READ = StageWork(0, 8, 200, 400, 380, 0, 20_000, 0, 0, 900_000, 40, 0)
FOLD = StageWork(1, 4, 300, 600, 500, 0, 20_000, 900_000, 60, 0, 0, 0)


def cycle(
    *,
    last_end_ms: int = 0,
    end_ms: int = 1_000,
    compute_ms: float = 550.0,
    sink_ms: float = 100.0,
    read: int = 200,
) -> Pressure:
    total_ms = int(compute_ms + sink_ms) + 50
    receipt = Receipt(
        "q", 1, {0: (0, 20_000)}, 20_000, 0, 0, 0, 0, 0, 0, 0, (), 0, compute_ms, compute_ms + sink_ms
    )
    stages = (replace(READ, wall_ms=read, run_ms=2 * read, shuffle_write_ms=read // 5), FOLD)
    work = Work(end_ms, "q", 1, 5, 20, 10, int(compute_ms + sink_ms), 10, total_ms, 0, None, stages)
    return pressure(receipt, work, 0)


def busy_ms(found: Pressure) -> dict[Stage, float]:
    return {stage.stage: stage.busy_ms for stage in found.stages}


def test_every_millisecond_of_a_cycle_is_somebodys() -> None:
    found = cycle()
    assert sum(busy_ms(found).values()) + found.idle * found.cycle_ms == pytest.approx(1_000)
    assert busy_ms(found) == pytest.approx(
        # A tenth of both stages is the shuffle's: 20 of 200 ms, 30 of 300.
        {"source": 95.0, "decode": 90.0, "shuffle": 50.0, "state": 270.0, "sink": 100.0, "engine": 95.0}
    )


def test_a_pipeline_with_room_has_no_origin_of_pressure() -> None:
    found = cycle(end_ms=1_000)
    assert found.busy < SATURATED
    assert found.origin is None


@pytest.mark.parametrize(
    ("changed", "origin"),
    [({}, "state"), ({"sink_ms": 500.0}, "sink"), ({"read": 1_600, "compute_ms": 1_900.0}, "source")],
)
def test_the_stage_that_takes_most_of_a_full_cycle_is_the_origin(
    changed: dict[str, float], origin: Stage
) -> None:
    # The batch before ended when this one began: no time was left over.
    assert cycle(end_ms=700, **changed).origin == origin  # type: ignore[arg-type]


def test_stages_that_overlap_are_not_counted_twice() -> None:
    found = cycle(compute_ms=250.0)
    assert sum(busy_ms(found).values()) <= found.cycle_ms
    assert busy_ms(found)["state"] == pytest.approx(135.0)


def test_measured_capacities_tell_reading_from_decoding() -> None:
    receipt = Receipt("q", 1, {0: (0, 1)}, 1, 0, 0, 0, 0, 0, 0, 0, (), 0, 400.0, 400.0)
    work = Work(500, "q", 1, 0, 0, 0, 400, 0, 400, 0, None, (replace(READ, wall_ms=400, shuffle_write_ms=0),))
    found = pressure(receipt, work, 0, {"source": 300_000.0, "decode": 100_000.0})
    assert busy_ms(found)["source"] == pytest.approx(100.0)
    assert busy_ms(found)["decode"] == pytest.approx(300.0)
