"""What a pipeline has done since counting began: Prometheus' counters and histograms.

Counting begins at 0 with the process that shows the counts, as Prometheus expects it. Were it to begin with
what the journal still tells of the time before, each new process would look like a burst of all that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.engine.receipt import Receipt
from penstock.observe.board.board import note_kind
from penstock.observe.board.flow import phases, same_batch, seen_at_ms
from penstock.observe.board.glance import SinkFacts
from penstock.observe.board.spread import Spread
from penstock.observe.journal import Batch, Lag, Note
from penstock.observe.prometheus import metrics as m
from penstock.observe.prometheus.histogram import LATENCY_BOUNDS_S, WORK_BOUNDS_S, Histogram
from penstock.observe.prometheus.metrics import Metric
from penstock.observe.run import Seen
from penstock.observe.samples import Load, ProcessLoad, Work

Labels = tuple[str, ...]
"""Their values, without the pipeline's."""

_BOUNDS_S = {m.LATENCY: LATENCY_BOUNDS_S, m.BATCH: WORK_BOUNDS_S, m.SINK_WRITE: WORK_BOUNDS_S}
_SET_ASIDE = {"rejected": "rejected", "late": "late", "duplicate": "duplicates", "refused": "refused"}
_SPANS = ("opened", "closed", "corrected", "merged")


@dataclass(frozen=True)
class Summary:
    """How often, and how long in all."""

    count: int = 0
    sum_s: float = 0.0


class Tally:
    """The counts of one pipeline."""

    def __init__(self, pipeline: str, sinks: Sequence[SinkFacts] = (), since_ms: int = 0) -> None:
        """What was before `since_ms` is not counted, but a batch of then may come again."""
        self.counts: dict[tuple[Metric, Labels], float] = {}
        self.histograms: dict[tuple[Metric, Labels], Histogram] = {}
        self.summaries: dict[tuple[Metric, Labels], Summary] = {}
        self._pipeline = pipeline
        self._facts: Mapping[str, SinkFacts] = {sink.name: sink for sink in sinks}
        self._since_ms = since_ms
        self._last: dict[str, Receipt] = {}
        self._ends: dict[int, int] = {}
        self._processes: dict[str, ProcessLoad] = {}
        self._begin(sinks)

    def _begin(self, sinks: Sequence[SinkFacts]) -> None:
        """A count that appears with its first event has not risen, to Prometheus: all are there at 0."""
        for metric in (m.FAILED, m.SERVICE_WAITS, m.RECORDS_IN, m.RECORDS_READ, m.RECORDS_DECODED):
            self._add(metric, 0)
        for kind in _SET_ASIDE:
            self._add(m.SET_ASIDE, 0, kind)
        for sink in sinks:
            self._begin_sink(sink.name)

    def _begin_sink(self, name: str) -> None:
        for metric in (m.SINK_ROWS, m.SINK_REFUSED, m.SINK_REPLAYS):
            self._add(metric, 0, name)
        for metric in (m.SINK_WRITE, m.LATENCY):
            self._histogram(metric, name)

    def feed(self, seen: Seen) -> None:
        if seen.at_ms < self._since_ms:
            if isinstance(seen, Batch):
                self._last[seen.receipt.query] = seen.receipt
            return
        match seen:
            case Batch():
                again = same_batch(self._last.get(seen.receipt.query), seen.receipt)
                self._last[seen.receipt.query] = seen.receipt
                self._count_batch(seen, again)
            case Lag():
                added = sum(max(0, end - self._ends.get(p, end)) for p, end in seen.ends.items())
                self._ends = seen.ends
                self._add(m.RECORDS_IN, added)
            case Note():
                self._count_note(seen)
            case Work():
                self._count_work(seen)
            case Load():
                before, self._processes = self._processes, {one.name: one for one in seen.processes}
                self._count_load(before)
            case _:
                pass

    def _count_batch(self, batch: Batch, again: bool) -> None:
        receipt = batch.receipt
        self._add(m.BATCHES, 1, receipt.query)
        self._histogram(m.BATCH, receipt.query).add(receipt.total_ms)
        self._count_phases(receipt.query, phases(receipt, None))
        for sink in receipt.sinks:
            self._begin_sink(sink.name)
            self._add(m.SINK_REPLAYS, sink.replayed, sink.name)
            self._histogram(m.SINK_WRITE, sink.name).add(sink.write_ms)
        if not again:
            # A batch that came again after a crash has a second receipt: what is in it was counted.
            self._count_content(batch)

    def _count_content(self, batch: Batch) -> None:
        receipt = batch.receipt
        spread, seen_ms = Spread.of(batch.latency), seen_at_ms(receipt, self._facts)
        for sink in receipt.sinks:
            self._add(m.SINK_ROWS, sink.rows - sink.refused, sink.name)
            self._add(m.SINK_REFUSED, sink.refused, sink.name)
            self._histogram(m.LATENCY, sink.name).add_all(spread.shifted(sink.visible_at_ms - seen_ms))
        # Each query reads the whole topic: records are those of the first, which bears the pipeline's name.
        if receipt.query != self._pipeline:
            return
        self._add(m.RECORDS_READ, receipt.records)
        self._add(m.RECORDS_DECODED, receipt.decoded)
        for kind, field in _SET_ASIDE.items():
            self._add(m.SET_ASIDE, getattr(receipt, field), kind)
        for kind in _SPANS:
            self._add(m.SPANS, getattr(receipt, kind), kind)

    def _count_note(self, note: Note) -> None:
        kind, _ = note_kind(note.text)
        self._add(m.FAILED, kind == "failed")
        self._add(m.SERVICE_WAITS, kind == "away")

    def _count_work(self, work: Work) -> None:
        spent = {"offsets": work.offsets_ms, "planning": work.planning_ms, "log": work.log_ms}
        self._count_phases(work.query, {**spent, "commit": work.commit_ms})
        if work.state is not None:
            self._add(m.STATE_UPDATED, work.state.rows_updated)
            self._add(m.STATE_REMOVED, work.state.rows_removed)
            self._add(m.CHECKPOINT_BYTES, work.state.checkpoint_bytes)

    def _count_phases(self, query: str, spent_ms: Mapping[str, float]) -> None:
        for phase, ms in spent_ms.items():
            key = (m.BATCH_PHASE, (query, phase))
            before = self.summaries.get(key, Summary())
            self.summaries[key] = Summary(before.count + 1, before.sum_s + ms / 1000)

    def _count_load(self, before: Mapping[str, ProcessLoad]) -> None:
        """What each process used since the last look; one that is smaller than before is a new one."""
        for name, now in self._processes.items():
            then = before.get(name, now)
            self._add(m.CPU, max(0.0, now.cpu_s - then.cpu_s), process_of(name))
            self._add(m.GC, max(0, now.gc_ms - then.gc_ms) / 1000, process_of(name))

    def _add(self, metric: Metric, amount: float, *labels: str) -> None:
        self.counts[metric, labels] = self.counts.get((metric, labels), 0) + amount

    def _histogram(self, metric: Metric, *labels: str) -> Histogram:
        key = (metric, labels)
        if key not in self.histograms:
            self.histograms[key] = Histogram(_BOUNDS_S[metric])
        return self.histograms[key]


def process_of(name: str) -> str:
    """Executors come and go under ever new numbers: they are told of together."""
    return "executors" if name.startswith("executor ") else name
