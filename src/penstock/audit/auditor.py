"""Looks at a pipeline again and again: are all records accounted for, do sinks hold what receipts say."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from penstock.audit.batches import BatchCounts, count_records, keeps, open_counts
from penstock.audit.reconcile import Continuity, Keeps, SinkCheck, check_sink, continuity
from penstock.engine.outputs import Endpoints
from penstock.engine.receipt import Receipt
from penstock.errors import ServiceError
from penstock.observe.journal import Batch, JournalReader
from penstock.observe.run import journal_file
from penstock.paths import DataDir
from penstock.spec import PipelineSpec, Sink

BUSY_SHARE = 0.03
"""Of the time, at most: an audit must not slow down what it looks at."""


@dataclass(frozen=True)
class Reconciled:
    """What one look found. Records that no receipt tells of, and rows that are not where a receipt says."""

    queries: dict[str, Continuity]
    unaccounted: int
    """Records that were read and neither decoded nor rejected."""
    sinks: tuple[SinkCheck, ...]
    problems: tuple[str, ...]

    @property
    def batches(self) -> int:
        return sum(query.batches for query in self.queries.values())

    @property
    def lost(self) -> int:
        """At the place where most are missing."""
        skipped = max((query.skipped for query in self.queries.values()), default=0)
        return skipped + max(self.unaccounted, 0) + max((sink.lost for sink in self.sinks), default=0)

    @property
    def duplicated(self) -> int:
        repeated = max((query.repeated for query in self.queries.values()), default=0)
        return repeated + max(-self.unaccounted, 0) + max((s.duplicated for s in self.sinks), default=0)


class Auditor:
    """Reads the journal and the sinks on from where it last stopped, where the store allows it."""

    def __init__(self, spec: PipelineSpec, data: DataDir, at: Endpoints, *, from_batch: int = 0) -> None:
        """Batches before `from_batch` are not looked for: a person has deleted their rows."""
        self._spec, self._at, self._from_batch = spec, at, from_batch
        self._journal = JournalReader(journal_file(data.runs / spec.name))
        self._receipts: dict[tuple[str, int], Receipt] = {}
        self._unasked: list[Receipt] = []
        self._unaccounted: dict[tuple[str, int], tuple[int, str]] = {}
        self._counts: dict[tuple[str, str], tuple[Keeps, BatchCounts]] = {}

    def look(self) -> Reconciled:
        """Receipts first, then the sinks: what a receipt tells of is there when it is written."""
        news = [entry.receipt for entry in self._journal.new() if isinstance(entry, Batch)]
        # Of a batch that ran twice the later receipt stands.
        self._receipts |= {(receipt.query, receipt.batch): receipt for receipt in news}
        self._unasked += news
        self._account()
        queries = {query: self._of(query) for query in dict.fromkeys(query for query, _ in self._receipts)}
        covered = {query: continuity(receipts) for query, receipts in queries.items()}
        sinks = tuple(
            self._check(query, receipts, sink)
            for query, receipts in queries.items()
            for sink in self._spec.sink
            if any(written.name == sink.name for written in receipts[-1].sinks)
        )
        return Reconciled(
            queries=covered,
            unaccounted=sum(count for count, _ in self._unaccounted.values()),
            sinks=sinks,
            problems=(
                *(line for query in covered.values() for line in query.problems),
                *(line for _, line in self._unaccounted.values()),
                *(line for sink in sinks for line in sink.problems),
            ),
        )

    def _of(self, query: str) -> list[Receipt]:
        return [self._receipts[place] for place in sorted(self._receipts) if place[0] == query]

    def _account(self) -> None:
        """Offsets that no row tells of may be no records: the topic itself can say."""
        while self._unasked:
            receipt = self._unasked[0]
            self._unaccounted.pop((receipt.query, receipt.batch), None)
            if receipt.unaccounted != 0:
                self._ask_topic(receipt)
            del self._unasked[0]  # not before: a topic that does not answer is asked again

    def _ask_topic(self, receipt: Receipt) -> None:
        there = count_records(self._at.kafka, self._spec.source.topic, receipt.offsets)
        told = receipt.decoded + receipt.rejected
        if there is None or there == told:
            return
        word = f"{receipt.query}: batch {receipt.batch}: {there} records were read and {told} accounted for"
        self._unaccounted[receipt.query, receipt.batch] = (there - told, word)

    def _check(self, query: str, receipts: list[Receipt], sink: Sink) -> SinkCheck:
        if (query, sink.name) not in self._counts:
            self._counts[query, sink.name] = keeps(sink, self._at), open_counts(sink, query, self._at)
        kept, counts = self._counts[query, sink.name]
        held = counts.look()
        since = max(self._from_batch, counts.whole_from)
        return check_sink(sink.name, kept, [r for r in receipts if r.batch >= since], held)

    def close(self) -> None:
        for _, counts in self._counts.values():
            counts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def looking(auditor: Auditor, every_s: float, tell: Callable[[Reconciled], None]) -> Iterator[None]:
    """Look again and again beside the body; a store that is away is passed over until the next look."""
    over = threading.Event()

    def looks() -> None:
        took_s = 0.0
        while not over.wait(max(every_s, took_s / BUSY_SHARE)):
            began = time.perf_counter()
            with suppress(ServiceError):
                tell(auditor.look())
            took_s = time.perf_counter() - began

    thread = threading.Thread(target=looks, name="audit", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
