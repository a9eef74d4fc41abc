"""The newest part of what a pipeline's journal tells of its lag, read on as it grows."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from penstock.observe.journal import Batch, JournalReader, Lag
from penstock.observe.recorder import slowest

_READ_BYTES = 4_000_000
"""Some 40 minutes of batches that take a second."""
_LAGS_MAX = 7_200


class LagHistory:
    """Lag as the pipeline told of it."""

    def __init__(self, journal: Path) -> None:
        self._journal = JournalReader.tail(journal, _READ_BYTES)
        self._lags: deque[Lag] = deque(maxlen=_LAGS_MAX)
        self._reached: dict[str, dict[int, int]] = {}
        self._batch_at_ms: int | None = None
        """Of a batch that is newer than the last entry of lag."""

    def read(self) -> list[Lag]:
        """All that is known, the oldest first; the last one counts the batches that ended since."""
        for entry in self._journal.new():
            match entry:
                case Lag():
                    self._lags.append(entry)
                    self._batch_at_ms = None
                case Batch(at_ms, receipt):
                    self._reached[receipt.query] = {p: end for p, (_, end) in receipt.offsets.items()}
                    self._batch_at_ms = at_ms
                case _:
                    pass
        return [*self._lags, *self._behind()]

    def _behind(self) -> list[Lag]:
        if self._batch_at_ms is None:
            return []
        done = slowest(list(self._reached.values()))
        if not self._lags:
            return [Lag(self._batch_at_ms, done, done)]
        last = self._lags[-1]
        return [Lag(max(self._batch_at_ms, last.at_ms), last.ends, done)]
