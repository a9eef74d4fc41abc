"""Lag in time: how old the oldest record of a partition is that has not been processed.

Kafka tells how far a log reaches, not since when. So the end is remembered each time it is seen, and the time
at which it passed an offset lies between two such points.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from statistics import median

POINTS_MAX = 1_024
"""Of one partition. With a look each second that is 17 minutes, and what came before in ever less detail."""

_GUESSED_MAX = 10
"""How many times as many records as have been seen to come may lie before them: by the pace of two records in
a silence, others that were 40 s old were an hour and a half."""


@dataclass(frozen=True)
class NoLag:
    """Nothing waits."""


@dataclass(frozen=True)
class TooFewPoints:
    """The end has hardly been seen to move, so that the pace before is unknown."""

    at_least_ms: int


@dataclass(frozen=True)
class LagTime:
    """The age of the oldest record that waits: the likeliest, and what it cannot be below or above."""

    ms: int
    at_least_ms: int
    at_most_ms: int | None
    """None: the record is older than the first point, and its age a guess from the pace since."""


Age = NoLag | TooFewPoints | LagTime


@dataclass(frozen=True)
class _Point:
    offset: int
    at_ms: int


class LogEnd:
    """The end of one partition's log over time, in a bounded number of points.

    1. Neither offsets nor times ever fall from one point to the next.
    2. Where the end stands still there are two points, when it came there and when it was last seen there: a
       record that comes after hours came now, and the one before it hours ago.
    """

    def __init__(self) -> None:
        self._points: list[_Point] = []

    def __len__(self) -> int:
        return len(self._points)

    def saw(self, offset: int, at_ms: int) -> None:
        """The log ended before `offset` at this time."""
        points = self._points
        if points and offset < points[-1].offset:
            points.clear()  # another topic of that name, or one that lost records: old points tell nothing
        if points and at_ms < points[-1].at_ms:
            # The clock was put back: ages by the new one are right, but for what passed between two looks.
            back_ms = points[-1].at_ms - at_ms
            points[:] = [_Point(point.offset, point.at_ms - back_ms) for point in points]
        if len(points) > 1 and points[-2].offset == points[-1].offset == offset:
            points.pop()
        points.append(_Point(offset, at_ms))
        if len(points) > POINTS_MAX:
            self._thin()

    def age(self, position: int, now_ms: int) -> Age:
        """How long the record at `position` has waited."""
        points = self._points
        if not points:
            return TooFewPoints(0)
        passed = bisect_right(points, position, key=lambda point: point.offset)
        if passed == len(points):
            return NoLag()
        if passed == 0:
            return self._guessed(position, now_ms)
        before, after = points[passed - 1], points[passed]
        # Of the records that came between the two points, which one: they are taken to have come evenly.
        share = (position - before.offset + 0.5) / (after.offset - before.offset)
        at_ms = before.at_ms + share * (after.at_ms - before.at_ms)
        return LagTime(_since(at_ms, now_ms), _since(after.at_ms, now_ms), _since(before.at_ms, now_ms))

    def _guessed(self, position: int, now_ms: int) -> Age:
        first, last = self._points[0], self._points[-1]
        seen, before = last.offset - first.offset, first.offset - position
        if before > _GUESSED_MAX * seen or last.at_ms == first.at_ms:
            return TooFewPoints(_since(first.at_ms, now_ms))
        at_ms = first.at_ms - before * (last.at_ms - first.at_ms) / seen
        return LagTime(_since(at_ms, now_ms), _since(first.at_ms, now_ms), None)

    def _thin(self) -> None:
        """Leave out points that their neighbours tell as well, in relation to their age.

        Only every other point may go, so that those beside it stay.
        """
        points, newest_ms = self._points, self._points[-1].at_ms
        costs: dict[int, float] = {}
        for at in range(1, len(points) - 1, 2):
            before, here, after = points[at - 1 : at + 2]
            share = (here.offset - before.offset) / max(1, after.offset - before.offset)
            told_ms = before.at_ms + share * (after.at_ms - before.at_ms)
            costs[at] = abs(here.at_ms - told_ms) / (newest_ms - here.at_ms + 1)
        cheap = median(costs.values())
        self._points = [point for at, point in enumerate(points) if costs.get(at, cheap + 1) > cheap]


def _since(at_ms: float, now_ms: int) -> int:
    return max(0, round(now_ms - at_ms))
