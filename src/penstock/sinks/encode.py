"""Rows as Kafka messages: sessions as JSON, dead letters as the bytes that came."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pyarrow as pa

from penstock.sinks.kafka import Message


def json_rows(key: str) -> Callable[[pa.Table], Iterator[Message]]:
    """One JSON object a row, keyed by a column, so that all rows of a key keep their order."""

    def encode(rows: pa.Table) -> Iterator[Message]:
        for row in rows.to_pylist():
            yield Message(_bytes(row[key]), json.dumps(row, separators=(",", ":")).encode())

    return encode


def dead_letters(topic: str) -> Callable[[pa.Table], Iterator[Message]]:
    """The record as it came; why it was set aside and where it stood are in its headers."""

    def encode(rows: pa.Table) -> Iterator[Message]:
        for row in rows.to_pylist():
            headers = {
                "penstock.kind": row["kind"],
                "penstock.reason": row["reason"],
                "penstock.topic": topic,
                "penstock.partition": row["partition"],
                "penstock.offset": row["offset"],
                "penstock.query": row["query"],
                "penstock.batch": row["batch"],
            }
            origin = f"{row['partition']}:{row['offset']}".encode()
            yield Message(origin, row["raw"], tuple((name, _bytes(value)) for name, value in headers.items()))

    return encode


def _bytes(value: object) -> bytes:
    return str(value).encode()
