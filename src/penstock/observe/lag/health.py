"""Is a partition being read: five rules, in the spirit of Burrow, and no threshold of lag among them.

The rules look at a window that is as long as a position may stand still (`patience_ms`): a minute, or three
times what has been usual between two batches.

1. Nothing waits, or nothing waited at some time in the window: ok.
2. Records wait and the pipeline has said nothing for longer than the window: stopped.
3. The position went back, or lies beyond the end: rewound, or beyond.
4. Records wait and the position has not moved for as long as the window: stalled.
5. The position moves, but what is left after each of the last batches never gets less: slow.

Else it is ok: what waits is being read.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from penstock.observe.lag.looks import Looks, lows, patience_ms, waiting_since_ms

Reading = Literal["ok", "slow", "rewound", "beyond", "stalled", "stopped", "unknown"]

_BATCHES = 10
_BATCHES_MIN = 4


@dataclass(frozen=True)
class PartitionHealth:
    """A verdict, why, and what it rests on."""

    verdict: Reading
    reason: str
    window_ms: int = 0
    lag: int = 0
    moved: int = 0
    """By how much the position moved in the window."""
    waiting_ms: int = 0
    """How long records have waited and the position has stood still."""
    silent_ms: int = 0
    """How long ago the pipeline last said where it was."""


def health(series: Looks, heard_at_ms: int, now_ms: int, *, trigger_ms: int = 0) -> PartitionHealth:
    """The state of a partition. `heard_at_ms` is when the pipeline itself last told of it.

    A last sample after that has an end that was asked for since, and the position from then.
    """
    if not series:
        return PartitionHealth("unknown", "the pipeline has not told of it")
    last, window_ms = series[-1], patience_ms(series, trigger_ms)
    window = [sample for sample in series if sample.at_ms > last.at_ms - window_ms]
    moved, silent_ms = last.position - window[0].position, max(0, now_ms - heard_at_ms)
    waiting_ms = last.at_ms - waiting_since_ms(series)

    def found(verdict: Reading, reason: str) -> PartitionHealth:
        return PartitionHealth(verdict, reason, window_ms, last.lag, moved, waiting_ms, silent_ms)

    if last.position > last.end and last.at_ms > heard_at_ms:
        return found(
            "beyond", f"the position is {last.position:,} and the end {last.end:,}: the topic is another"
        )
    if last.lag == 0:
        asked = silent_ms <= window_ms or last.at_ms > heard_at_ms
        return found("ok", "nothing waits" if asked else "nothing waited when it was last heard of")
    if silent_ms > window_ms:
        return found("stopped", f"{last.lag:,} wait, and nothing was heard for {_seconds(silent_ms)}")
    if any(sample.lag == 0 for sample in window):
        return found("ok", f"nothing waited within the last {_seconds(window_ms)}")
    back = sum(max(0, before.position - after.position) for before, after in pairwise(window))
    if back > 0:
        return found("rewound", f"the position went back by {back:,}")
    if waiting_ms >= window_ms:
        return found(
            "stalled", f"{last.lag:,} wait, and the position has not moved for {_seconds(waiting_ms)}"
        )
    left = [sample.lag for sample in lows(series)[-_BATCHES:]]
    if len(left) >= _BATCHES_MIN and left[-1] > left[0] and all(a <= b for a, b in pairwise(left)):
        return found(
            "slow", f"the last {len(left)} batches left ever more: {left[0]:,} at first, {left[-1]:,} now"
        )
    if moved > 0:
        return found("ok", f"{moved:,} were read in the last {_seconds(window_ms)}")
    return found("ok", f"{last.lag:,} have waited for {_seconds(waiting_ms)}, which is not long")


def _seconds(ms: float) -> str:
    return f"{ms / 1000:,.0f} s"
