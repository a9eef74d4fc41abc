"""What waits in the topic, and for how long."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from penstock.observe.board.glance import LagGlance, PartitionGlance
from penstock.observe.journal import Lag

_WINDOW_MS = 10_000
_EACH_MS = 900_000
"""So long every look at the topic is kept, then one in ten seconds."""
_THIN_MS = 10_000
_KEPT_MS = 7_200_000


class Backlog:
    """Looks at the topic's ends, kept so that offsets can be turned into ages."""

    def __init__(self) -> None:
        self._recent: deque[Lag] = deque()
        self._old: deque[Lag] = deque()

    def feed(self, lag: Lag) -> None:
        self._recent.append(lag)
        while self._recent[0].at_ms < lag.at_ms - _EACH_MS:
            oldest = self._recent.popleft()
            if not self._old or oldest.at_ms - self._old[-1].at_ms >= _THIN_MS:
                self._old.append(oldest)
        while self._old and self._old[0].at_ms < lag.at_ms - _KEPT_MS:
            self._old.popleft()

    @property
    def recent(self) -> Sequence[Lag]:
        return self._recent

    @property
    def newest(self) -> Lag | None:
        return self._recent[-1] if self._recent else None

    def rates_eps(self, now_ms: int) -> dict[int, float]:
        """Records that producers added a second, by partition, over the last seconds."""
        window = self._tail(now_ms)
        if len(window) < 2:
            return {}
        first, last = window[0], window[-1]
        seconds = max(1, last.at_ms - first.at_ms) / 1000
        return {p: (end - first.ends.get(p, end)) / seconds for p, end in last.ends.items()}

    def _tail(self, now_ms: int) -> list[Lag]:
        found: list[Lag] = []
        for lag in reversed(self._recent):
            if lag.at_ms < now_ms - _WINDOW_MS:
                break
            found.append(lag)
        return found[::-1]

    def glance(self, now_ms: int) -> LagGlance | None:
        lag = self.newest
        if lag is None:
            return None
        rates, ages = self.rates_eps(now_ms), self._ages_ms(lag)
        partitions = tuple(
            PartitionGlance(p, waits, lag.ends[p], lag.done.get(p, 0), rates.get(p, 0.0), ages.get(p, 0))
            for p, waits in sorted(lag.by_partition.items(), key=lambda item: (-item[1], item[0]))
        )
        return LagGlance(lag.at_ms, lag.total, self.age_ms(now_ms), partitions)

    def age_ms(self, now_ms: int) -> int:
        """Of the oldest record that waits, 0 if none does; it gets older while nobody looks."""
        lag = self.newest
        oldest_ms = max(self._ages_ms(lag).values(), default=0) if lag else 0
        return oldest_ms + max(0, now_ms - lag.at_ms) if lag and oldest_ms else 0

    def _ages_ms(self, lag: Lag) -> dict[int, int]:
        """Since when each partition has held a record that is not done yet.

        It came after the last look at which the topic did not yet reach beyond what is done now.
        """
        ages: dict[int, int] = {}
        waiting = {p for p, waits in lag.by_partition.items() if waits > 0}
        for looks in (self._recent, self._old):
            for look in reversed(looks):
                for partition in [p for p in waiting if look.ends.get(p, 0) <= lag.done.get(p, 0)]:
                    ages[partition] = lag.at_ms - look.at_ms
                    waiting.discard(partition)
                if not waiting:
                    return ages
        # As old as all that is known, at least.
        oldest = (self._old or self._recent)[0].at_ms
        return ages | dict.fromkeys(waiting, lag.at_ms - oldest)
