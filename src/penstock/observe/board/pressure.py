"""Where a pipeline's time goes, stage by stage, and where pressure starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from penstock.engine.receipt import Receipt
from penstock.observe.samples import StageWork, Work

Stage = Literal["source", "decode", "shuffle", "state", "sink", "engine"]
STAGES: tuple[Stage, ...] = ("source", "decode", "shuffle", "state", "sink", "engine")
"""In the order of the flow. `decode` cleanses and enriches, too; `engine` is Spark's planning and logs."""

SATURATED = 0.9
"""A pipeline that is busy for this share of its time has no room left: what comes on top waits in Kafka."""

READ_SHARE = 0.5
"""Of the time of reading, decoding and enriching, what reading takes, where nobody has measured it: 2.1 of
4.1 CPU seconds a million on the reference work."""


@dataclass(frozen=True)
class StagePressure:
    """One stage during one cycle: from a batch's end to the next one's."""

    stage: Stage
    busy: float
    """The share of the cycle in which this stage worked. Stages of a batch work one after the other: while
    one is busy all others wait."""
    busy_ms: float


@dataclass(frozen=True)
class Pressure:
    """One cycle of a query."""

    query: str
    cycle_ms: float
    idle: float
    """The share of the cycle in which there was nothing to do."""
    stages: tuple[StagePressure, ...]

    @property
    def busy(self) -> float:
        return 1.0 - self.idle

    @property
    def origin(self) -> Stage | None:
        """The stage that holds the others up; None while there is room."""
        if self.busy < SATURATED:
            return None
        return max(self.stages, key=lambda stage: stage.busy).stage


def pressure(
    receipt: Receipt, work: Work, last_end_ms: int, capacities_eps: Mapping[Stage, float] | None = None
) -> Pressure:
    """The cycle that ended with a batch; the one before it ended at `last_end_ms`.

    Capacities of source and decode, measured in isolation, tell their times apart: one task does both.
    """
    cycle_ms = float(max(1, work.at_ms - last_end_ms, work.total_ms))
    spent = _spent(receipt, work, _read_share(capacities_eps or {}))
    stages = tuple(StagePressure(stage, spent[stage] / cycle_ms, spent[stage]) for stage in STAGES)
    return Pressure(work.query, cycle_ms, max(0.0, 1.0 - sum(stage.busy for stage in stages)), stages)


def _read_share(capacities_eps: Mapping[Stage, float]) -> float:
    if "source" not in capacities_eps or "decode" not in capacities_eps:
        return READ_SHARE
    read, decode = 1 / capacities_eps["source"], 1 / capacities_eps["decode"]
    return read / (read + decode)


def _spent(receipt: Receipt, work: Work, read_share: float) -> dict[Stage, float]:
    """Milliseconds on the clock, by stage; what no stage accounts for is the engine's."""
    compute_ms = min(receipt.compute_ms, float(work.total_ms))
    sink_ms = max(0.0, receipt.total_ms - compute_ms)
    walls_ms = float(sum(stage.wall_ms for stage in work.stages))
    scale = min(1.0, compute_ms / walls_ms) if walls_ms else 0.0
    read_ms, moved_ms, folded_ms = 0.0, 0.0, 0.0
    for number, stage in enumerate(work.stages):
        wall_ms = stage.wall_ms * scale
        moving_ms = wall_ms * _moving(stage)
        moved_ms += moving_ms
        if number == 0:
            read_ms += wall_ms - moving_ms
        else:
            folded_ms += wall_ms - moving_ms
    known_ms = read_ms + moved_ms + folded_ms + sink_ms + work.offsets_ms
    return {
        "source": read_ms * read_share + work.offsets_ms,
        "decode": read_ms * (1 - read_share),
        "shuffle": moved_ms,
        "state": folded_ms,
        "sink": sink_ms,
        "engine": max(0.0, work.total_ms - known_ms),
    }


def _moving(stage: StageWork) -> float:
    """The share of a stage's time in which it wrote to the shuffle or waited for it."""
    return min(1.0, (stage.shuffle_write_ms + stage.shuffle_wait_ms) / stage.run_ms) if stage.run_ms else 0.0
