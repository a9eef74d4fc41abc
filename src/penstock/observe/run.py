"""All that is kept of a pipeline's runs, in one stream: its journal and its samples."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from pathlib import Path

from penstock.observe.journal import Entry, JournalReader
from penstock.observe.samplefile import SampleReader
from penstock.observe.samples import Sample

Seen = Entry | Sample

_LOCKS = Path("/proc/locks")


def journal_file(run: Path) -> Path:
    return run / "journal.jsonl"


def sample_file(run: Path) -> Path:
    return run / "samples.jsonl"


def spec_file(run: Path) -> Path:
    """What ran, for those who look at it: without the addresses of databases, which may hold passwords."""
    return run / "spec.toml"


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


class RunReader:
    """Follows a pipeline from another process, or reads what it left behind."""

    def __init__(self, run: Path, *, tail_bytes: int | None = None, past_samples: bool = True) -> None:
        """`run` is the pipeline's directory in runs/; of its journal only the end is read, if so asked."""
        journal = journal_file(run)
        self._journal = (
            JournalReader(journal) if tail_bytes is None else JournalReader.tail(journal, tail_bytes)
        )
        self._samples = SampleReader(sample_file(run), from_end=not past_samples)

    def new(self) -> Iterator[Seen]:
        """What has come since the last call, the oldest first."""
        return merge(self._journal.new(), self._samples.new(), key=lambda seen: seen.at_ms)
