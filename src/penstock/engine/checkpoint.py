"""Spark's checkpoint: one writer at a time, and what it says of a batch before the batch runs."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from penstock.engine.layout import StateLayout
from penstock.errors import CheckpointInUse, SourceError

Offsets = dict[int, int]

TOPIC_ID = "topic-id"
"""The file with the id that the cluster gave to the source's topic; one that is created anew has another."""


class Checkpoint:
    """A checkpoint directory, held by a lock while this object is open."""

    def __init__(self, path: Path, topic: str) -> None:
        self.path = path
        self._topic = topic
        path.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(path / ".lock")

    def close(self) -> None:
        self._lock.close()

    def fit(self, wanted: StateLayout, say: Callable[[str], None]) -> tuple[StateLayout, list[str]]:
        """The layout to run with and the sinks that are new to it; raises where state does not fit.

        Nothing is written before it is known to fit, and then only what it was fitted to.
        """
        file = self.path / "state-layout.json"
        have = StateLayout.read(file)
        if have is None:
            wanted.write(file)
            return wanted, []
        layout, news = have.changed_to(wanted)
        for text in news:
            say(text)
        layout.write(file)
        return layout, have.new_sinks(wanted)

    def belongs_to(self, topic_id: str) -> None:
        """Raise if the offsets of this checkpoint are of another topic of the same name."""
        file = self.path / TOPIC_ID
        if not file.exists():
            # A name of its own first: a process that is killed must not leave half an id.
            written = file.with_suffix(".new")
            written.write_text(topic_id)
            written.rename(file)
        elif file.read_text() != topic_id:
            raise SourceError(
                f"topic {self._topic} was deleted and created anew: {self.path.name} has read another of its"
                " name, whose offsets say nothing about this one",
                hint="Nothing of it was written. What there is to say: penstock check SPEC",
            )

    def pass_over(self, first: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """Let the next batch start at the first offsets that are left; what it leaves out, by partition.

        Spark reads these offsets at its start, and never again. So its files still tell of every batch, and
        an audit finds the hole and names it.
        """
        file = start_file(self.path, self.due())
        if not file.exists():
            return {}
        at = self._read(file)
        gone = {p: (offset, first[p]) for p, offset in at.items() if first.get(p, offset) > offset}
        if gone:
            *before, last = file.read_text().splitlines()
            by_topic = json.loads(last)
            by_topic[self._topic] |= {str(partition): end for partition, (_, end) in gone.items()}
            written = file.with_name(f".{file.name}.new")
            written.write_text("\n".join([*before, json.dumps(by_topic, separators=(",", ":"))]))
            # Hadoop keeps a checksum beside the file, of what it wrote itself.
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            written.rename(file)
        return gone

    def sinks_began(self, names: Sequence[str]) -> None:
        """Remember that these sinks have had a batch: from now on each must know its position."""
        file = self.path / "state-layout.json"
        layout = StateLayout.read(file)
        if layout is not None and set(names) != set(layout.sinks):
            replace(layout, sinks=sorted(names)).write(file)

    def offsets(self, batch: int) -> dict[int, tuple[int, int]]:
        """Where each partition's share of a batch starts and ends (exclusive).

        Spark writes the ends down before it runs the batch, and never changes them.
        """
        ends = self._read(self.path / "offsets" / str(batch))
        starts = self._read(start_file(self.path, batch))
        # A partition that was added after the first batch starts at its beginning.
        return {partition: (starts.get(partition, 0), end) for partition, end in sorted(ends.items())}

    def _read(self, path: Path) -> Offsets:
        return offsets_in(path, self._topic)

    def last_planned(self) -> int:
        """The newest batch that has its offsets, and so may have run; -1 before the first."""
        return newest_batch(self.path / "offsets")

    def due(self) -> int:
        """The batch that a start begins with."""
        return due_batch(self.last_planned(), newest_batch(self.path / "commits"))

    def watermark_ms(self) -> int:
        """Where the clock stands after the newest batch; 0 before the first."""
        newest = newest_batch(self.path / "commits")
        if newest < 0:
            return 0
        said: dict[str, Any] = json.loads((self.path / "commits" / str(newest)).read_text().splitlines()[-1])
        return int(said.get("nextBatchWatermarkMs", 0))


def last_offsets(path: Path, topic: str) -> Offsets:
    """The end of the newest batch that was planned on a checkpoint; empty before the first."""
    newest = newest_batch(path / "offsets")
    return offsets_in(path / "offsets" / str(newest), topic) if newest >= 0 else {}


def offsets_in(path: Path, topic: str) -> Offsets:
    """The offsets of a topic in a file of the checkpoint."""
    # The last line holds the offsets by topic; a version and the batch's metadata stand before it.
    by_topic = json.loads(path.read_text().splitlines()[-1])
    return {int(partition): int(offset) for partition, offset in by_topic.get(topic, {}).items()}


def start_file(path: Path, batch: int) -> Path:
    """The file of a checkpoint with the offsets at which a batch starts."""
    return path / "offsets" / str(batch - 1) if batch > 0 else path / "sources" / "0" / "0"


def due_batch(planned: int, committed: int) -> int:
    """The batch that a start begins with: the newest that was planned, again, unless it is done."""
    return planned + 1 if committed >= planned else planned


def newest_batch(directory: Path) -> int:
    """The newest batch that has a file in a directory of the checkpoint; -1 where there is none."""
    return max((int(path.name) for path in directory.glob("[0-9]*") if path.name.isdecimal()), default=-1)


def _lock(path: Path) -> IO[str]:
    lock = path.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise CheckpointInUse(
            f"another process runs on the checkpoint {path.parent}",
            hint="Stop it first; two writers on one checkpoint would write everything twice.",
        ) from None
    return lock
