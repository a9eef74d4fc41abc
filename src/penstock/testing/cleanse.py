"""Which records are good events, and which rule the others break."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.testing.events import Event, Record, Row, Values

_WRITTEN_AS: dict[type, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (int, float),
    bool: (bool,),
    list: (list,),
    dict: (dict,),
}
"""What JSON may hold for a column's type; a bool is no int here."""


def decode(value: bytes | None, schema: Mapping[str, type] | None = None) -> dict[str, Any] | None:
    """A JSON object's fields, or None where it is malformed.

    With a schema (`{"user_id": str, "ts": int}`) a field of another type is malformed too; name the columns
    that the pipeline uses, since the engine reads no others.
    """
    try:
        fields = json.loads(value or b"", parse_constant=_no_number)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    for name, kind in (schema or {}).items():
        found = fields.get(name)
        if found is not None and type(found) not in _WRITTEN_AS[kind]:
            return None
    return fields


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


@dataclass(frozen=True)
class Cleanse:
    """The rules of a pipeline's description, each SQL expression said once more in Python.

    `set` sees the columns as they came; all others see the result. A condition that gives None does not hold.
    """

    key: str
    event_time: str
    schema: Mapping[str, type] | None = None
    set: Mapping[str, Callable[[Values], Any]] = field(default_factory=dict)
    require: Sequence[str] = ()
    where: Mapping[str, Callable[[Values], bool | None]] = field(default_factory=dict)
    future_ms: int = 300_000
    past_ms: int | None = None

    def split(self, records: Iterable[Record]) -> tuple[list[Event], list[Row]]:
        """The good events, and a rejected row for each other record that names the first rule broken."""
        good: list[Event] = []
        rejected: list[Row] = []
        for record in records:
            came = decode(record.value, self.schema)
            values = None if came is None else came | {name: make(came) for name, make in self.set.items()}
            if values is None or (reason := self._broken(values, record)):
                rejected.append(_rejected(record, "malformed" if values is None else reason))
            else:
                key, ts_ms = str(values[self.key]), values[self.event_time]
                good.append(Event(key, ts_ms, record.partition, record.offset, values))
        return good, rejected

    def _broken(self, values: Values, record: Record) -> str:
        """The first rule that a record breaks; empty for a good one."""
        for name in (*self.require, self.key, self.event_time):
            if values.get(name) is None:
                return f"required: {name}"
        ahead_ms = values[self.event_time] - record.timestamp_ms
        if ahead_ms > self.future_ms:
            return "future"
        if self.past_ms is not None and -ahead_ms > self.past_ms:
            return "past"
        return next((f"condition: {name}" for name, holds in self.where.items() if not holds(values)), "")


def _rejected(record: Record, reason: str) -> Row:
    return {
        "kind": "rejected",
        "partition": record.partition,
        "offset": record.offset,
        "reason": reason,
        "raw": record.value,
    }
