"""How fast a full topic is worked off: the reference work, into sessions on a Kafka topic.

The reference work is that of `stages`: JSON clicks of 230 bytes with 10 fields in 8 partitions, 0.5 % of them
malformed, up to 2 s out of order, enriched with 200,000 users and 20,000 products, in sessions of 30 minutes
of about 20 clicks each. The last click comes an hour later, and ends all sessions.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import psutil

from penstock.bench.inprocess import Run
from penstock.bench.result import Column, Result, Spread, in_words
from penstock.bench.rig import Rig, open_rig
from penstock.bench.stages import REFERENCE, clicks, reference_spec
from penstock.produce.wire import Message
from penstock.spec import PipelineSpec

JOBS = ("penstock tuned", "penstock plain")
GUARANTEES = ("exactly_once", "at_least_once")
TOPIC = "drain-clicks"
COLUMNS = (
    Column("job", "job"),
    Column("guarantee", "guarantee"),
    Column("events_per_s", "events/s", drawn=True),
    Column("cpu_s_per_million", "CPU-s per million", 2, drawn=True),
    Column("rss_mb", "memory, MB", drawn=True),
    Column("sessions", "sessions"),
)
_BATCH = "1,500,000"
_END_MS = 3_600_000
_WITHIN_S = 900.0
_LOOK_S = 0.2


@dataclass(frozen=True)
class Drained:
    """What one run took, from the first record that is read to the last row."""

    events: int
    seconds: float
    cpu_s: float
    rss_mb: float
    sessions: int

    @property
    def events_per_s(self) -> float:
        return self.events / self.seconds

    @property
    def cpu_s_per_million(self) -> float:
        return self.cpu_s / self.events * 1e6


def with_end(chunks: Iterator[list[Message]]) -> Iterator[list[Message]]:
    """The clicks, and behind them one that comes an hour later, so that all sessions end."""
    last: Message | None = None
    for chunk in chunks:
        last = next((message for message in reversed(chunk) if _click(message)), last)
        yield chunk
    if last is not None:
        click = _click(last)
        yield [{**last, "value": json.dumps({**click, "ts": click["ts"] + _END_MS}).encode()}]


def _click(message: Message) -> dict[str, Any]:
    """What a record says; nothing of one that is malformed."""
    try:
        said = json.loads(message["value"])
    except ValueError:
        return {}
    return said if isinstance(said, dict) and isinstance(said.get("ts"), int) else {}


def described(job: str, guarantee: str, name: str) -> PipelineSpec:
    """The shipped clickstream with its sessions on one topic, and nothing else."""
    engine = "plain" if job == "penstock plain" else "kernel"
    settings = {
        "source.topic": TOPIC,
        "source.max_batch": _BATCH,
        "engine": engine,
        # As many as there are cores: each is a task and a commit in every batch.
        "sessions.partitions": str(os.cpu_count() or 1),
    }
    spec = reference_spec(name, **settings, **{"sink.sessions.guarantee": guarantee})
    [sink] = [sink for sink in spec.sink if sink.name == "sessions"]
    return spec.model_copy(update={"sink": (sink.model_copy(update={"topic": f"{name}-sessions"}),)})


def drain(rig: Rig, spec: PipelineSpec, events: int) -> Drained:
    with metered([psutil.Process(), rig.jvm]) as meter, Run(rig, spec) as pipeline:
        # All sessions but the last close at once, in a batch without records.
        pipeline.wait_for(events, _WITHIN_S, closed=1)
    (first_s, first), (ended_s, _) = pipeline.receipts[0], pipeline.receipts[-1]
    began_s = first_s - first.total_ms / 1000
    return Drained(events, ended_s - began_s, meter.cpu_s(began_s, ended_s), meter.rss_mb, pipeline.closed)


@dataclass
class Meter:
    """CPU seconds and the greatest memory of some processes."""

    processes: Sequence[psutil.Process]
    rss_mb: float = 0.0
    _used: list[tuple[float, float]] = field(default_factory=list)
    """By a moment, in CPU seconds."""
    _over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Until it is over, and once more."""
        over = False
        while not over:
            over = self._over.wait(_LOOK_S)
            times = [process.cpu_times() for process in self.processes]
            self._used.append((time.perf_counter(), sum(one.user + one.system for one in times)))
            self.rss_mb = max(self.rss_mb, sum(p.memory_info().rss for p in self.processes) / 1e6)

    def stop(self) -> None:
        self._over.set()

    def cpu_s(self, began_s: float, ended_s: float) -> float:
        """What was used from one moment to another, by the clock of time.perf_counter."""
        moments, used = zip(*self._used, strict=True)
        return float(np.interp(ended_s, moments, used) - np.interp(began_s, moments, used))


@contextmanager
def metered(processes: Sequence[psutil.Process]) -> Iterator[Meter]:
    """Count from now until the end."""
    meter = Meter(processes)
    looking = threading.Thread(target=meter.look, daemon=True)
    looking.start()
    try:
        yield meter
    finally:
        meter.stop()
        looking.join()


def measure(
    events: int,
    rounds: int,
    say: Callable[[str], None],
    jobs: Sequence[str] = JOBS,
    guarantees: Sequence[str] = GUARANTEES,
) -> Result:
    """All jobs in turns; the first round is the warm-up."""
    measured: dict[tuple[str, str], list[Drained]] = {}
    with open_rig(described(JOBS[0], GUARANTEES[0], "drain"), say) as rig:
        REFERENCE.write_reference(rig.data.reference)
        events = rig.fill(TOPIC, 8, with_end(clicks(REFERENCE, events)))
        for number in range(rounds + 1):
            for job in jobs:
                for guarantee in guarantees:
                    name = f"drain-{number}-{job.split()[-1]}-{guarantee.replace('_', '-')}"
                    found = drain(rig, described(job, guarantee, name), events)
                    say(
                        f"round {number}  {job:15} {guarantee:14} {found.events_per_s:9,.0f}/s"
                        f"  {found.cpu_s_per_million:6.2f} CPU-s per million  {found.sessions:,} sessions"
                    )
                    if number:
                        measured.setdefault((job, guarantee), []).append(found)
    return Result(
        "drain",
        f"{events:,} clicks that were there already, into sessions on a Kafka topic; {in_words(rounds)} in"
        " turns behind one that warms up, each from the first record that is read to the last session that is"
        " written. CPU is that of Spark and Python.",
        COLUMNS,
        [row(job, guarantee, found) for (job, guarantee), found in measured.items()],
    )


class Figures(Protocol):
    """What is told of a run, ours or a peer's."""

    @property
    def events_per_s(self) -> float: ...
    @property
    def cpu_s_per_million(self) -> float: ...
    @property
    def rss_mb(self) -> float: ...
    @property
    def sessions(self) -> int: ...


def row(job: str, guarantee: str, found: Sequence[Figures]) -> dict[str, str | bool | int | Spread]:
    return {
        "job": job,
        "guarantee": guarantee,
        "events_per_s": Spread.of([one.events_per_s for one in found]),
        "cpu_s_per_million": Spread.of([one.cpu_s_per_million for one in found]),
        "rss_mb": Spread.of([one.rss_mb for one in found]),
        "sessions": found[-1].sessions,
        "warm": True,
    }
