"""What goes in: records as Kafka holds them, and the events that good records are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Values = Mapping[str, Any]
Row = dict[str, Any]
"""One row that comes out, with the engine's columns."""

_YEAR_2100_MS = 4_102_444_800_000


@dataclass(frozen=True)
class Record:
    """One record of a topic. `timestamp_ms` is when the broker took it."""

    value: bytes | None
    partition: int
    offset: int
    timestamp_ms: int


class Topic:
    """Numbers records as a broker does: each partition counts its own offsets from 0."""

    def __init__(self, now_ms: int = _YEAR_2100_MS) -> None:
        """`now_ms` is the broker's time: unless given, so late that no event is in the future."""
        self.now_ms = now_ms
        self._next: Counter[int] = Counter()

    def record(
        self, value: Values | bytes | None, partition: int = 0, timestamp_ms: int | None = None
    ) -> Record:
        """Append a record; a mapping is written as JSON."""
        written = json.dumps(value).encode() if isinstance(value, Mapping) else value
        offset = self._next[partition]
        self._next[partition] += 1
        return Record(written, partition, offset, self.now_ms if timestamp_ms is None else timestamp_ms)


@dataclass(frozen=True)
class Event:
    """A good event: whose it is, when it happened, where it stood in the topic, and its columns."""

    key: str
    ts_ms: int
    partition: int
    offset: int
    values: Values

    @property
    def position(self) -> tuple[int, int, int]:
        """Its place in the total order that `first`, `last` and every fold go by."""
        return self.ts_ms, self.partition, self.offset


Value = str | Callable[[Event], Any]
"""A column's name, or the SQL expression said once more in Python."""


def value_of(event: Event, value: Value) -> Any:
    return event.values.get(value) if isinstance(value, str) else value(event)


def aside(kind: str, event: Event, reason: str) -> Row:
    """The row of an event that goes into nothing."""
    return {
        "kind": kind,
        "key": event.key,
        "is_final": False,
        "new_events": 0,
        "partition": event.partition,
        "offset": event.offset,
        "ts": event.ts_ms,
        "reason": reason,
    }
