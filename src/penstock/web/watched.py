"""Pipelines as they run, followed from another process by what they write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.observe.board.alerts import Limits
from penstock.observe.board.board import Board
from penstock.observe.board.glance import SinkFacts
from penstock.observe.run import RunReader, journal_file
from penstock.paths import DataDir
from penstock.spec import PipelineSpec
from penstock.web.message import Picture

_TAIL_BYTES = 24_000_000
"""Of a journal: some 30,000 entries, which take ten seconds to read."""
_LOCKS = Path("/proc/locks")


def board_of(name: str, spec: PipelineSpec | None) -> Board:
    """An empty board, with what a spec says: of the sections with addresses nothing is taken."""
    if spec is None:
        return Board(name)
    sinks = [SinkFacts(sink.name, sink.kind, sink.target, sink.rows, sink.guarantee) for sink in spec.sink]
    return Board(name, spec.source.topic, sinks)


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


def is_held(lock: Path) -> bool | None:
    """Whether a process holds a lock file; None where this cannot be told.

    Taking it to find out could refuse a pipeline that starts at that moment.
    """
    try:
        number = lock.stat().st_ino
        held = _LOCKS.read_text()
    except OSError:
        return None
    # By the file's number alone: an overlay's files are listed under a device that stat does not tell.
    return any(f":{number} " in line for line in held.splitlines() if "FLOCK" in line)


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
