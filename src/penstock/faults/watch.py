"""The journal of a pipeline under trial, watched as it grows."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.observe.journal import Batch, Entry, JournalReader, Lag, Note
from penstock.observe.summary import Summary

_INSTANT_S = 0.001
_QUIET_S = 4.0
"""How long nothing may happen, with no lag left, until all that can close counts as closed."""


@dataclass(frozen=True)
class Place:
    """A batch of a query."""

    query: str
    batch: int


class Watch:
    """Reads a journal from its present end on."""

    def __init__(self, journal: Path, query: str) -> None:
        self._journal = journal
        self._reader = JournalReader(journal, from_end=True)
        self.summary = Summary(query)

    def new(self) -> Iterator[Entry]:
        for entry in self._reader.new():
            self.summary.feed(entry)
            yield entry

    def batches(self) -> list[Batch]:
        """Those since the last look."""
        return [entry for entry in self.new() if isinstance(entry, Batch)]

    def notes(self) -> list[str]:
        return [entry.text for entry in self.new() if isinstance(entry, Note)]

    def instant_of_receipt(self, within_s: float) -> Place | None:
        """Return at the moment at which a batch's receipt is written: all sinks hold it, Spark not yet.

        The line is looked for as bytes: to parse it takes longer than Spark needs for its commit.
        """
        at = self._journal.stat().st_size if self._journal.exists() else 0
        deadline_s = time.monotonic() + within_s
        while time.monotonic() < deadline_s:
            time.sleep(_INSTANT_S)
            if not self._journal.exists() or self._journal.stat().st_size == at:
                continue
            with self._journal.open("rb") as file:
                file.seek(at)
                whole = file.read().rpartition(b"\n")[0]
            if b'"what":"batch"' in whole:
                return _last_place(whole)
            at += len(whole) + 1 if whole else 0
        return None

    def is_drained(self) -> bool:
        """Whether nothing is left to read, and nothing has happened for a while."""
        for _ in self.new():
            pass
        summary = self.summary
        quiet_s = max(_QUIET_S, 2 * summary.last_batch_ms / 1000)
        idle_s = time.time() - summary.last_batch_at_ms / 1000
        lag: Lag | None = summary.lag
        return (
            lag is not None and lag.at_ms > summary.last_batch_at_ms and lag.total == 0 and idle_s > quiet_s
        )


def _last_place(lines: bytes) -> Place:
    line = next(line for line in reversed(lines.splitlines()) if b'"what":"batch"' in line)
    receipt = json.loads(line)["receipt"]
    return Place(receipt["query"], receipt["batch"])
