"""What waits in the topic, and for how long."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import takewhile

from penstock.observe.board.glance import LagGlance, PartitionGlance
from penstock.observe.journal import Lag
from penstock.observe.lag.age import LagTime, LogEnd, NoLag

_WINDOW_MS = 10_000
_RECENT_MS = 900_000


class Backlog:
    """Looks at the topic's ends, kept so that offsets can be turned into ages."""

    def __init__(self) -> None:
        self._recent: deque[Lag] = deque()
        self._ends: defaultdict[int, LogEnd] = defaultdict(LogEnd)

    def feed(self, lag: Lag) -> None:
        self._recent.append(lag)
        while self._recent[0].at_ms < lag.at_ms - _RECENT_MS:
            self._recent.popleft()
        for partition, end in lag.ends.items():
            self._ends[partition].saw(end, lag.at_ms)

    @property
    def recent(self) -> Sequence[Lag]:
        return self._recent

    @property
    def newest(self) -> Lag | None:
        return self._recent[-1] if self._recent else None

    def rates_eps(self, now_ms: int) -> dict[int, float]:
        """Records that producers added a second, by partition, over the last seconds."""
        window = list(takewhile(lambda lag: lag.at_ms >= now_ms - _WINDOW_MS, reversed(self._recent)))
        if len(window) < 2:
            return {}
        last, *_, first = window
        seconds = max(1, last.at_ms - first.at_ms) / 1000
        return {p: (end - first.ends.get(p, end)) / seconds for p, end in last.ends.items()}

    def glance(self, now_ms: int) -> LagGlance | None:
        lag = self.newest
        if lag is None:
            return None
        rates, ages = self.rates_eps(now_ms), self._ages_ms(lag)
        partitions = tuple(
            PartitionGlance(p, waits, lag.ends[p], lag.done.get(p, 0), rates.get(p, 0.0), ages[p])
            for p, waits in sorted(lag.by_partition.items(), key=lambda item: (-item[1], item[0]))
        )
        return LagGlance(lag.at_ms, lag.total, self.age_ms(now_ms), partitions)

    def age_ms(self, now_ms: int) -> int:
        """Of the oldest record that waits, 0 if none does; it gets older while nobody looks."""
        lag = self.newest
        oldest_ms = max(self._ages_ms(lag).values(), default=0) if lag else 0
        return oldest_ms + max(0, now_ms - lag.at_ms) if lag and oldest_ms else 0

    def _ages_ms(self, lag: Lag) -> dict[int, int]:
        return {partition: self._age_ms(partition, lag) for partition in lag.ends}

    def _age_ms(self, partition: int, lag: Lag) -> int:
        match self._ends[partition].age(lag.done.get(partition, 0), lag.at_ms):
            case NoLag():
                return 0
            case LagTime(ms=ms):
                return ms
            case too_few:
                return too_few.at_least_ms
