"""A pipeline in another process, as its journal and its samples tell of it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from penstock.bench.drain import Drained
from penstock.errors import PenstockError
from penstock.observe.journal import Batch, Lag, Note
from penstock.observe.run import RunReader
from penstock.observe.samples import Load

_LOOK_S = 0.2
_DRAINED_WITHIN_S = 300.0
_SAMPLED_WITHIN_S = 10.0


@dataclass
class Followed:
    """All that has been written down so far."""

    process: subprocess.Popen[bytes]
    run: Path
    """The pipeline's directory in runs/."""
    batches: list[Batch] = field(default_factory=list)
    lags: list[Lag] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._reader = RunReader(self.run)

    @property
    def records(self) -> int:
        return sum(batch.receipt.records for batch in self.batches)

    @property
    def closed(self) -> int:
        """Sessions or windows."""
        return sum(batch.receipt.closed for batch in self.batches)

    @property
    def now_ms(self) -> int:
        """The last moment of which lag and load are known."""
        return min(self.lags[-1].at_ms, self.loads[-1].at_ms) if self.lags and self.loads else 0

    def until(self, done: Callable[[], bool], within_s: float) -> bool:
        """Read on until it is done, or the time is up; whether it was done."""
        deadline = time.monotonic() + within_s
        while not done():
            if self.process.poll() is not None:
                raise PenstockError(f"the pipeline has ended with status {self.process.returncode}")
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)
            self._look()
        return True

    def _look(self) -> None:
        for seen in self._reader.new():
            match seen:
                case Batch():
                    self.batches.append(seen)
                case Lag():
                    self.lags.append(seen)
                case Load():
                    self.loads.append(seen)
                case Note():
                    self.notes.append(seen)
                case _:
                    pass


def drain(pipeline: Followed, events: int, *, closed: int = 0) -> Drained:
    """Until all is written, and sessions are closed, which they are all at once."""
    if not pipeline.until(
        lambda: pipeline.records >= events and pipeline.closed >= closed, _DRAINED_WITHIN_S
    ):
        raise PenstockError(
            f"{pipeline.records:,} of {events:,} records within {_DRAINED_WITHIN_S:.0f} s",
            hint="Ask for fewer events.",
        )
    ended_ms = pipeline.batches[-1].at_ms
    pipeline.until(lambda: pipeline.now_ms >= ended_ms, _SAMPLED_WITHIN_S)
    return drained(pipeline.batches, pipeline.loads)


def drained(batches: Sequence[Batch], loads: Sequence[Load]) -> Drained:
    """What the batches behind the first took, up to the last that did anything."""
    busy = [batch for batch in batches if batch.receipt.records or batch.receipt.closed]
    if len(busy) < 2:
        raise PenstockError(
            "all was done in the first batch, which is not counted", hint="Ask for more events."
        )
    first, *others = busy
    began_ms, ended_ms = first.at_ms, others[-1].at_ms
    return Drained(
        events=sum(batch.receipt.records for batch in others),
        seconds=(ended_ms - began_ms) / 1000,
        cpu_s=cpu_s(loads, ended_ms) - cpu_s(loads, began_ms),
        rss_mb=max(sum(process.rss_bytes for process in load.processes) for load in loads) / 1e6,
        sessions=sum(batch.receipt.closed for batch in batches),
    )


def cpu_s(loads: Sequence[Load], at_ms: int) -> float:
    """What all processes had used by then, between two samples in proportion."""
    used = [sum(process.cpu_s for process in load.processes) for load in loads]
    return float(np.interp(at_ms, [load.at_ms for load in loads], used))
