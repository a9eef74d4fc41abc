"""The open-loop producer: events fall due by the clock, whether or not the broker keeps up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import numpy as np

from penstock.errors import PenstockError, ServiceError
from penstock.produce.chunk import FATE_OF_FLAW, C, Chunk, Fate, Timing
from penstock.produce.ledger import LedgerWriter, next_producer_id
from penstock.produce.outbox import Outbox
from penstock.produce.wire import Message
from penstock.produce.workload import Workload

CHUNK_S = 0.020  # events are made this often (1 ms of CPU), so they are this late at most when all is well
CHUNK_MAX = 4_000  # while catching up: 40 ms of 100,000 a second
STATS_EVERY_S = 1.0
FLUSH_MAX_S = 30.0


@dataclass(frozen=True)
class ProduceStats:
    """How a run stands. Counts are since its start; copies of repeated events count as sent."""

    elapsed_s: float = 0.0
    target_eps: float = 0.0
    achieved_eps: float = 0.0  # since the last stats; over the whole run in the final ones
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0  # includes those whose outcome the client does not know
    queued: int = 0  # sent, and neither acknowledged nor failed yet
    behind_ms: float = 0.0  # how long ago the next event was due; up to 10 ms is on time
    behind_ms_max: float = 0.0
    stalled_ms: float = 0.0  # how long nothing has been acknowledged although something is queued
    trouble: str = ""  # the client's last complaint while stalled
    sent_bytes: int = 0
    malformed: int = 0
    invalid: int = 0
    out_of_order: int = 0
    delayed: int = 0
    late: int = 0
    repeated: int = 0


@dataclass(frozen=True)
class Schedule:
    """Event k is due at start + k / rate, for `total` events or for ever."""

    start_s: float
    rate_eps: float
    total: float

    def due(self, now_s: float) -> int:
        """How many events are due by now."""
        return int(min(self.total, (now_s - self.start_s) * self.rate_eps))

    def due_at_s(self, event: int) -> float:
        return self.start_s + event / self.rate_eps

    def behind_ms(self, sent: int, now_s: float) -> float:
        return 0.0 if sent >= self.total else max(0.0, (now_s - self.due_at_s(sent)) * 1000)


def produce(
    plan: Workload[C],
    *,
    bootstrap: str,
    topic: str,
    rate_eps: float,
    seconds: float | None,
    ledger_dir: Path,
    producer_id: str,
    stop: Event,
    on_stats: Callable[[ProduceStats], None],
) -> ProduceStats:
    """Send records at `rate_eps` for `seconds` (None: until `stop`), recorded in ledger_dir/producer_id.

    When the broker is slow or away it falls behind, says so in the stats and catches up: every event
    of the schedule is sent before this returns, unless `stop` is set. `seconds` can so take longer.
    """
    if rate_eps <= 0:
        raise PenstockError(f"cannot produce {rate_eps} events a second", hint="Name a rate above zero.")
    records, encoder = plan.records(producer_id, rate_eps), plan.encoder(producer_id)
    outbox = Outbox(bootstrap, topic)
    outbox.require_topic()
    with LedgerWriter(ledger_dir / producer_id, plan, producer_id) as ledger:
        total = math.inf if seconds is None else round(rate_eps * seconds)
        schedule = Schedule(time.monotonic(), rate_eps, total)
        tally = _Tally(schedule, outbox, ledger, on_stats)
        tick = min(max(1, round(rate_eps * CHUNK_S)), CHUNK_MAX)
        while tally.sent < total and not stop.is_set():
            now_s = time.monotonic()
            n = min(schedule.due(now_s) - tally.sent, tick)
            if n >= min(tick, total - tally.sent) and outbox.room >= n:
                # What was due while this process or the broker stood still is as old as it should be.
                late_ms = schedule.behind_ms(tally.sent + n - 1, now_s)
                chunk = records.chunk(n, time.time_ns() // 1_000_000 - int(late_ms))
                messages = encoder.encode(chunk)
                outbox.send(ledger.record(chunk), messages)
                tally.add(chunk, messages)
                outbox.poll(0)
            else:
                wait_s = schedule.due_at_s(tally.sent + tick) - now_s
                outbox.poll(min(max(wait_s, 0.001), CHUNK_S))
            tally.look(now_s)
        return _finish(tally, outbox)


def send_clock_event(plan: Workload[C], *, bootstrap: str, topic: str, ts_ms: int, ledger_dir: Path) -> str:
    """Send one event by the user `clock` at `ts_ms`, to move the pipeline's event time on.

    It is recorded like any other event, as the only one of a producer whose id is returned.
    """
    producer_id = next_producer_id(ledger_dir)
    outbox = Outbox(bootstrap, topic)
    outbox.require_topic()
    with LedgerWriter(ledger_dir / producer_id, plan, producer_id) as ledger:
        chunk = plan.clock_chunk(ts_ms=ts_ms, created_ms=time.time_ns() // 1_000_000)
        outbox.send(ledger.record(chunk), plan.encoder(producer_id).encode(chunk))
        tally = _Tally(Schedule(time.monotonic(), 1, 1), outbox, ledger, on_stats=lambda _: None)
        _finish(tally, outbox)
    if outbox.acknowledged != 1:
        raise ServiceError(
            f"the clock event was not acknowledged within {FLUSH_MAX_S:.0f} s: {outbox.trouble}",
            hint="See whether the broker runs, then send it again.",
        )
    return producer_id


def _finish(tally: _Tally, outbox: Outbox) -> ProduceStats:
    """Wait for the outcomes that are still open, but not for ever."""
    give_up_s = time.monotonic() + FLUSH_MAX_S
    while outbox.queued and time.monotonic() < give_up_s:
        outbox.poll(0.05)
        tally.look(time.monotonic())
    outbox.close()
    return tally.close(time.monotonic())


class _Tally:
    """Counts what was sent, settles the ledger and reports, once a second."""

    def __init__(
        self,
        schedule: Schedule,
        outbox: Outbox,
        ledger: LedgerWriter,
        on_stats: Callable[[ProduceStats], None],
    ) -> None:
        self._schedule, self._outbox, self._ledger, self._on_stats = schedule, outbox, ledger, on_stats
        self._flaws = np.zeros(len(FATE_OF_FLAW), dtype=np.int64)
        self._timings = np.zeros(len(Timing), dtype=np.int64)
        self._bytes = 0
        self._behind_ms_max = 0.0
        self._progress_s = self._reported_s = self._sending_s = schedule.start_s
        self._last = ProduceStats(target_eps=schedule.rate_eps)
        self.sent = 0

    def add(self, chunk: Chunk, messages: list[Message]) -> None:
        self.sent += len(chunk)
        self._sending_s = time.monotonic()
        self._bytes += sum(len(message["value"]) for message in messages)
        self._flaws += np.bincount(chunk.flaw, minlength=len(self._flaws))
        self._timings += np.bincount(chunk.timing, minlength=len(self._timings))

    def look(self, now_s: float) -> None:
        behind_ms = self._schedule.behind_ms(self.sent, now_s)
        self._behind_ms_max = max(self._behind_ms_max, behind_ms)
        if now_s - self._reported_s >= STATS_EVERY_S:
            self._report(now_s, behind_ms, since_s=self._reported_s, sent_before=self._last.sent)

    def close(self, now_s: float) -> ProduceStats:
        """The last word: the rate is that of the whole run, without the wait for acknowledgements."""
        self._report(now_s, self._schedule.behind_ms(self.sent, now_s), self._schedule.start_s, sent_before=0)
        sending_s = max(self._sending_s - self._schedule.start_s, 1e-9)
        return replace(self._last, achieved_eps=self.sent / sending_s)

    def _report(self, now_s: float, behind_ms: float, since_s: float, sent_before: int) -> None:
        settled = self._outbox.settled()
        self._ledger.settle(settled.position, settled.failed, settled.unknown)
        acknowledged, queued = self._outbox.acknowledged, self._outbox.queued
        if acknowledged > self._last.acknowledged or not queued:
            self._progress_s = now_s
            self._outbox.trouble = ""
        fates = np.bincount(FATE_OF_FLAW, weights=self._flaws, minlength=len(Fate)).astype(int)
        self._last = ProduceStats(
            elapsed_s=now_s - self._schedule.start_s,
            target_eps=self._schedule.rate_eps,
            achieved_eps=(self.sent - sent_before) / max(now_s - since_s, 1e-9),
            sent=self.sent,
            acknowledged=acknowledged,
            failed=self._outbox.lost,
            queued=queued,
            behind_ms=behind_ms,
            behind_ms_max=self._behind_ms_max,
            stalled_ms=(now_s - self._progress_s) * 1000,
            trouble=self._outbox.trouble,
            sent_bytes=self._bytes,
            malformed=int(fates[Fate.MALFORMED]),
            invalid=int(fates[Fate.INVALID]),
            out_of_order=int(self._timings[Timing.OUT_OF_ORDER]),
            delayed=int(self._timings[Timing.DELAYED]),
            late=int(self._timings[Timing.LATE]),
            repeated=int(self._timings[Timing.REPEATED]),
        )
        self._reported_s = now_s
        self._on_stats(self._last)
