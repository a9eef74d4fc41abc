"""Rows as Kafka messages: sessions as JSON, dead letters as the bytes that came."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from penstock.sinks.jsontext import rows_json
from penstock.sinks.producer import Headers, Message, size_of
from penstock.sinks.topics import MESSAGE_BYTES

_CUT_BYTES = 64
"""Of the header that says so."""
_AT_ONCE = 20_000
"""Rows that are made into text together."""


def json_rows(key: str) -> Callable[[pa.Table], Iterator[Message]]:
    """One JSON object a row, keyed by a column, so that all rows of a key keep their order."""

    def encode(rows: pa.Table) -> Iterator[Message]:
        for start in range(0, rows.num_rows, _AT_ONCE):
            some = rows.slice(start, _AT_ONCE)
            for held, text in zip(_keys(some.column(key)), rows_json(some), strict=True):
                yield {"key": held, "value": text}

    return encode


def dead_letters(topic: str, max_bytes: int = MESSAGE_BYTES) -> Callable[[pa.Table], Iterator[Message]]:
    """The record as it came; why it was set aside and where it stood are in its headers.

    With them it may be larger than the topic allows, and then its end is left out: it must be set aside
    whatever it is.
    """

    def encode(rows: pa.Table) -> Iterator[Message]:
        for row in rows.to_pylist():
            # A row that was made of many records stood nowhere.
            partition, offset = (-1, -1) if row["partition"] is None else (row["partition"], row["offset"])
            headers = {
                "penstock.kind": row["kind"],
                "penstock.reason": row["reason"],
                "penstock.topic": topic,
                "penstock.partition": partition,
                "penstock.offset": offset,
                "penstock.query": row["query"],
                "penstock.batch": row["batch"],
            }
            origin = f"{partition}:{offset}".encode() if row["kind"] != "refused" else _name(row)
            yield _cut(origin, row["raw"], headers, max_bytes)

    return encode


def _name(row: dict[str, Any]) -> bytes:
    """What a refused row is called: several sinks may refuse rows of one record."""
    return blake2b(f"{row['reason']}\n".encode() + (row["raw"] or b""), digest_size=12).hexdigest().encode()


def _cut(key: bytes, raw: bytes | None, headers: dict[str, Any], max_bytes: int) -> Message:
    encoded: Headers = [(name, _bytes(value)) for name, value in headers.items()]
    whole: Message = {"key": key, "value": raw, "headers": encoded}
    over = size_of(whole) - max_bytes
    if raw is None or over <= 0:
        return whole
    cut = raw[: max(0, len(raw) - over - _CUT_BYTES)]
    return {"key": key, "value": cut, "headers": [*encoded, ("penstock.cut", _bytes(len(raw)))]}


def _keys(column: pa.ChunkedArray) -> list[bytes]:
    if pa.types.is_string(column.type) and column.null_count == 0:
        found: list[bytes] = column.cast(pa.binary()).to_pylist()
        return found
    return list(map(_bytes, column.to_pylist()))


def _bytes(value: object) -> bytes:
    return str(value).encode()
