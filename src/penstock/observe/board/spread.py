"""How long events took, in a form that is cheap to shift, merge and ask: some pairs, not 18,432 counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.observe.latency import Latency

_Longs = NDArray[np.int64]


@dataclass(frozen=True)
class Quantiles:
    """Milliseconds."""

    p50: int
    p95: int
    p99: int
    p999: int
    max: int


_SHARES = np.array([0.5, 0.95, 0.99, 0.999, 1.0])


@dataclass(frozen=True, eq=False)
class Spread:
    """Events by the milliseconds they took, ascending."""

    ms: _Longs
    events: _Longs

    @classmethod
    def of(cls, latency: Latency) -> Spread:
        histogram = latency._histogram
        counts = np.ctypeslib.as_array(histogram.counts)
        found = np.flatnonzero(counts)
        return cls(_values(histogram.counts_len)[found], counts[found].astype(np.int64))

    @classmethod
    def merged(cls, spreads: Iterable[Spread]) -> Spread:
        parts = list(spreads)
        if not parts:
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))
        ms = np.concatenate([part.ms for part in parts])
        order = np.argsort(ms, kind="stable")
        return cls(ms[order], np.concatenate([part.events for part in parts])[order])

    def shifted(self, ms: int) -> Spread:
        """The same events, seen so much later."""
        return Spread(np.maximum(self.ms + ms, 0), self.events)

    def quantiles(self) -> Quantiles | None:
        """None where there are no events."""
        if not self.events.size:
            return None
        reached = np.cumsum(self.events)
        at = np.searchsorted(reached, np.ceil(_SHARES * reached[-1]))
        return Quantiles(*(int(ms) for ms in self.ms[at]))


class Spreads:
    """Spreads added up, in bounded memory, to a histogram's three digits."""

    def __init__(self) -> None:
        self._ms = _values(Latency()._histogram.counts_len)
        self._events = np.zeros(len(self._ms), np.int64)

    def add(self, spread: Spread) -> None:
        places = np.minimum(np.searchsorted(self._ms, spread.ms), len(self._ms) - 1)
        np.add.at(self._events, places, spread.events)

    def quantiles(self) -> Quantiles | None:
        found = np.flatnonzero(self._events)
        return Spread(self._ms[found], self._events[found]).quantiles()


@cache
def _values(length: int) -> _Longs:
    """What each count of a histogram stands for: a table, since asking for one at a time takes a second."""
    histogram: Any = Latency()._histogram
    return np.array([histogram.get_value_from_index(index) for index in range(length)], np.int64)
