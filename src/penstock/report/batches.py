"""The batches of a run: how long they took, which were the slowest, and when one was long in coming."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from penstock.engine.receipt import Receipt
from penstock.observe.board.flow import phases, seen_at_ms
from penstock.observe.board.glance import SinkFacts
from penstock.observe.board.pressure import pressure
from penstock.observe.board.spread import Quantiles, Spread, Spreads
from penstock.observe.journal import Batch, Lag
from penstock.observe.samples import Work
from penstock.report.facts import BatchFigures, Gap, SlowBatch

SLOWEST = 10
_GAPS = 10
_GAP_MIN_MS = 10_000
_GAP_USUAL = 5
_KEPT_MAX = 4 * SLOWEST


class _SinkTimes:
    def __init__(self) -> None:
        self.tally = Spreads()
        self.written = 0
        self.write_ms = 0.0
        self.write_max_ms = 0.0


class Batches:
    """The fold of a run's receipts."""

    def __init__(self, facts: Mapping[str, SinkFacts]) -> None:
        self._facts = facts
        self._totals_ms = array("d")
        self._gaps_ms = array("d")
        self._long: list[Gap] = []
        self._slow: dict[tuple[str, int], tuple[Receipt, SlowBatch]] = {}
        self._main = Spreads()
        self._sinks: dict[str, _SinkTimes] = {}
        self._first_ms: int | None = None
        self._last_ms: int | None = None
        self._waits_since_ms: int | None = None
        self._waits = 0
        self._is_fresh = True
        """Whether no batch has ended since it was down: the first one takes long."""

    def lag(self, lag: Lag) -> None:
        if lag.total > 0:
            self._waits_since_ms = self._waits_since_ms or lag.at_ms
            self._waits = max(self._waits, lag.total)

    def down(self) -> None:
        """It did not run: what waited meanwhile is told elsewhere."""
        self._waits_since_ms, self._waits = None, 0
        self._is_fresh = True

    def batch(self, batch: Batch, *, is_main: bool, again: bool) -> None:
        receipt = batch.receipt
        if is_main:
            self._gap(batch.at_ms)
            self._totals_ms.append(receipt.total_ms)
            self._first_ms = self._first_ms or receipt.started_at_ms
            self._last_ms = batch.at_ms
        self._slow[(receipt.query, receipt.batch)] = (receipt, _slow(batch))
        if len(self._slow) > _KEPT_MAX:
            kept = heapq.nlargest(SLOWEST, self._slow.items(), key=lambda item: item[1][1].total_ms)
            # Spark tells of a batch after its end: the newest may still become one of the slowest.
            newest = list(self._slow.items())[-SLOWEST:]
            self._slow = dict([*kept, *newest])
        if not again:
            self._add(batch, is_main)

    def _gap(self, at_ms: int) -> None:
        since_ms, self._waits_since_ms = self._waits_since_ms, None
        is_fresh, self._is_fresh = self._is_fresh, False
        if since_ms is not None and not is_fresh:
            self._gaps_ms.append(at_ms - since_ms)
            if at_ms - since_ms >= _GAP_MIN_MS:
                self._long.append(Gap(since_ms, at_ms, self._waits))
                self._long = heapq.nlargest(_GAPS, self._long, key=lambda gap: gap.to_ms - gap.from_ms)
        self._waits = 0

    def _add(self, batch: Batch, is_main: bool) -> None:
        spread, first_ms = Spread.of(batch.latency), seen_at_ms(batch.receipt, self._facts)
        if is_main:
            self._main.add(spread)
        for sink in batch.receipt.sinks:
            times = self._sinks.setdefault(sink.name, _SinkTimes())
            times.tally.add(spread.shifted(sink.visible_at_ms - first_ms))
            times.written += 1
            times.write_ms += sink.write_ms
            times.write_max_ms = max(times.write_max_ms, sink.write_ms)

    def work(self, work: Work) -> None:
        """Spark's own account of a batch."""
        found = self._slow.get((work.query, work.batch))
        if found is None:
            return
        receipt, slow = found
        told = pressure(receipt, work, slow.at_ms)
        stages = {one.stage: one.busy_ms for one in told.stages}
        slow = replace(slow, phases=phases(receipt, work), stages=stages)
        self._slow[(work.query, work.batch)] = (receipt, slow)

    def figures(self) -> BatchFigures:
        slowest = heapq.nlargest(SLOWEST, (slow for _, slow in self._slow.values()), key=lambda s: s.total_ms)
        usual_ms = float(np.median(self._gaps_ms)) if self._gaps_ms else None
        least_ms = max(_GAP_MIN_MS, _GAP_USUAL * (usual_ms or 0))
        return BatchFigures(
            median_ms=float(np.median(self._totals_ms)) if self._totals_ms else None,
            slowest=tuple(slowest),
            usual_gap_ms=usual_ms,
            gaps=tuple(gap for gap in self._long if gap.to_ms - gap.from_ms >= least_ms),
            first_ms=self._first_ms,
            last_ms=self._last_ms,
        )

    def quantiles(self) -> Quantiles | None:
        """Of results where they are seen first."""
        return self._main.quantiles()

    def sink(self, name: str) -> tuple[float, float, Quantiles | None]:
        """A sink's mean and longest time of writing, and its latencies."""
        times = self._sinks.get(name)
        if times is None:
            return 0.0, 0.0, None
        return times.write_ms / max(1, times.written), times.write_max_ms, times.tally.quantiles()


def _slow(batch: Batch) -> SlowBatch:
    receipt = batch.receipt
    slowest = max(receipt.sinks, key=lambda sink: sink.write_ms, default=None)
    return SlowBatch(
        query=receipt.query,
        batch=receipt.batch,
        at_ms=batch.at_ms,
        records=receipt.records,
        total_ms=receipt.total_ms,
        phases=phases(receipt, None),
        slowest_sink=slowest.name if slowest else "",
        slowest_sink_ms=slowest.write_ms if slowest else 0.0,
        stages={},
    )
