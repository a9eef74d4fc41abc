"""Lag as a series: where a partition, or a whole topic, was read to and reached to, again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from penstock.observe.journal import Lag

RATE_WINDOW_MS = 300_000
PATIENCE_MIN_MS = 60_000
"""The first batch of a cold JVM took 19 s with 300,000 records to read: three times that is no stall yet."""
_USUAL_MIN_MS = 10_000
_USUAL_BATCHES = 3


@dataclass(frozen=True)
class Look:
    """One look at a partition, or at the sum of all."""

    at_ms: int
    position: int
    """The first offset that is not processed."""
    end: int

    @property
    def lag(self) -> int:
        # Ends are asked for before positions are looked up: a position may be ahead.
        return max(0, self.end - self.position)


Looks = Sequence[Look]
"""Samples of one place, in the order of time. Ends never fall."""


def partition_series(lags: Sequence[Lag]) -> dict[int, list[Look]]:
    """A series of each partition that is known."""
    return {
        partition: _unbroken(
            # Before the first batch nothing is known; a partition that came later is read from its beginning.
            Look(lag.at_ms, lag.done.get(partition, 0), lag.ends[partition])
            for lag in lags
            if lag.done and partition in lag.ends
        )
        for partition in sorted({partition for lag in lags for partition in lag.ends})
    }


def whole_series(partitions: Mapping[int, Looks]) -> list[Look]:
    """The sums over partitions, at the times at which all were seen."""
    at: dict[int, list[Look]] = {}
    for series in partitions.values():
        for sample in series:
            at.setdefault(sample.at_ms, []).append(sample)
    return [
        Look(at_ms, sum(min(one.position, one.end) for one in seen), sum(one.end for one in seen))
        for at_ms, seen in sorted(at.items())
        if len(seen) == len(partitions)
    ]


def topic_series(lags: Sequence[Lag]) -> list[Look]:
    """The sums over partitions, straight from the journal: for who needs no single partition."""
    return _unbroken(
        Look(
            lag.at_ms,
            sum(min(lag.done.get(partition, 0), end) for partition, end in lag.ends.items()),
            sum(lag.ends.values()),
        )
        for lag in lags
        if lag.done
    )


def _unbroken(samples: Iterator[Look]) -> list[Look]:
    """The samples since the topic was last made anew and the clock last put back."""
    series: list[Look] = []
    for sample in samples:
        if series and (sample.end < series[-1].end or sample.at_ms < series[-1].at_ms):
            series.clear()
        series.append(sample)
    return series


def lows(series: Looks) -> list[Look]:
    """What was left after each batch: the looks at which the position had moved, or nothing waited.

    Between two batches lag rises by whatever comes in; only here does it tell whether the pipeline keeps up.
    """
    return [
        now
        for before, now in zip([None, *series], series, strict=False)
        if now.lag == 0 or (before is not None and now.position > before.position)
    ]


def rates_eps(series: Looks) -> tuple[float, float]:
    """What came in and what was processed a second, over the last five minutes or two samples."""
    if len(series) < 2:
        return 0.0, 0.0
    last = series[-1]
    first = next(s for s in series if s.at_ms >= last.at_ms - RATE_WINDOW_MS or s is series[-2])
    took_s = max(1, last.at_ms - first.at_ms) / 1000
    return (last.end - first.end) / took_s, max(0, last.position - first.position) / took_s


def waiting_since_ms(series: Looks) -> int:
    """Since when records have waited and the position has not moved; else the time of the last sample."""
    last = series[-1]
    since_ms = last.at_ms
    for sample in reversed(series):
        if sample.lag == 0 or sample.position != last.position or last.lag == 0:
            break
        since_ms = sample.at_ms
    return since_ms


def moves_every_ms(series: Looks) -> float:
    """How long the position usually stands still while records wait; 0 where it was not seen to move."""
    return median(_waits_ms(series) or [0])


def usual_ms(series: Looks, trigger_ms: int = 0) -> int:
    """How long a position stands still in the normal course: by what has been seen, or the spec says.

    What has been seen is a median: one long outage that is over does not make us patient with the next.
    """
    return max(_USUAL_MIN_MS, round(_USUAL_BATCHES * max(moves_every_ms(series), trigger_ms)))


def patience_ms(series: Looks, trigger_ms: int = 0) -> int:
    """How long a position may stand still before it is a stall."""
    return max(PATIENCE_MIN_MS, usual_ms(series, trigger_ms))


def _waits_ms(series: Looks) -> list[int]:
    waits = []
    since_ms: int | None = None
    for before, now in pairwise(series):
        if before.lag == 0:
            since_ms = now.at_ms
        elif now.position > before.position:
            if since_ms is not None:
                waits.append(now.at_ms - since_ms)
            since_ms = now.at_ms
    return waits
