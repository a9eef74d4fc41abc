"""Keeps the journal of a pipeline as it runs, and the summary of it in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.engine.receipt import Receipt
from penstock.observe.group import GroupOffsets
from penstock.observe.journal import Batch, Entry, JournalWriter, Lag, Note
from penstock.observe.lag import TopicEnds
from penstock.observe.latency import Latency
from penstock.observe.summary import Summary

_EVERY_S = 1.0


class Recorder:
    """One run's eyes: receipts come to it, lag it asks for, each second, and tells others how far it is."""

    def __init__(
        self, journal: Path, ends: TopicEnds, group: GroupOffsets, query: str, done: dict[str, dict[int, int]]
    ) -> None:
        """`done` is how far the pipeline's queries have come, at the start; `query` is the first of them."""
        self.summary = Summary(query)
        self._journal = JournalWriter(journal)
        self._ends = ends
        self._group = group
        self._done = dict(done)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch_lag, name="lag", daemon=True)

    def receipt(self, receipt: Receipt) -> None:
        done = {partition: end for partition, (_, end) in receipt.offsets.items()}
        self._done[receipt.query] = done
        self._group.reached(receipt.query, done)
        self._record(Batch(_now_ms(), receipt, Latency.of(receipt.latency_ms)))

    def note(self, text: str) -> None:
        self._record(Note(_now_ms(), text))

    def _record(self, entry: Entry) -> None:
        with self._lock:
            self._journal.write(entry)
            self.summary.feed(entry)

    def _watch_lag(self) -> None:
        while not self._over.wait(_EVERY_S):
            ends = self._ends.read()
            if ends is not None:
                self._record(Lag(_now_ms(), ends, slowest(list(self._done.values()))))
            self._group.publish()
        self._group.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(timeout=5)
        self._journal.close()


def slowest(done: Sequence[dict[int, int]]) -> dict[int, int]:
    """How far all queries have come, by partition; of one that has not begun nothing is known."""
    begun = [ends for ends in done if ends]
    return {partition: min(ends.get(partition, 0) for ends in begun) for ends in begun for partition in ends}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
