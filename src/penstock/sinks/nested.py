"""Rows, and structs, maps and lists of them as JSON, for stores that hold them as one value."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa


def as_json(column: pa.ChunkedArray) -> pa.Array:
    """A column of JSON texts; null stays null."""
    values = column.to_pylist(maps_as_pydicts="lossy")
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def row_json(row: Mapping[str, Any]) -> str:
    """A row as JSON; what JSON has not (decimals, dates, NaN) as text."""
    try:
        return json.dumps(row, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        return json.dumps(_plain(row), separators=(",", ":"))


def _text(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """A value that JSON has. What it has not (decimals, dates, NaN) becomes text: no digit is lost."""
    if isinstance(value, dict):
        return {str(_plain(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")  # PostgreSQL's jsonb refuses U+0000
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)
