"""Pipelines as they run, followed from another process by what they write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.observe.board.alerts import Limits
from penstock.observe.board.board import board_of
from penstock.observe.run import RunReader, is_held, journal_file
from penstock.paths import DataDir
from penstock.spec import PipelineSpec
from penstock.web.message import Picture

_TAIL_BYTES = 24_000_000
"""Of a journal: some 30,000 entries, which take ten seconds to read."""


@dataclass
class Watched:
    """One pipeline."""

    name: str
    data: DataDir
    spec: PipelineSpec | None
    limits: Limits
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        run = self.data.root / "runs" / self.name
        self._reader = RunReader(run, tail_bytes=_TAIL_BYTES)
        self._board = board_of(self.name, self.spec)

    def picture(self, now_ms: int) -> Picture:
        with self._lock:
            for seen in self._reader.new():
                self._board.feed(seen)
            alive = is_held(self.data.root / "checkpoints" / self.name / ".lock")
            return Picture.of(self._board, now_ms, alive, self.limits)


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
