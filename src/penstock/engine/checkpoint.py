"""Spark's checkpoint: one writer at a time, and what it says of a batch before the batch runs."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import IO, Any

from penstock.errors import CheckpointInUse, PenstockError
from penstock.spec import PipelineSpec

Offsets = dict[int, int]


class Checkpoint:
    """A checkpoint directory, held by a lock while this object is open."""

    def __init__(self, path: Path, spec: PipelineSpec) -> None:
        self.path = path
        self._topic = spec.source.topic
        path.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(path / ".lock")
        try:
            _check_same_state(path / "state-layout.json", spec)
        except PenstockError:
            self.close()
            raise

    def close(self) -> None:
        self._lock.close()

    def offsets(self, batch: int) -> dict[int, tuple[int, int]]:
        """Where each partition's share of a batch starts and ends (exclusive).

        Spark writes the ends down before it runs the batch, and never changes them.
        """
        ends = self._read(self.path / "offsets" / str(batch))
        before = self.path / "offsets" / str(batch - 1) if batch > 0 else self.path / "sources" / "0" / "0"
        starts = self._read(before)
        # A partition that was added after the first batch starts at its beginning.
        return {partition: (starts.get(partition, 0), end) for partition, end in sorted(ends.items())}

    def _read(self, path: Path) -> Offsets:
        # The last line holds the offsets by topic; a version and the batch's metadata stand before it.
        by_topic = json.loads(path.read_text().splitlines()[-1])
        return {int(partition): int(offset) for partition, offset in by_topic[self._topic].items()}

    def last_offsets(self) -> Offsets:
        """The end of the newest batch that was planned; empty before the first."""
        batches = [int(path.name) for path in (self.path / "offsets").glob("[0-9]*")]
        return self._read(self.path / "offsets" / str(max(batches))) if batches else {}


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


def _check_same_state(path: Path, spec: PipelineSpec) -> None:
    """State was written for one schema, key, list of measures and number of partitions, and fits no other."""
    wanted: dict[str, Any] = {
        "engine": spec.engine,
        "topic": spec.source.topic,
        "schema": spec.source.ddl,
        "key": spec.sessions.key,
        "partitions": spec.sessions.partitions,
        "measures": {measure.name: measure.text for measure in spec.sessions.measures},
    }
    if not path.exists():
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(wanted))
        fresh.replace(path)
        return
    have, now = _parts(json.loads(path.read_text())), _parts(wanted)
    changed = [
        f"{name} was {have.get(name)!r}, is {now.get(name)!r}"
        for name in have | now
        if have.get(name) != now.get(name)
    ]
    if changed:
        raise PenstockError(
            f"the state in {path.parent} does not fit the spec: " + "; ".join(changed),
            hint="Undo the change, or give the pipeline a new name to start it with a state of its own.",
        )


def _parts(layout: dict[str, Any]) -> dict[str, object]:
    """One entry for each thing that must stay. State holds measures by their place, so their order is one."""
    measures = layout["measures"]
    return {
        **layout,
        "measures": ", ".join(measures),
        **{f"measure {name}": measures[name] for name in measures},
    }
