"""Numbers over the time of a run, in a fixed number of bins: what plots are drawn of."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from penstock.observe.board.series import Series

BINS = 480
_BIN_MIN_MS = 1_000
_NAMES_MAX = 512
"""32 bytes for each of 480 bins: under 8 MB."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """One number: its least, its greatest and its mean in each bin; NaN where nothing is known."""

    low: Floats
    high: Floats
    mean: Floats
    last: float


@dataclass
class _Bins:
    low: array[float] = field(default_factory=lambda: array("d", [math.inf]) * BINS)
    high: array[float] = field(default_factory=lambda: array("d", [-math.inf]) * BINS)
    total: array[float] = field(default_factory=lambda: array("d", [0.0]) * BINS)
    count: array[float] = field(default_factory=lambda: array("d", [0.0]) * BINS)
    last: float = math.nan

    def put(self, place: int, value: float) -> None:
        self.low[place] = min(self.low[place], value)
        self.high[place] = max(self.high[place], value)
        self.total[place] += value
        self.count[place] += 1
        self.last = value


class Strip:
    """Numbers by name."""

    def __init__(self, from_ms: int, to_ms: int) -> None:
        self.from_ms = from_ms
        self.bin_ms = max(_BIN_MIN_MS, math.ceil((to_ms - from_ms + 1) / BINS))
        self.bins = max(1, min(BINS, math.ceil((to_ms - from_ms + 1) / self.bin_ms)))
        self.to_ms = from_ms + self.bins * self.bin_ms
        self._columns: dict[str, _Bins] = {}

    def put(self, at_ms: int, values: Mapping[str, float]) -> None:
        place = min(self.bins - 1, max(0, (at_ms - self.from_ms) // self.bin_ms))
        for name, value in values.items():
            if name not in self._columns:
                if len(self._columns) >= _NAMES_MAX:
                    continue
                self._columns[name] = _Bins()
            self._columns[name].put(place, float(value))

    def column(self, name: str) -> Column | None:
        found = self._columns.get(name)
        if found is None:
            return None
        low, high, total, count = (
            np.array(values[: self.bins]) for values in (found.low, found.high, found.total, found.count)
        )
        known = count > 0
        nothing = np.full(self.bins, np.nan)
        mean = np.divide(total, count, out=nothing.copy(), where=known)
        return Column(np.where(known, low, nothing), np.where(known, high, nothing), mean, found.last)


class Taped(Series):
    """A board's numbers, of which a strip is kept on the way."""

    def __init__(self, strip: Strip) -> None:
        super().__init__()
        self._strip = strip

    def put(self, at_ms: int, values: Mapping[str, float]) -> None:
        super().put(at_ms, values)
        self._strip.put(at_ms, values)
