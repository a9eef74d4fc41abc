"""Samples in a file beside the journal: bounded, appended by the pipeline, read by others while it grows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from penstock.observe.samples import Sample

BYTES_MAX = 32_000_000
"""Of one file; the one before it is kept, too: at some 2 KB a second, four to eight hours."""

_one: TypeAdapter[Sample] = TypeAdapter(Annotated[Sample, Field(discriminator="what")])


def older(path: Path) -> Path:
    """The file that was full."""
    return path.with_suffix(".1.jsonl")


def append(path: Path, sample: Sample) -> None:
    """Add one sample from another process than the pipeline's, which alone makes room."""
    with path.open("ab", buffering=0) as file:
        file.write(_line(sample))


class SampleWriter:
    """Appends samples; safe to call from several threads."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lock = threading.Lock()
        self._file = path.open("ab", buffering=0)

    def write(self, sample: Sample) -> None:
        line = _line(sample)
        with self._lock:
            if self._file.closed:
                return  # whoever looked for too long comes after the end
            if self._file.tell() + len(line) > BYTES_MAX:
                self._file.close()
                self._path.replace(older(self._path))
                self._file = self._path.open("ab", buffering=0)
            self._file.write(line)

    def close(self) -> None:
        with self._lock:
            self._file.close()


def _line(sample: Sample) -> bytes:
    # A killed writer's half line ends here at the latest: readers pass over what they cannot read.
    return b"\n" + _one.dump_json(sample) + b"\n"


@dataclass(frozen=True)
class SamplePlace:
    """A place in the two files."""

    in_older: bool = True
    at: int = 0


OLDEST = SamplePlace()


class SampleReader:
    """Reads samples from a place on, by default the oldest that is kept, then from where it last stopped."""

    def __init__(self, path: Path, *, place: SamplePlace = OLDEST, from_end: bool = False) -> None:
        self._path = path
        self._in_older, self._at = place.in_older, place.at
        self._inode = 0
        if from_end:
            self._in_older, self._at = False, 0
            if path.exists():
                found = path.stat()
                self._at, self._inode = found.st_size, found.st_ino

    @property
    def place(self) -> SamplePlace:
        """Behind the last sample."""
        return SamplePlace(self._in_older, self._at)

    def new(self) -> Iterator[Sample]:
        """Samples since the last call; a line that is still being written waits for the next one."""
        if self._in_older:
            yield from self._read(older(self._path), self._at)
            self._in_older, self._at = False, 0
        try:
            inode = self._path.stat().st_ino
        except FileNotFoundError:
            return
        if self._inode not in (0, inode):
            yield from self._read(older(self._path), self._at)
            self._at = 0
        self._inode = inode
        yield from self._read(self._path, self._at)

    def _read(self, path: Path, start: int) -> Iterator[Sample]:
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(start)
            self._at = start
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._at += len(line)
                if line.strip():
                    try:
                        yield _one.validate_json(line)
                    except ValidationError:
                        continue  # the half line of a killed writer
