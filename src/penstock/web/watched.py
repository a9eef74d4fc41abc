"""Pipelines as they run, followed from another process by what they write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.observe.board.alerts import Limits
from penstock.observe.board.board import board_of, sink_facts
from penstock.observe.prometheus.measure import Known, Measured, measured
from penstock.observe.prometheus.tally import Tally
from penstock.observe.run import RunReader, is_held, journal_file
from penstock.paths import DataDir
from penstock.spec import PipelineSpec
from penstock.web.message import Picture

_TAIL_BYTES = 24_000_000
"""Of a journal: some 30,000 entries, which take ten seconds to read."""
_SHORT_TAIL_BYTES = 4_000_000
"""Some 40 minutes, read in two seconds: how old a record is that waits is known by when the topic grew."""


@dataclass
class Watched:
    """One pipeline."""

    name: str
    data: DataDir
    spec: PipelineSpec | None
    limits: Limits
    in_pipeline: bool = False
    """Whether this is the pipeline's own process, which has other work to do than to read its past."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        run = self.data.root / "runs" / self.name
        tail_bytes = _SHORT_TAIL_BYTES if self.in_pipeline else _TAIL_BYTES
        self._reader = RunReader(run, tail_bytes=tail_bytes, past_samples=not self.in_pipeline)
        self._board = board_of(self.name, self.spec)
        began_ms = time.time_ns() // 1_000_000
        self._tally = Tally(self.name, sink_facts(self.spec) if self.spec else (), began_ms)

    def picture(self, now_ms: int) -> Picture:
        with self._lock:
            self._read()
            return Picture.of(self._board, now_ms, self._alive(), self.limits)

    def measured(self, now_ms: int) -> list[Measured]:
        """What Prometheus gets to see; counts are those since this object was made."""
        trigger_ms = self.spec.trigger.ms if self.spec else 0
        with self._lock:
            self._read()
            known = Known(self._alive(), self.limits.p99_ms, trigger_ms)
            return measured(self._board, self._tally, now_ms, known)

    def _read(self) -> None:
        for seen in self._reader.new():
            self._board.feed(seen)
            self._tally.feed(seen)

    def _alive(self) -> bool | None:
        return is_held(self.data.root / "checkpoints" / self.name / ".lock")


class Watch:
    """The pipelines of a data directory: those that were named, or all that have ever run."""

    def __init__(
        self,
        data: DataDir,
        names: Sequence[str],
        describe: Callable[[str], PipelineSpec | None],
        limits: Limits,
    ) -> None:
        self._data = data
        self._names = names
        self._describe = describe
        self._limits = limits
        self._watched: dict[str, Watched] = {}
        self._lock = threading.Lock()

    def pipelines(self) -> list[Watched]:
        with self._lock:
            for name in self._names or self._found():
                if name not in self._watched:
                    self._watched[name] = Watched(name, self._data, self._describe(name), self._limits)
            return list(self._watched.values())

    def _found(self) -> list[str]:
        runs = self._data.root / "runs"
        return sorted(run.name for run in runs.glob("*") if journal_file(run).exists())
