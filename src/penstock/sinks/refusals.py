"""Rows that a store does not take, found among those that it would."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SinkError
from penstock.sinks.protocol import Refusal

_MOST = 1_000
_ALL_OF = 20
"""More than so many rows of a batch, or every one of so many: that is no bad row but a wrong table."""


def sift(sink: str, rows: pa.Table, put: Callable[[pa.Table], str | None]) -> list[Refusal]:
    """Put rows in, all that can be; of those that cannot, where they stand and why.

    `put` takes all of the rows it is given, or none of them and says why. For k bad rows among n it is called
    about 2 k log n times.
    """
    refused: list[Refusal] = []

    def halve(start: int, count: int) -> None:
        reason = put(rows.slice(start, count))
        if reason is None:
            return
        if count > 1:
            halve(start, count // 2)
            halve(start + count // 2, count - count // 2)
            return
        refused.append(Refusal(start, reason))
        must_be_few(sink, refused, rows.num_rows)

    if rows.num_rows:
        halve(0, rows.num_rows)
    return refused


def must_be_few(sink: str, refused: Sequence[Refusal], count: int) -> None:
    """Raise if it is the table that is wrong."""
    if len(refused) > _MOST or len(refused) == count >= _ALL_OF:
        reason = refused[-1].reason
        raise SinkError(f"sink {sink}: {len(refused):,} of {count:,} rows are refused: {reason}")


def keyless(rows: pa.Table, key: Iterable[str]) -> list[Refusal]:
    """Rows without a key: a store would drop them, or take all of them for one."""
    found = {
        int(row): f"it has no {name}, which is to tell it apart"
        for name in key
        for row in pc.indices_nonzero(rows.column(name).is_null()).to_pylist()
    }
    return [Refusal(row, found[row]) for row in sorted(found)]


def without(rows: pa.Table, refused: Sequence[Refusal]) -> pa.Table:
    """The rows that were not refused."""
    if not refused:
        return rows
    left = set(range(rows.num_rows)) - {refusal.row for refusal in refused}
    return rows.take(pa.array(sorted(left), pa.int64()))


def to_text(refused: Sequence[Refusal]) -> str:
    """As a store keeps them beside the position: a batch that comes again has the same rows at hand."""
    return json.dumps([[refusal.row, refusal.reason] for refusal in refused]) if refused else ""


def from_text(text: str | None) -> tuple[Refusal, ...]:
    return tuple(Refusal(row, reason) for row, reason in json.loads(text)) if text else ()
