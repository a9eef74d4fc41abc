"""A run as a pipeline would have written it: made up, but by its own arithmetic, the same each time.

It starts, runs easily, gets more than it can do, catches up, loses Kafka for a while, and goes on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from penstock.engine.receipt import Receipt, SinkReceipt
from penstock.observe.journal import Batch, JournalWriter, Lag, Note
from penstock.observe.latency import Latency
from penstock.observe.run import Seen, journal_file, sample_file
from penstock.observe.samplefile import SampleWriter
from penstock.observe.samples import (
    AuditVerdict,
    BrokerHealth,
    KafkaHealth,
    Load,
    ProcessLoad,
    SinkVerdict,
    StageWork,
    StateWork,
    Work,
)

Offsets = dict[int, tuple[int, int]]
START_MS = 1_790_000_000_000
PARTITIONS = 8
CAPACITY_EPS = 21_000
READY_S = 12
BURST_S = (300, 480)
AWAY_S = (720, 745)
SINKS = ("sessions", "sessions_live", "sessions_table", "dead-letters")


@dataclass
class Run:
    """The pipeline and its topic, second by second."""

    seconds: int = 900
    seed: int = 7
    name: str = "clickstream"
    start_ms: int = START_MS
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._ends = [0.0] * PARTITIONS
        self._done = [0] * PARTITIONS
        self._batch = 0
        self._next_ms = 0
        self._under_way: tuple[int, int, Offsets, int] | None = None
        self._sessions = 0
        self._cpu_s = 0.0
        self._gc_ms = 0.0

    def entries(self) -> list[Seen]:
        found: list[Seen] = [Note(self.start_ms, "starting Spark ...")]
        for second in range(1, self.seconds):
            found += self._second(second)
        return sorted(found, key=lambda entry: entry.at_ms)

    def rate_eps(self, second: float) -> float:
        usual = 9_000 + 2_500 * math.sin(second / 70) + self._random.gauss(0, 250)
        return usual + (21_000 if BURST_S[0] <= second < BURST_S[1] else 0)

    def _second(self, second: int) -> Iterator[Seen]:
        at_ms = self.start_ms + second * 1000
        if second == READY_S:
            yield Note(at_ms, "running")
        if second == 200:
            yield Note(at_ms, "lookup users: version 6af1f4fcfb96 from the next batch on")
        away = AWAY_S[0] <= second < AWAY_S[1]
        if second == AWAY_S[0]:
            yield Note(at_ms, "Kafka at 127.0.0.1:19092 away; waiting")
        if second == AWAY_S[1]:
            waited = f"back after {AWAY_S[1] - AWAY_S[0]} s; going on from the checkpoint"
            yield Note(at_ms, f"Kafka at 127.0.0.1:19092 {waited}")
        if second > READY_S and not away:
            rate = self.rate_eps(second)
            for partition in range(PARTITIONS):
                self._ends[partition] += rate / PARTITIONS * (1.25 if partition == 3 else 0.964)
            yield from self._batches(at_ms)
        if not away:
            ends = {partition: int(end) for partition, end in enumerate(self._ends)}
            yield Lag(at_ms, ends, dict(enumerate(self._done)))
        if second % 2 == 0:
            yield self._load(at_ms)
        if second % 5 == 0:
            yield _health(at_ms, down=away)
        if second % 30 == 0:
            sinks = tuple(SinkVerdict(name, 0, 0) for name in SINKS)
            yield AuditVerdict(at_ms, 0, 0, self._batch, sinks, ())

    def _batches(self, until_ms: int) -> Iterator[Seen]:
        """Batches that end in this second; one begins each second, or when the one before is over."""
        while True:
            if self._under_way is None:
                waiting = int(sum(self._ends)) - sum(self._done)
                records = min(waiting, 40_000)
                if records <= 0 or self._next_ms > until_ms:
                    return
                began_ms = max(self._next_ms, until_ms - 1000)
                took_ms = round(140 + records * 1000 / CAPACITY_EPS * self._random.uniform(0.95, 1.05))
                self._under_way = (began_ms, took_ms, self._taken(records / waiting), waiting)
                self._next_ms = began_ms + max(1000, took_ms + 80)
            began_ms, took_ms, offsets, waiting = self._under_way
            if began_ms + took_ms > until_ms:
                return
            self._under_way = None
            yield from self._run(began_ms, took_ms, offsets, waiting)

    def _taken(self, share: float) -> Offsets:
        waiting = [int(end) - done for end, done in zip(self._ends, self._done, strict=True)]
        return {p: (self._done[p], self._done[p] + round(waits * share)) for p, waits in enumerate(waiting)}

    def _run(self, began_ms: int, took_ms: int, offsets: Offsets, waiting: int) -> Iterator[Seen]:
        self._done = [offsets[partition][1] for partition in range(PARTITIONS)]
        records = sum(end - start for start, end in offsets.values())
        rejected, late = round(records * 0.007), round(records * 0.001)
        opened = round(records * 0.05)
        closed = round(self._sessions * 0.012)
        self._sessions += opened - closed
        ended_ms, compute_ms = began_ms + took_ms, took_ms * 0.72
        rows = (closed, round(records * 0.83), closed, rejected + late)
        writes = (0.06, 0.2, 0.1, 0.08)
        sinks = tuple(
            SinkReceipt(
                name, count, "00ff", False, took_ms * share, round(began_ms + compute_ms + took_ms * share)
            )
            for name, count, share in zip(SINKS, rows, writes, strict=True)
        )
        behind_ms = waiting / CAPACITY_EPS * 1000
        spread = [self._random.lognormvariate(0, 0.22) for _ in range(60)]
        counts = tuple(
            (round(took_ms + 120 + behind_ms * one * 0.8), max(1, records // 60)) for one in spread
        )
        receipt = Receipt(
            self.name, self._batch, offsets, records - rejected, rejected, late, 0, opened, closed,
            round(closed * 0.02), round(opened * 0.004), sinks, began_ms, compute_ms, took_ms,
            versions={"users": "6af1f4fcfb96", "catalogue": "f47d573a900a"},
        )  # fmt: skip
        yield Batch(ended_ms, receipt, Latency.of(counts))
        yield self._work(ended_ms + 20, took_ms, records)
        self._batch += 1

    def _work(self, at_ms: int, took_ms: int, records: int) -> Work:
        run_ms = took_ms * 0.72
        read = _stage(0, run_ms * 0.38, records, moved=0.1)
        fold = _stage(1, run_ms * 0.55, round(records * 0.4), moved=0.12)
        state = StateWork(
            round(records * 0.4), round(records * 0.05), 180_000_000 + self._sessions * 90,
            60_000_000 + self._batch * 9_000, round(run_ms * 0.3), 12, 30, 400_000 + records * 22,
        )  # fmt: skip
        return Work(
            at_ms,
            self.name,
            self._batch,
            6,
            18,
            9,
            took_ms,
            24,
            took_ms + 57,
            at_ms - 4_000,
            state,
            (read, fold),
        )

    def _load(self, at_ms: int) -> Load:
        second = (at_ms - self.start_ms) / 1000
        busy = 1.9 if BURST_S[0] <= second < BURST_S[1] + 120 else 0.9
        self._cpu_s += 2 * busy
        self._gc_ms += 2000 * 0.03 * busy
        heap = 600e6 + 900e6 * ((second % 23) / 23)
        jvm = ProcessLoad(
            "jvm", self._cpu_s, 2_400_000_000, int(heap), 2_147_483_648, int(self._gc_ms), int(second)
        )
        return Load(at_ms, (ProcessLoad("driver", self._cpu_s * 0.12, 380_000_000), jvm))


def _stage(number: int, wall_ms: float, records: int, moved: float) -> StageWork:
    run_ms = round(wall_ms * 2)
    moved_bytes, moved_ms = records * 60, round(run_ms * moved / 2)
    return StageWork(
        number, 8 if number == 0 else 4, round(wall_ms), run_ms, round(run_ms * 0.9), round(run_ms * 0.02),
        records, moved_bytes, moved_ms, moved_bytes, moved_ms, 0,
    )  # fmt: skip


def _health(at_ms: int, down: bool) -> KafkaHealth:
    brokers = tuple(
        BrokerHealth(
            number, not (down and number == 2), 4_100_000_000 + number * 20_000_000, 2_600_000.0,
            5_300_000.0, 4.1, 2.2, 3 if down else 0,
        )
        for number in (1, 2, 3)
    )  # fmt: skip
    return KafkaHealth(at_ms, brokers, 5 if down else 0, 0, 1)


def write(run: Path, entries: list[Seen]) -> None:
    """Put entries where a pipeline would have."""
    journal, samples = JournalWriter(journal_file(run)), SampleWriter(sample_file(run))
    for entry in entries:
        if isinstance(entry, Batch | Lag | Note):
            journal.write(entry)
        else:
            samples.write(entry)
    journal.close()
    samples.close()
