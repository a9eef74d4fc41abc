"""Latencies in a histogram that can be stored and merged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hdrh.histogram import HdrHistogram

_LONGEST_MS = 86_400_000
_DIGITS = 3


@dataclass(frozen=True)
class Percentiles:
    """Milliseconds; all 0 when nothing was counted."""

    p50: int
    p99: int
    max: int


class Latency:
    """How long events took, each with its weight."""

    def __init__(self) -> None:
        self._histogram = HdrHistogram(1, _LONGEST_MS, _DIGITS)

    @classmethod
    def of(cls, counts: Iterable[tuple[int, int]]) -> Latency:
        """From (milliseconds, events) pairs."""
        latency = cls()
        for milliseconds, events in counts:
            latency._histogram.record_value(min(max(milliseconds, 1), _LONGEST_MS), events)
        return latency

    def add(self, other: Latency) -> None:
        self._histogram.add(other._histogram)

    def __bool__(self) -> bool:
        return bool(self._histogram.get_total_count())

    def percentiles(self) -> Percentiles:
        if not self:
            return Percentiles(0, 0, 0)
        return Percentiles(self.at(50), self.at(99), int(self._histogram.get_max_value()))

    def at(self, percentile: float) -> int:
        """Milliseconds within which that part of the events was visible; 0 when nothing was counted."""
        return int(self._histogram.get_value_at_percentile(percentile)) if self else 0

    def encode(self) -> str:
        return str(self._histogram.encode().decode())

    @classmethod
    def decode(cls, text: str) -> Latency:
        latency = cls()
        latency._histogram.decode_and_add(text.encode())
        return latency
