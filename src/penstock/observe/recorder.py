"""Keeps the journal and the samples of a pipeline as it runs, and the summary of it in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from penstock.engine.receipt import Receipt
from penstock.observe.brokers import BrokerMeter
from penstock.observe.journal import Batch, Entry, JournalWriter, Lag, Note
from penstock.observe.lag.ends import TopicEnds
from penstock.observe.lag.group import GroupOffsets
from penstock.observe.latency import Latency
from penstock.observe.load import LoadMeter
from penstock.observe.run import sample_file
from penstock.observe.samplefile import SampleWriter
from penstock.observe.summary import Summary
from penstock.observe.work import work

_EVERY_S = 1.0
_BROKERS_EVERY_S = 2.0


class Recorder:
    """One run's eyes: receipts come to it, lag it asks for, each second, and tells others how far it is."""

    def __init__(
        self,
        journal: Path,
        ends: TopicEnds,
        group: GroupOffsets,
        brokers: BrokerMeter,
        query: str,
        done: dict[str, dict[int, int]],
    ) -> None:
        """`done` is how far the pipeline's queries have come, at the start; `query` is the first of them."""
        self.summary = Summary(query)
        self._journal = JournalWriter(journal)
        self._samples = SampleWriter(sample_file(journal.parent))
        self._meter: LoadMeter | None = None
        self._is_blind = False
        self._brokers = brokers
        self._gone: set[int] = set()
        self._ends = ends
        self._group = group
        self._done = dict(done)
        self._lock = threading.Lock()
        self._over = threading.Event()
        # Apart: a broker that is away is waited for by whoever asks it.
        self._threads = [
            threading.Thread(target=self._watch_lag, name="lag", daemon=True),
            threading.Thread(target=self._watch_brokers, name="brokers", daemon=True),
        ]

    def receipt(self, receipt: Receipt) -> None:
        done = {partition: end for partition, (_, end) in receipt.offsets.items()}
        self._done[receipt.query] = done
        self._group.reached(receipt.query, done)
        self._record(Batch(_now_ms(), receipt, Latency.of(receipt.latency_ms)))

    def progress(self, report: dict[str, Any]) -> None:
        """Spark's own report of a batch."""
        try:
            self._samples.write(work(report))
        # Looking on must not end what is looked at: another Spark may tell of a batch in other words.
        except (LookupError, TypeError, ValueError, OSError) as error:
            if not self._is_blind:
                self._is_blind = True
                self.note(f"batches are not sampled: {error!r}")

    def watch(self, spark: SparkSession) -> None:
        """From now on, look at what the processes of this Spark use, too."""
        self._meter = LoadMeter(spark)

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
            self._watch_load()
        self._group.close()

    def _watch_brokers(self) -> None:
        while not self._over.wait(_BROKERS_EVERY_S):
            health = self._brokers.read(_now_ms())
            if health is None:
                continue
            self._samples.write(health)
            gone = {broker.id for broker in health.brokers if not broker.alive}
            for broker in sorted(gone - self._gone):
                self.note(f"broker {broker} is gone")
            for broker in sorted(self._gone - gone):
                self.note(f"broker {broker} is back")
            self._gone = gone

    def _watch_load(self) -> None:
        if self._meter is None:
            return
        # A JVM that is gone cannot be measured, and ends the run by itself.
        with suppress(Py4JError, psutil.Error, OSError):
            self._samples.write(self._meter.read(_now_ms()))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=5)
        self._journal.close()
        self._samples.close()


def slowest(done: Sequence[dict[int, int]]) -> dict[int, int]:
    """How far all queries have come, by partition; of one that has not begun nothing is known."""
    begun = [ends for ends in done if ends]
    return {partition: min(ends.get(partition, 0) for ends in begun) for ends in begun for partition in ends}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
