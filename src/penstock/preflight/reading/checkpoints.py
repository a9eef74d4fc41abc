"""What the checkpoints of a pipeline say, read as files and without taking their locks."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from penstock.engine.checkpoint import TOPIC_ID, due_batch, newest_batch, offsets_in, start_file
from penstock.engine.layout import StateLayout
from penstock.engine.slots import realtime_sinks
from penstock.errors import StateMismatch, first_line
from penstock.preflight.facts import CheckpointFacts, queries
from penstock.preflight.reading.state import damaged_state
from penstock.spec import PipelineSpec

T = TypeVar("T")


def read_checkpoints(spec: PipelineSpec, directory: Path) -> tuple[CheckpointFacts, ...]:
    """One for each query, also where nothing is there yet."""
    realtime = {sink.name for sink in realtime_sinks(spec)}
    return tuple(
        _checkpoint(
            query,
            directory / query,
            spec.source.topic,
            tuple(sink.name for sink in sinks),
            realtime=any(sink.name in realtime for sink in sinks),
        )
        for query, sinks in queries(spec).items()
    )


def _checkpoint(
    query: str, path: Path, topic: str, sinks: tuple[str, ...], *, realtime: bool
) -> CheckpointFacts:
    damage: list[str] = []

    def tried(what: str, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except StateMismatch as error:
            damage.append(error.message)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            damage.append(f"{path / what} cannot be read: {first_line(error)}")
        return otherwise

    # The one that may still move is looked at last: a batch is planned before it is committed.
    committed, planned = newest_batch(path / "commits"), newest_batch(path / "offsets")
    due = due_batch(planned, committed)
    start = start_file(path, due)
    return CheckpointFacts(
        query=query,
        path=str(path),
        sinks=sinks,
        realtime=realtime,
        locked=tried(".lock", lambda: _is_locked(path / ".lock"), False),
        planned=planned,
        committed=committed,
        topic_id=tried(TOPIC_ID, lambda: _text(path / TOPIC_ID), ""),
        next=tried(str(start), lambda: offsets_in(start, topic), {}) if planned >= 0 else {},
        layout=tried("state-layout.json", lambda: StateLayout.read(path / "state-layout.json"), None),
        damage=(*damage, *_damaged(path, planned, committed, damage), *damaged_state(path / "state", due)),
    )


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _damaged(path: Path, planned: int, committed: int, known: Sequence[str]) -> Iterator[str]:
    """Files that Spark would stumble over without naming them. Half a commit it would even take for one."""
    offsets, commit = path / "offsets" / str(planned), path / "commits" / str(committed)
    is_whole = {
        offsets: lambda last: all(isinstance(partitions, dict) for partitions in last.values()),
        commit: lambda last: "nextBatchWatermarkMs" in last,
    }
    for file, test in is_whole.items():
        if file.exists() and not _holds(file, test) and not any(str(file) in told for told in known):
            yield f"{file} cannot be read: a part of it is missing"


def _holds(file: Path, test: Callable[[Any], bool]) -> bool:
    try:
        return test(json.loads(file.read_text().splitlines()[-1]))
    except (OSError, ValueError, TypeError, AttributeError, IndexError):
        return False


def _is_locked(path: Path) -> bool:
    """Whether a pipeline holds it. Ours is shared, and held no longer than it takes to ask."""
    if not path.exists():
        return False
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
