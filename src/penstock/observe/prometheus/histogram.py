"""A histogram as Prometheus has it: counts up to bounds, since it began."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.observe.board.spread import Spread

LATENCY_BOUNDS_S = (
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
)  # fmt: skip
"""Closest around the usual objective of 2 s: a percentile is as exact as the bounds beside it."""
WORK_BOUNDS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""For batches and writes."""


@dataclass(frozen=True)
class Buckets:
    """What a histogram held at a moment: up to each bound, in seconds, so many. The last is infinite."""

    reached: tuple[tuple[float, int], ...]
    sum_s: float


class Histogram:
    """Events by how many seconds they took."""

    def __init__(self, bounds_s: Sequence[float]) -> None:
        self.bounds_s = tuple(bounds_s)
        self.sum_s = 0.0
        # Whole milliseconds, as latencies are: 0.3 s must not miss its bound by a rounding.
        self._bounds_ms = np.array([round(bound * 1000) for bound in bounds_s])
        self._counts = np.zeros(len(self.bounds_s) + 1, np.int64)

    def add(self, ms: float) -> None:
        self._counts[np.searchsorted(self._bounds_ms, ms)] += 1
        self.sum_s += ms / 1000

    def add_all(self, spread: Spread) -> None:
        places = np.searchsorted(self._bounds_ms, spread.ms)
        self._counts += np.bincount(places, spread.events, len(self._counts)).astype(np.int64)
        self.sum_s += float(spread.ms @ spread.events) / 1000

    def buckets(self) -> Buckets:
        reached = np.cumsum(self._counts).tolist()
        return Buckets(tuple(zip((*self.bounds_s, math.inf), reached, strict=True)), self.sum_s)
