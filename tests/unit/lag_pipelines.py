"""Pipelines of micro-batches on paper: how far a topic reaches and is processed, looked at each second."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from penstock.observe.journal import Lag
from penstock.observe.lag.looks import Look

START_MS = 1_700_000_000_000
Rate = Callable[[float], float]


@dataclass(frozen=True)
class Paper:
    """Batches take all there is, up to a limit, and a time that depends on how much that is."""

    in_eps: Rate
    capacity_eps: float = 100_000.0
    overhead_s: float = 0.5
    trigger_s: float = 0.0
    max_batch: float = 500_000.0
    jitter: float = 0.1
    """How far the time of a batch varies by chance, as a share of it."""
    backlog: float = 0.0
    """Records that were there before."""
    frozen: tuple[float, float] = (0.0, 0.0)
    """From when to when no batch begins."""

    def run(self, seconds: int, *, look_s: float = 1.0, seed: int = 1) -> list[Look]:
        chance = random.Random(seed)
        step_s, end, position, taken = 0.05, self.backlog, 0.0, 0.0
        batch_ends_s, next_start_s, next_look_s = -1.0, 0.0, 0.0
        series = []
        for step in range(round(seconds / step_s)):
            now_s = step * step_s
            end += self.in_eps(now_s) * step_s
            if 0 <= batch_ends_s <= now_s:
                position, batch_ends_s = taken, -1.0
            frozen = self.frozen[0] <= now_s < self.frozen[1]
            if batch_ends_s < 0 and now_s >= next_start_s and int(end) > position and not frozen:
                taken = min(int(end), position + self.max_batch)
                took_s = self.overhead_s + (taken - position) / self.capacity_eps
                batch_ends_s = now_s + took_s * (1 + self.jitter * chance.uniform(-1, 1))
                next_start_s = now_s + self.trigger_s
            if now_s >= next_look_s:
                series.append(Look(START_MS + round(now_s * 1000), int(position), int(end)))
                next_look_s += look_s
        return series


def steadily(eps: float) -> Rate:
    return lambda _: eps


def as_lags(*partitions: list[Look]) -> list[Lag]:
    """The series of partitions 0, 1, ... as a journal tells them."""
    return [
        Lag(
            at[0].at_ms,
            {partition: one.end for partition, one in enumerate(at)},
            {partition: one.position for partition, one in enumerate(at)},
        )
        for at in zip(*partitions, strict=True)
    ]
