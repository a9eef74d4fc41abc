"""A run that is over, played again."""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import PenstockError
from penstock.observe.board.alerts import Limits
from penstock.observe.board.board import board_of
from penstock.observe.journal import Batch
from penstock.observe.run import RunReader, Seen, journal_file
from penstock.spec import PipelineSpec
from penstock.web.message import Picture


@dataclass(frozen=True)
class Recording:
    """All entries of a run, the oldest first."""

    name: str
    entries: Sequence[Seen]
    spec: PipelineSpec | None
    limits: Limits

    @classmethod
    def read(cls, path: Path, spec: PipelineSpec | None, limits: Limits) -> Recording:
        """A pipeline's directory in runs/, or a journal alone."""
        entries = _entries(path)
        if not entries:
            raise PenstockError(
                f"nothing is recorded in {path}",
                hint="Name a directory of runs/, with its journal.jsonl, or such a file.",
            )
        queries = [entry.receipt.query for entry in entries if isinstance(entry, Batch)]
        named = path.name if path.is_dir() else path.absolute().parent.name
        # The first query of a pipeline bears its name, which is the shortest.
        return cls(min(queries, key=len) if queries else named, entries, spec, limits)

    @property
    def start_ms(self) -> int:
        return self.entries[0].at_ms

    @property
    def end_ms(self) -> int:
        return self.entries[-1].at_ms


def _entries(path: Path) -> list[Seen]:
    if path.is_dir():
        return list(RunReader(path).new())
    if not path.is_file():
        return []
    if path.name == journal_file(path.parent).name:
        return list(RunReader(path.parent).new())
    # A journal under another name: a run's directory is made around it.
    with tempfile.TemporaryDirectory() as alone:
        journal_file(Path(alone)).symlink_to(path.absolute())
        return list(RunReader(Path(alone)).new())


class Playback:
    """A recording as it was at a moment. It goes forward only: who wants to go back begins anew."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._moments = [entry.at_ms for entry in recording.entries]
        self._done = 0
        self._board = board_of(recording.name, recording.spec)

    def picture(self, now_ms: int) -> Picture:
        until = bisect_right(self._moments, now_ms)
        for entry in self._recording.entries[self._done : until]:
            self._board.feed(entry)
        self._done = max(self._done, until)
        return Picture.of(self._board, now_ms, None, self._recording.limits)
