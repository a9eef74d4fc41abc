"""A table or topic of a test's own, the writers opened on it, and what its readers see."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar
from unittest.mock import patch

import pyarrow as pa
import pytest

from penstock.errors import SinkError
from penstock.sinks.protocol import Batch, Sink, Written

SINK = "sessions"
PATIENCE_S = 60
ROW = pa.schema(
    [
        pa.field("session_id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("events", pa.int64()),
        pa.field("country", pa.string()),
        pa.field("query", pa.string(), nullable=False),
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("slot", pa.int32(), nullable=False),
    ]
)


def session(user: str, kind: str = "final", version: int = 1, **more: Any) -> dict[str, Any]:
    return {"session_id": f"{user}@10", "kind": kind, "version": version, "events": 1, **more}


def sessions(number: int, size: int = 20, **more: Any) -> list[dict[str, Any]]:
    """Sessions that no other batch has, with nulls and empty texts among their values."""
    countries = [None, "", "FR", 'a"b,\n\\']
    return [session(f"u{number}-{i}", events=i, **{"country": countries[i % 4], **more}) for i in range(size)]


def bad(user: str, **more: Any) -> dict[str, Any]:
    """A session that every store can be made to refuse: negative, and large."""
    return session(user, events=-1, country="x" * 5_000, **more)


@dataclass
class Place(ABC):
    """Where one query writes. What only one store can do is in its own class."""

    address: str
    target: str
    """The table or topic."""
    query: str
    exactly_once: bool = True
    set_aside: bool = False
    slot: int = 0
    writers: list[Sink] = field(default_factory=list)

    def batch(self, number: int, rows: Sequence[dict[str, Any]] | None = None) -> Batch:
        given = sessions(number) if rows is None else rows
        made = [{**row, "query": self.query, "batch": number, "slot": self.slot} for row in given]
        return Batch.of(self.query, number, pa.Table.from_pylist(made, ROW))

    def writer(self, name: str = SINK, *, adopt: bool = False) -> Sink:
        """A new writer, which stays open until the test ends or closes it."""
        sink = self._open(name, adopt)
        self.writers.append(sink)
        return sink

    def write(self, *batches: Batch, name: str = SINK, adopt: bool = False) -> Written:
        """Write with one new writer, close it, and tell of the last batch."""
        with closing(self.writer(name, adopt=adopt)) as sink:
            return [sink.write(batch) for batch in batches][-1]

    def holds(self, *batches: Batch) -> bool:
        """Whether readers see the rows of these batches, each once, and no others."""
        names = batches[0].rows.column_names if batches else ROW.names
        seen = [tuple(row.values()) for row in self.rows(names)]
        given = [tuple(row.values()) for each in batches for row in each.rows.to_pylist()]
        return sorted(seen, key=repr) == sorted(given, key=repr)

    def beside(self, **other: Any) -> Self:
        """The same place but for what is given, for writers and readers of its own."""
        return replace(self, writers=[], **other)

    def close(self) -> None:
        for sink in self.writers:
            sink.close()

    @abstractmethod
    def _open(self, name: str, adopt: bool) -> Sink: ...

    @abstractmethod
    def rows(self, names: Sequence[str] = ROW.names) -> list[dict[str, Any]]:
        """What a reader sees who reads as the sink's docstring says."""

    @abstractmethod
    def refuse_bad(self) -> None:
        """Have the store refuse rows like `bad`, and no others of these tests."""

    @abstractmethod
    def position(self, name: str = SINK) -> int | None:
        """The newest batch that the store says it holds."""

    @abstractmethod
    def lose_position(self, name: str = SINK) -> None:
        """Delete the position and nothing else."""

    def die_before_position(self, batch: Batch) -> None:
        """Have a writer give the rows of a batch to the store, and die before the position is there."""
        dying = self.writer()
        with patch.object(dying, "_mark", side_effect=SinkError("died")), pytest.raises(SinkError):
            dying.write(batch)
        dying.close()

    def settle(self, writer: Sink) -> None:  # noqa: B027 - most do nothing in the background
        """Wait until the writer does nothing but wait for its next batch."""


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


AnyPlace = TypeVar("AnyPlace", bound=Place)


@contextmanager
def new_place(kind: type[AnyPlace], address: str, **fields: Any) -> Iterator[AnyPlace]:
    unique = uuid.uuid4().hex[:12]
    with closing(kind(address, f"sessions_{unique}", f"clickstream-{unique}", **fields)) as place:
        yield place
