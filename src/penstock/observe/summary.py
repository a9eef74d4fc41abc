"""The state of a pipeline at a glance, folded from its journal. Time is what the entries say."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from penstock.observe.journal import Batch, Entry, Lag, Note
from penstock.observe.latency import Latency, Percentiles

WINDOW_MS = 10_000
"""Rates and recent percentiles are of this long."""


@dataclass
class Summary:
    """Totals since the journal began to be read, and a window of what happened last.

    Of a pipeline with several queries, each of which reads the topic, the records are those of `query`.
    One thread may look while another feeds: what changes is copied before it is gone through.
    """

    query: str
    decoded: int = 0
    rejected: int = 0
    late: int = 0
    opened: int = 0
    closed: int = 0
    corrected: int = 0
    merged: int = 0
    batches: int = 0
    last_batch_ms: float = 0.0
    last_batch_at_ms: int = 0
    last_note: str = ""
    lag: Lag | None = None
    latency: Latency = field(default_factory=Latency)
    _recent_batches: deque[Batch] = field(default_factory=deque)
    _recent_lags: deque[Lag] = field(default_factory=deque)

    def feed(self, entry: Entry) -> None:
        match entry:
            case Batch():
                self._feed_batch(entry)
            case Lag():
                self.lag = entry
                self._recent_lags.append(entry)
            case Note():
                self.last_note = entry.text
        # Every entry moves the window, so that a pipeline that stands still is not shown at its last rate.
        for recent in (self._recent_batches, self._recent_lags):
            while recent and recent[0].at_ms < entry.at_ms - WINDOW_MS:
                recent.popleft()

    def _feed_batch(self, batch: Batch) -> None:
        receipt = batch.receipt
        self.latency.add(batch.latency)
        if receipt.query != self.query:
            return
        self.decoded += receipt.decoded
        self.rejected += receipt.rejected
        self.late += receipt.late
        self.opened += receipt.opened
        self.closed += receipt.closed
        self.corrected += receipt.corrected
        self.merged += receipt.merged
        self.batches += 1
        self.last_batch_ms = receipt.total_ms
        self.last_batch_at_ms = batch.at_ms
        self._recent_batches.append(batch)

    @property
    def rate_in_eps(self) -> float:
        """Records that producers added a second."""
        recent = tuple(self._recent_lags)
        if len(recent) < 2:
            return 0.0
        first, last = recent[0], recent[-1]
        added = sum(last.ends.values()) - sum(first.ends.values())
        return added * 1000 / max(1, last.at_ms - first.at_ms)

    @property
    def rate_out_eps(self) -> float:
        """Records whose results became visible a second."""
        recent = tuple(self._recent_batches)
        if len(recent) < 2:
            return 0.0
        first, last = recent[0], recent[-1]
        records = sum(batch.receipt.records for batch in recent) - first.receipt.records
        return records * 1000 / max(1, last.at_ms - first.at_ms)

    @property
    def recent_latency(self) -> Percentiles:
        recent = Latency()
        for batch in tuple(self._recent_batches):
            recent.add(batch.latency)
        return recent.percentiles()

    @property
    def sessions_open(self) -> int:
        return max(0, self.opened - self.closed - self.merged)
