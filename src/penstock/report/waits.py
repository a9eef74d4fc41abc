"""What waited in the topic over a run, by partition."""

from __future__ import annotations

from collections import deque

from penstock.engine.receipt import Receipt
from penstock.observe.board.board import PARTITIONS_DRAWN
from penstock.observe.board.glance import LagGlance
from penstock.observe.journal import Lag
from penstock.observe.lag.report import lag_report
from penstock.observe.lag.skew import skew
from penstock.report.facts import LagFigures, PartitionFigures
from penstock.report.strip import Strip

BEHIND_MS = 10_000
"""What waits for less is what the next batch takes."""
_LOOKS_MAX = 1_800
_LOOKED_EVERY_MAX_MS = 10_000
"""Between two looks that are further apart, nobody knows what came in."""


class Waits:
    """The fold of a run's looks at its topic."""

    def __init__(self, strip: Strip) -> None:
        self._strip = strip
        self._looks: deque[Lag] = deque(maxlen=_LOOKS_MAX)
        self._most: dict[int, tuple[int, int]] = {}
        self._read: dict[int, int] = {}
        self._came: dict[int, int] = {}
        self._records_max = (0, 0)
        self._age_max = (0, 0)
        self._behind_ms = 0
        self._looked_ms = 0

    def lag(self, lag: Lag) -> None:
        before = self._looks[-1] if self._looks else None
        self._looks.append(lag)
        if lag.total > self._records_max[0]:
            self._records_max = (lag.total, lag.at_ms)
        waits = lag.by_partition
        for partition, many in waits.items():
            if many > self._most.get(partition, (-1, 0))[0]:
                self._most[partition] = (many, lag.at_ms)
        # A board draws the first partitions only; the worst may be another.
        beyond = {f"lag_{p}": float(many) for p, many in waits.items() if p >= PARTITIONS_DRAWN}
        if beyond:
            self._strip.put(lag.at_ms, beyond)
        if before is not None and 0 < lag.at_ms - before.at_ms <= _LOOKED_EVERY_MAX_MS:
            self._looked_ms += lag.at_ms - before.at_ms
            for partition, end in lag.ends.items():
                came = max(0, end - before.ends.get(partition, end))
                self._came[partition] = self._came.get(partition, 0) + came

    def batch(self, receipt: Receipt) -> None:
        for partition, (start, end) in receipt.offsets.items():
            self._read[partition] = self._read.get(partition, 0) + end - start

    def glanced(self, lag: LagGlance, at_ms: int, passed_ms: int) -> None:
        """How old the oldest is that waits, each time that is looked at."""
        if lag.age_ms > self._age_max[0]:
            self._age_max = (lag.age_ms, at_ms)
        if lag.age_ms >= BEHIND_MS:
            self._behind_ms += passed_ms

    def figures(self, name: str, now_ms: int, trigger_ms: int) -> LagFigures | None:
        if not self._looks:
            return None
        partitions = [
            PartitionFigures(partition, self._read.get(partition, 0), many, at_ms)
            for partition, (many, at_ms) in self._most.items()
        ]
        return LagFigures(
            records_max=self._records_max[0],
            records_max_at_ms=self._records_max[1],
            age_max_ms=self._age_max[0],
            age_max_at_ms=self._age_max[1],
            behind_ms=self._behind_ms,
            partitions=tuple(sorted(partitions, key=lambda one: (-one.lag_max, one.partition))),
            added=sum(self._came.values()),
            looked_ms=self._looked_ms,
            skew=skew(self._came),
            end=lag_report(name, list(self._looks), now_ms, trigger_ms=trigger_ms),
        )
