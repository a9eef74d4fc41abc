"""Numbers over time, in bounded memory: by the second for 15 minutes, by ten seconds for 12 hours."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FINE_MS, FINE_POINTS = 1_000, 900
COARSE_MS, COARSE_POINTS = 10_000, 4_320
NAMES_MAX = 128
"""4 bytes for each of 5,220 points: under 3 MB a pipeline, whatever it is called for."""

_Floats = NDArray[np.float32]
_Moments = NDArray[np.int64]


@dataclass(frozen=True)
class Points:
    """Columns over common moments; NaN where nothing is known."""

    at_ms: list[int]
    columns: dict[str, _Floats]


class _Ring:
    """The last points of one width."""

    def __init__(self, step_ms: int, size: int) -> None:
        self.step_ms = step_ms
        self.size = size
        self.last = -1
        """The newest point's moment, in steps since the epoch."""
        # Arrays of Python's own: a single value is read and set ten times faster than in NumPy's.
        self._values: dict[str, array[float]] = {}
        self._counts: dict[str, array[float]] = {}

    def put(self, at_ms: int, values: Mapping[str, float]) -> None:
        step = at_ms // self.step_ms
        if self.last < 0:
            self.last = step
        if step <= self.last - self.size:
            return  # older than all that is kept
        self._move_to(step)
        place = step % self.size
        for name, value in values.items():
            if (column := self._column(name)) is None:
                continue
            held = column[place]
            if math.isnan(held):
                column[place] = value
            elif name in self._counts:
                count = self._counts[name]
                count[place] += 1
                column[place] += (value - held) / count[place]
            else:
                column[place] = max(held, value)

    def _column(self, name: str) -> array[float] | None:
        if name not in self._values:
            if len(self._values) >= NAMES_MAX:
                return None
            self._values[name] = array("f", [math.nan]) * self.size
            if name.startswith("rate_"):
                self._counts[name] = array("f", [1.0]) * self.size
        return self._values[name]

    def _move_to(self, step: int) -> None:
        """Make room: what stood at the places of the steps between was of the last time round."""
        if step <= self.last:
            return
        for old in range(max(self.last + 1, step - self.size + 1), step + 1):
            place = old % self.size
            for column in self._values.values():
                column[place] = math.nan
            for count in self._counts.values():
                count[place] = 1.0
        self.last = step

    def points(self, after_ms: int, until_ms: int | None = None) -> Points:
        if self.last < 0:
            return Points([], {})
        steps = self._steps(after_ms, until_ms)
        places = steps % self.size
        columns = {name: np.frombuffer(column, np.float32)[places] for name, column in self._values.items()}
        known = np.zeros(len(steps), bool)
        for column in columns.values():
            known |= ~np.isnan(column)
        return Points(
            [int(step) * self.step_ms for step in steps[known]],
            {name: column[known] for name, column in columns.items()},
        )

    def known(self, name: str, after_ms: int, until_ms: int | None = None) -> tuple[_Moments, _Floats]:
        """What is known of one number, and when: rules ask for one at a time, and points() copies all."""
        if name not in self._values:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        steps = self._steps(after_ms, until_ms)
        column = np.frombuffer(self._values[name], np.float32)[steps % self.size]
        known = ~np.isnan(column)
        return steps[known] * self.step_ms, column[known]

    @property
    def start_ms(self) -> int:
        """Before this nothing is kept."""
        return max(0, self.last - self.size + 1) * self.step_ms

    def _steps(self, after_ms: int, until_ms: int | None) -> _Moments:
        end = self.last if until_ms is None else min(self.last, until_ms // self.step_ms - 1)
        return np.arange(max(self.last - self.size + 1, after_ms // self.step_ms + 1), end + 1)


class Series:
    """Numbers by name.

    A point holds the worst, which is the greatest, of what fell into its time: a peak of a second must be
    seen on a plot of hours. Of rates, whose names begin with rate_, it holds the mean.
    """

    def __init__(self) -> None:
        self._fine = _Ring(FINE_MS, FINE_POINTS)
        self._coarse = _Ring(COARSE_MS, COARSE_POINTS)

    def put(self, at_ms: int, values: Mapping[str, float]) -> None:
        self._fine.put(at_ms, values)
        self._coarse.put(at_ms, values)

    def fine(self, after_ms: int = -1) -> Points:
        """Points of a second that begin after a moment."""
        return self._fine.points(after_ms)

    def coarse(self) -> Points:
        """Points of ten seconds, of the time before the fine ones."""
        fine = self._fine.points(-1).at_ms
        return self._coarse.points(-1, fine[0] if fine else None)

    def held_since(self, name: str, test: Callable[[_Floats], NDArray[np.bool_]]) -> int | None:
        """Since when all that is known of a number passes a test; None if the newest does not."""
        since: int | None = None
        for ring, until_ms in ((self._fine, None), (self._coarse, self._fine.start_ms)):
            at_ms, values = ring.known(name, -1, until_ms)
            failed = np.flatnonzero(~test(values))
            if failed.size == 0:
                since = int(at_ms[0]) if at_ms.size else since
                continue
            if failed[-1] + 1 < at_ms.size:
                since = int(at_ms[failed[-1] + 1])
            break
        return since

    def mean(self, name: str, from_ms: int, to_ms: int) -> float | None:
        """Of the fine points between two moments; None where there are none."""
        at_ms, values = self._fine.known(name, from_ms - 1)
        chosen = values[at_ms < to_ms]
        return float(chosen.mean()) if chosen.size else None
