"""One protocol for every store: the sink remembers the batch.

Spark numbers its batches, writes a batch's offsets down before running it, and runs the last one again after
a crash. So a sink that stores the number of a batch together with the batch's rows is exactly once, as long
as a batch that comes again has the same content. Invariants:

1. A writer fences every earlier writer of its sink before it reads the position.
2. A batch is written only onto the batch before it. The empty ones are written too, so that this stays exact.
3. A batch that is there already is compared (count and digest), never written again.
4. After an error or an unknown outcome the writer is thrown away; the batch fails and comes again.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.errors import Fenced, PositionLost, ReplayDiffers

NOTHING = -1
"""The batch before the first one."""


@dataclass(frozen=True)
class Batch:
    """The rows of one batch that one sink is to hold, in an order that does not depend on the run."""

    query: str
    number: int
    rows: pa.Table
    digest: str

    @classmethod
    def of(cls, query: str, number: int, rows: pa.Table) -> Batch:
        return cls(query, number, rows, digest(rows))

    @property
    def count(self) -> int:
        return int(self.rows.num_rows)

    @property
    def position(self) -> Position:
        """What a sink that holds it remembers."""
        return Position(self.number, self.count, self.digest)


@dataclass(frozen=True)
class Position:
    """The newest batch that a sink holds."""

    batch: int
    count: int
    digest: str


@dataclass(frozen=True)
class Refusal:
    """A row that the store does not take, by its place in the batch, and why."""

    row: int
    reason: str


@dataclass(frozen=True)
class Written:
    """What a sink says of a batch it was given."""

    count: int
    """All rows of the batch, the refused among them."""
    digest: str
    replayed: bool
    """The sink held the batch already; nothing was written."""
    refused: tuple[Refusal, ...] = ()
    """A sink that sets rows aside has written all others. It says the same when the batch comes again."""


class Sink(Protocol):
    """A place for rows. Its docstring says what it can lose, duplicate and delay, and what readers do."""

    name: str

    def write(self, batch: Batch) -> Written:
        """Hold the batch, once. After an error the sink must be closed and made anew."""

    def close(self) -> None:
        """Let go of all connections."""


def must_write(sink: str, batch: Batch, position: Position | None, *, adopt: bool = False) -> bool:
    """Whether the batch is to be written, given what the sink holds; False when it is there already.

    `adopt` takes a sink without a position as one that holds all up to this batch: the person's decision.
    """
    if position is None:
        if batch.number == 0 or adopt:
            return True
        raise PositionLost(
            f"sink {sink}: holds no position, but batch {batch.number} is due",
            hint=_recovery(sink),
        )
    if position.batch > batch.number:
        raise Fenced(
            f"sink {sink}: holds batch {position.batch}, but batch {batch.number} is due: "
            "another writer is ahead, or the checkpoint was rolled back",
            hint="Stop the other writer, or restore the checkpoint that goes with the sink. Other ways on:"
            " penstock check SPEC",
        )
    if position.batch == batch.number:
        _compare(sink, batch, position)
        return False
    if position.batch < batch.number - 1 and not adopt:
        raise PositionLost(
            f"sink {sink}: holds batch {position.batch}, but batch {batch.number} is due: "
            f"{batch.number - 1 - position.batch} batches are not there",
            hint=_recovery(sink),
        )
    return True


def _compare(sink: str, batch: Batch, position: Position) -> None:
    if position == batch.position:
        return
    raise ReplayDiffers(
        f"sink {sink}: batch {batch.number} came again with other content: "
        f"{position.count} rows (digest {position.digest}) are there, {batch.count} ({batch.digest}) came",
        hint="The pipeline is not deterministic: look for changed reference data or functions like rand().",
    )


def _recovery(sink: str) -> str:
    return (
        f"If the sink is right as it is, go on from here with: penstock run SPEC --adopt {sink}\n"
        "Otherwise restore the sink or the checkpoint, whichever is older."
    )


def digest(rows: pa.Table) -> str:
    """A fingerprint of rows in their order; the same rows give the same one in every run."""
    hashed = _Hashed()
    if rows.num_rows:
        # Equal columns can differ in memory: bytes under nulls, the rest of a slice, chunks. A copy does not.
        whole = rows.take(np.arange(rows.num_rows))
        with pa.ipc.new_stream(hashed, whole.schema) as writer:
            writer.write_table(whole)
    return hashed.hasher.hexdigest()


class _Hashed(io.RawIOBase):
    """A file of which only the fingerprint is kept."""

    def __init__(self) -> None:
        self.hasher = hashlib.blake2b(digest_size=8)

    def writable(self) -> bool:
        return True

    def write(self, some: Any) -> int:
        self.hasher.update(some)
        return len(some)
