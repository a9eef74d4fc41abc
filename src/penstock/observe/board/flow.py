"""One query of a pipeline, batch by batch: its records, its sinks, where its time goes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.engine.receipt import Receipt, SinkReceipt
from penstock.observe.board.glance import (
    BatchGlance,
    FlowGlance,
    SinkFacts,
    SinkGlance,
    StageGlance,
    StateGlance,
)
from penstock.observe.board.pressure import SATURATED, STAGES, Pressure, Stage, pressure
from penstock.observe.board.spread import Spread
from penstock.observe.journal import Batch
from penstock.observe.samples import Work

WINDOW_MS = 10_000
"""Rates, shares and percentiles are of this long; of the last batch where it took longer."""
_WAIT_MS = 5_000
_AWAITED_MAX = 32
"""Batches that wait for Spark's account of them."""


@dataclass(frozen=True)
class Cycle:
    """What is kept of a batch for as long as it is recent."""

    at_ms: int
    cycle_ms: float
    """Since the batch before it."""
    receipt: Receipt
    spread: Spread


@dataclass(frozen=True)
class _Accounted:
    """A batch of which Spark has told how it spent it."""

    at_ms: int
    pressure: Pressure
    work: Work
    receipt: Receipt


@dataclass
class _SinkTotals:
    rows: int = 0
    replays: int = 0
    refused: int = 0
    visible_at_ms: int = 0


@dataclass
class Flow:
    """The fold of one query."""

    query: str
    facts: Mapping[str, SinkFacts]
    last: Receipt | None = None
    work: Work | None = None
    _grouped: bool = False
    _last_end_ms: int = 0
    _cycles: deque[Cycle] = field(default_factory=deque)
    _accounted: deque[_Accounted] = field(default_factory=deque)
    _awaited: dict[int, tuple[Receipt, int]] = field(default_factory=dict)
    _sinks: dict[str, _SinkTotals] = field(default_factory=dict)

    def holds(self, receipt: Receipt) -> bool:
        """Whether this is the batch that was told of last."""
        return same_batch(self.last, receipt)

    def feed_batch(self, batch: Batch) -> Cycle:
        again = self.holds(batch.receipt)
        # A pause before it counts for no longer than the window: after a quiet night a rate is not near 0.
        started_ms = batch.receipt.started_at_ms
        began_ms = max(self._last_end_ms, started_ms - WINDOW_MS) if self._last_end_ms else started_ms
        cycle_ms = float(max(1, batch.at_ms - began_ms, batch.receipt.total_ms))
        self._awaited[batch.receipt.batch] = (batch.receipt, began_ms)
        while len(self._awaited) > _AWAITED_MAX:
            del self._awaited[next(iter(self._awaited))]
        self.last, self._last_end_ms = batch.receipt, batch.at_ms
        cycle = Cycle(batch.at_ms, cycle_ms, batch.receipt, Spread.of(batch.latency))
        self._cycles.append(cycle)
        self._grouped = self._grouped or batch.receipt.opened > 0 or self._is_grouped(batch.receipt)
        for sink in batch.receipt.sinks:
            self._count(sink, again)
        return cycle

    def _is_grouped(self, receipt: Receipt) -> bool:
        """Whether a sink gets rows of sessions or windows."""
        facts = [self.facts[sink.name] for sink in receipt.sinks if sink.name in self.facts]
        return any({"live", "final"} & set(one.rows) for one in facts)

    def _count(self, sink: SinkReceipt, again: bool) -> None:
        totals = self._sinks.setdefault(sink.name, _SinkTotals())
        totals.replays += sink.replayed
        totals.visible_at_ms = sink.visible_at_ms
        if not again:
            totals.rows += sink.rows - sink.refused
            totals.refused += sink.refused

    def feed_work(self, work: Work) -> Pressure | None:
        """Take in Spark's account of a batch; None if the batch itself is not known."""
        self.work = work
        self._grouped = self._grouped or work.state is not None
        found = self._awaited.pop(work.batch, None)
        if found is None:
            return None
        receipt, began_ms = found
        told = pressure(receipt, work, began_ms)
        self._accounted.append(_Accounted(work.at_ms, told, work, receipt))
        return told

    def forget(self, now_ms: int) -> None:
        """Let go of what is no longer recent."""
        for recent in (self._cycles, self._accounted):
            while len(recent) > 1 and recent[0].at_ms < now_ms - WINDOW_MS:
                recent.popleft()

    def rate_eps(self, now_ms: int) -> float:
        return self._per_second([cycle.receipt.records for cycle in self._cycles], now_ms)

    def _per_second(self, counts: Sequence[int], now_ms: int) -> float:
        """What came a second; a pipeline that stands still is not shown at its last rate."""
        if self._stands(now_ms):
            return 0.0
        first, last = self._cycles[0], self._cycles[-1]
        return sum(counts) * 1000 / (last.at_ms - first.at_ms + first.cycle_ms)

    def _stands(self, now_ms: int) -> bool:
        """Whether the next batch is long overdue."""
        if not self._cycles:
            return True
        last = self._cycles[-1]
        return now_ms - last.at_ms > max(WINDOW_MS, 2 * last.cycle_ms)

    @property
    def spread(self) -> Spread:
        return Spread.merged(cycle.spread for cycle in self._cycles)

    def batch_glance(self) -> BatchGlance | None:
        receipt = self.last
        if receipt is None:
            return None
        work = self.work if self.work and self.work.batch == receipt.batch else None
        return BatchGlance(
            receipt.batch, self._last_end_ms, receipt.records, receipt.total_ms, phases(receipt, work)
        )

    def glance(self, now_ms: int, waited_ms: int) -> FlowGlance:
        """`waited_ms` is the age of the oldest record in the topic.

        With no pause between batches a query is always busy: it is at its limit only where records wait for
        longer than it takes to come to them.
        """
        cycle_ms = sum(told.pressure.cycle_ms for told in self._accounted)
        stages = tuple(self._stage(stage, cycle_ms, now_ms) for stage in STAGES)
        if self._accounted:
            busy = sum(told.pressure.busy * told.pressure.cycle_ms for told in self._accounted) / cycle_ms
        else:
            whole_ms = sum(cycle.cycle_ms for cycle in self._cycles) or 1.0
            busy = sum(cycle.receipt.total_ms for cycle in self._cycles) / whole_ms
        busy *= not self._stands(now_ms)
        batches = max(1, len(self._accounted) or len(self._cycles))
        each_ms = (cycle_ms or sum(cycle.cycle_ms for cycle in self._cycles)) / batches
        pressed = busy >= SATURATED and waited_ms > max(_WAIT_MS, 3 * each_ms)
        origin = max(stages, key=lambda stage: stage.busy or 0.0).stage if pressed and cycle_ms else None
        return FlowGlance(self.query, each_ms, min(1.0, busy), origin, stages, self._grouped)

    def _stage(self, stage: Stage, cycle_ms: float, now_ms: int) -> StageGlance:
        counts = [_through(stage, cycle.receipt) for cycle in self._cycles]
        if self._accounted:
            runs = not self._stands(now_ms)
            told = [_through(stage, one.receipt) for one in self._accounted]
            busy_ms = sum(_busy_ms(one.pressure, stage) for one in self._accounted)
            rate = sum(told) * 1000 / cycle_ms
            capacity = sum(told) * 1000 / busy_ms if busy_ms and stage != "engine" else None
            return StageGlance(stage, rate * runs, busy_ms / cycle_ms * runs, capacity, sum(told) / len(told))
        known = stage in ("source", "decode", "sink")
        rate_eps = self._per_second(counts, now_ms) if known else None
        return StageGlance(
            stage, rate_eps, None, None, sum(counts) / len(counts) if known and counts else None
        )

    def state(self) -> StateGlance | None:
        work = self.work
        if work is None or work.state is None:
            return None
        state = work.state
        return StateGlance(
            state.memory_bytes, state.disk_bytes, state.rows_updated, state.rows_removed, work.commit_ms,
            state.checkpoint_bytes, work.watermark_ms,
        )  # fmt: skip

    def sinks(self, now_ms: int) -> tuple[SinkGlance, ...]:
        return tuple(self._sink(name, totals, now_ms) for name, totals in self._sinks.items())

    def _sink(self, name: str, totals: _SinkTotals, now_ms: int) -> SinkGlance:
        written = [
            (cycle, sink) for cycle in self._cycles for sink in cycle.receipt.sinks if sink.name == name
        ]
        times = [sink.write_ms for _, sink in written]
        shifted = [
            cycle.spread.shifted(sink.visible_at_ms - seen_at_ms(cycle.receipt, self.facts))
            for cycle, sink in written
        ]
        return SinkGlance(
            name=name,
            query=self.query,
            facts=self.facts.get(name),
            rows=totals.rows,
            rate_eps=self._per_second([sink.rows for _, sink in written], now_ms),
            write_ms=sum(times) / len(times) if times else 0.0,
            write_max_ms=max(times, default=0.0),
            replays=totals.replays,
            refused=totals.refused,
            visible_at_ms=totals.visible_at_ms,
            quantiles=Spread.merged(shifted).quantiles(),
        )


