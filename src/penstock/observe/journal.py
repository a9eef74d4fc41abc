"""The running record of a pipeline: one JSON line for each thing that happened, in a file that outlives it.

The pipeline writes it; views, audits and reports read it, in other processes, while it grows or later.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from penstock.engine.receipt import Receipt
from penstock.observe.latency import Latency


@dataclass(frozen=True)
class Batch:
    """A batch was held by every sink."""

    at_ms: int
    receipt: Receipt
    latency: Latency


@dataclass(frozen=True)
class Lag:
    """How far the topic reached, and how far the pipeline had read it."""

    at_ms: int
    ends: dict[int, int]
    done: dict[int, int]

    @property
    def by_partition(self) -> dict[int, int]:
        return {partition: end - self.done.get(partition, 0) for partition, end in self.ends.items()}

    @property
    def total(self) -> int:
        return sum(self.by_partition.values())


@dataclass(frozen=True)
class Note:
    """Something that a person would want to know: started, broker away, back, stopped."""

    at_ms: int
    text: str


Entry = Batch | Lag | Note


class JournalWriter:
    """Appends entries; safe to call from several threads."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()
        if _is_torn(path):
            # A killed writer left half a line; it must not swallow ours.
            self._file.write("\n")

    def write(self, entry: Entry) -> None:
        with self._lock:
            self._file.write(json.dumps(_to_json(entry), separators=(",", ":")) + "\n")

    def close(self) -> None:
        self._file.close()


class JournalReader:
    """Reads entries from where it last stopped."""

    def __init__(
        self,
        path: Path,
        *,
        at: int = 0,
        from_end: bool = False,
        unread: Callable[[bytes], None] | None = None,
    ) -> None:
        """A line that means nothing is an error, since an audit counts on each; or it is told to `unread`."""
        self._path = path
        self.at = path.stat().st_size if from_end and path.exists() else at
        """The place behind the last entry."""
        self._unread = unread

    @classmethod
    def tail(cls, path: Path, bytes_max: int, *, unread: Callable[[bytes], None] | None = None) -> Self:
        """Reads from so far before the end; the line that this cuts in two is left out."""
        reader = cls(path, from_end=True, unread=unread)
        reader.at = max(0, reader.at - bytes_max)
        return reader

    def skip_to(self, at_ms: int) -> None:
        """Begin shortly before a moment, which is looked for and not read up to."""
        if self._path.exists():
            self.at = _place(self._path, at_ms)

    def new(self) -> Iterator[Entry]:
        """Entries since the last call; a line that is still being written waits for the next one."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self.at)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.at += len(line)
                entry = self._entry(line)
                if entry is not None:
                    yield entry

    def _entry(self, line: bytes) -> Entry | None:
        if self._unread is None:
            return _from_line(line)
        try:
            entry = _from_line(line)
        except Exception:  # what another version wrote may fail to be understood anywhere
            entry = None
        if entry is None:
            self._unread(line)
        return entry


def reached(path: Path) -> dict[str, dict[int, int]]:
    """Where the next batch begins, by query and partition, as the receipts tell."""
    ends: dict[str, dict[int, int]] = {}
    for entry in JournalReader(path).new():
        if isinstance(entry, Batch):
            ends[entry.receipt.query] = {p: end for p, (_, end) in entry.receipt.offsets.items()}
    return ends


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


_NEAR_BYTES = 65_536


def _place(path: Path, at_ms: int) -> int:
    """The beginning of a line of a journal from where a moment is not far."""
    low, high = 0, path.stat().st_size
    with path.open("rb") as file:
        while high - low > _NEAR_BYTES:
            middle = (low + high) // 2
            file.seek(middle)
            file.readline()
            if _is_before(file.readline(), at_ms):
                low = middle
            else:
                high = middle
        file.seek(low)
        return low + len(file.readline()) if low else 0


def _is_before(line: bytes, at_ms: int) -> bool:
    try:
        return bool(json.loads(line)["at_ms"] < at_ms)
    except (ValueError, LookupError, TypeError):
        return False


def _to_json(entry: Entry) -> dict[str, Any]:
    match entry:
        case Batch(at_ms, receipt, latency):
            # The histogram says the same as the counts in a tenth of the room.
            stored = replace(receipt, latency_ms=()).to_json()
            return {"what": "batch", "at_ms": at_ms, "receipt": stored, "latency": latency.encode()}
        case Lag(at_ms, ends, done):
            return {"what": "lag", "at_ms": at_ms, "ends": ends, "done": done}
        case Note(at_ms, text):
            return {"what": "note", "at_ms": at_ms, "text": text}


def _from_line(line: bytes) -> Entry | None:
    try:
        given = json.loads(line)
    except ValueError:
        return None  # the half line of a killed writer
    match given["what"]:
        case "batch":
            receipt = Receipt.from_json(given["receipt"])
            return Batch(given["at_ms"], receipt, Latency.decode(given["latency"]))
        case "lag":
            return Lag(given["at_ms"], _by_partition(given["ends"]), _by_partition(given["done"]))
        case _:
            return Note(given["at_ms"], given["text"])


def _by_partition(given: dict[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in given.items()}
