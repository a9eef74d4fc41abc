"""A run that is over, played again from its files, in memory that does not grow with it."""

from __future__ import annotations

import math
import pickle
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import merge
from pathlib import Path

from penstock.errors import PenstockError
from penstock.observe.board.alerts import Limits
from penstock.observe.board.board import Board, board_of
from penstock.observe.journal import Batch, JournalReader
from penstock.observe.run import Seen, journal_file, sample_file
from penstock.observe.samplefile import OLDEST, SamplePlace, SampleReader
from penstock.spec import PipelineSpec
from penstock.web.message import Picture

STOPS_MAX = 48
_STOP_MIN_MS = 600_000
"""What is read and folded in half a second needs no stop."""
_TAIL_BYTES = 262_144


@dataclass(frozen=True)
class Place:
    """How far a run has been read."""

    journal: int = 0
    samples: SamplePlace = OLDEST


@dataclass(frozen=True)
class Stop:
    """A board as it was at a moment, to go on from. Packed it takes some 300 KB."""

    at_ms: int
    place: Place
    packed: bytes = field(repr=False)

    @classmethod
    def of(cls, board: Board, at_ms: int, place: Place) -> Stop:
        return cls(at_ms, place, zlib.compress(pickle.dumps(board), 1))

    def board(self) -> Board:
        board: Board = pickle.loads(zlib.decompress(self.packed))  # noqa: S301  (ours, and never on disk)
        return board


@dataclass(frozen=True)
class Recording:
    """The files of a run. They are read anew by each who plays it; only some moments are remembered."""

    name: str
    journal: Path
    samples: Path | None
    """None for a journal alone: those beside it are of another run."""
    start_ms: int
    end_ms: int
    spec: PipelineSpec | None
    limits: Limits
    stops: dict[int, Stop] = field(default_factory=dict, repr=False)
    """By the stretch of the run that each ends."""

    @classmethod
    def read(cls, path: Path, spec: PipelineSpec | None, limits: Limits) -> Recording:
        """A pipeline's directory in runs/, or a journal alone."""
        run = path if path.is_dir() else path.parent
        journal = journal_file(path) if path.is_dir() else path
        samples = sample_file(run) if journal == journal_file(run) else None
        first = next(_read_on(journal, samples, Place()), None)
        if first is None:
            raise PenstockError(
                f"nothing is recorded in {path}",
                hint="Name a directory of runs/, with its journal.jsonl, or such a file.",
            )
        last = list(_ends(journal, samples))
        queries = [seen.receipt.query for seen in last if isinstance(seen, Batch)]
        named = spec.name if spec else run.absolute().name
        return cls(
            # The first query of a pipeline bears its name, which is the shortest.
            name=min(queries, key=len) if queries else named,
            journal=journal,
            samples=samples,
            start_ms=first[0].at_ms,
            end_ms=max(seen.at_ms for seen in (first[0], *last)),
            spec=spec,
            limits=limits,
        )

    @property
    def stretch_ms(self) -> int:
        """From one stop to the next."""
        return max(_STOP_MIN_MS, math.ceil((self.end_ms - self.start_ms) / STOPS_MAX))

    def stretch(self, at_ms: int) -> int:
        """Which stretch a moment is in."""
        return (at_ms - self.start_ms) // self.stretch_ms


def _read_on(journal: Path, samples: Path | None, place: Place) -> Iterator[tuple[Seen, Place]]:
    """A run from a place on, the oldest first, each with the place behind it; but not what means nothing."""
    lines = JournalReader(journal, at=place.journal, unread=lambda _: None)
    entries: Iterator[tuple[Seen, int | SamplePlace]] = ((seen, lines.at) for seen in lines.new())
    if samples is not None:
        beside = SampleReader(samples, place=place.samples)
        told = ((seen, beside.place) for seen in beside.new())
        entries = merge(entries, told, key=lambda found: found[0].at_ms)
    for seen, behind in entries:
        if isinstance(behind, SamplePlace):
            place = replace(place, samples=behind)
        else:
            place = replace(place, journal=behind)
        yield seen, place


def _ends(journal: Path, samples: Path | None) -> Iterator[Seen]:
    """What the files end with."""
    yield from JournalReader.tail(journal, _TAIL_BYTES, unread=lambda _: None).new()
    if samples is not None and samples.exists():
        # A sample that this cuts in two is passed over.
        at = max(0, samples.stat().st_size - _TAIL_BYTES)
        yield from SampleReader(samples, place=SamplePlace(in_older=False, at=at)).new()


class Playback:
    """A recording as it was at a moment. It goes forward only: who wants to go back begins anew."""

    def __init__(self, recording: Recording, from_ms: int) -> None:
        """`from_ms` is the first moment that will be asked for."""
        self._recording = recording
        before = [stop for stop in list(recording.stops.values()) if stop.at_ms <= from_ms]
        stop = max(before, key=lambda stop: stop.at_ms, default=None)
        self._board = stop.board() if stop else board_of(recording.name, recording.spec)
        self._at_ms = stop.at_ms if stop else recording.start_ms
        self._place = stop.place if stop else Place()
        self._rest = _read_on(recording.journal, recording.samples, self._place)
        self._next = next(self._rest, None)

    def read(self, to_ms: int, within_s: float = math.inf) -> int:
        """Go forward to a moment, or as far as there is time for; the moment that was reached."""
        until = time.monotonic() + within_s
        while self._next is not None and self._next[0].at_ms <= to_ms:
            self._feed(*self._next)
            self._next = next(self._rest, None)
            if time.monotonic() > until:
                return self._at_ms
        return to_ms

    def picture(self, now_ms: int) -> Picture:
        self.read(now_ms)
        return Picture.of(self._board, now_ms, None, self._recording.limits)

    def _feed(self, seen: Seen, place: Place) -> None:
        stretch = self._recording.stretch(self._at_ms)
        if self._recording.stretch(seen.at_ms) > stretch and stretch not in self._recording.stops:
            self._recording.stops[stretch] = Stop.of(self._board, self._at_ms, self._place)
        self._board.feed(seen)
        self._at_ms, self._place = max(self._at_ms, seen.at_ms), place