def same_batch(one: Receipt | None, other: Receipt) -> bool:
    """Whether two receipts of a query are of one batch, which came again after a crash."""
    return one is not None and (one.batch, one.offsets) == (other.batch, other.offsets)


def seen_at_ms(receipt: Receipt, facts: Mapping[str, SinkFacts]) -> int:
    """The moment that the latencies of a batch are of: that of live rows, or of the slowest sink."""
    live = [
        sink.visible_at_ms for sink in receipt.sinks if sink.name in facts and "live" in facts[sink.name].rows
    ]
    return max(live or [sink.visible_at_ms for sink in receipt.sinks], default=0)


def phases(receipt: Receipt, work: Work | None) -> dict[str, float]:
    """The milliseconds of a batch, in order; only what a receipt tells where Spark has not told yet."""
    sinks_ms = max(0.0, receipt.total_ms - receipt.compute_ms)
    if work is None:
        return {"compute": receipt.compute_ms, "sinks": sinks_ms}
    return {
        "offsets": work.offsets_ms,
        "planning": work.planning_ms,
        "log": work.log_ms,
        "compute": receipt.compute_ms,
        "sinks": sinks_ms,
        "commit": work.commit_ms,
    }


def _busy_ms(told: Pressure, stage: Stage) -> float:
    return next(one.busy_ms for one in told.stages if one.stage == stage)


def _through(stage: Stage, receipt: Receipt) -> int:
    """What a batch brings to a stage: records, at the end rows."""
    return sum(sink.rows for sink in receipt.sinks) if stage == "sink" else receipt.records
