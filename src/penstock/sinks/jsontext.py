"""Rows as JSON, and structs, maps and lists of them for stores that hold them as one value."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_COMPACT = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_ESCAPED = r'[\x00-\x1f"\\]'
"""What does not stand for itself in a JSON text."""


def as_json(column: pa.ChunkedArray) -> pa.Array:
    """A column of JSON texts; null stays null."""
    values = column.to_pylist(maps_as_pydicts="lossy")
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def rows_json(rows: pa.Table) -> list[bytes]:
    """Each row as a JSON object. What JSON has not (decimals, dates, NaN) is text.

    Column by column: an object of Python's for every value costs about four times as much.
    """
    pieces: list[pa.Array | str] = []
    for number, name in enumerate(rows.column_names):
        pieces += ["{" if number == 0 else ",", f"{json.dumps(name)}:", _texts(rows.column(number))]
    if not pieces:
        return [b"{}"] * rows.num_rows
    joined = pc.binary_join_element_wise(*pieces, "}", "")
    found: list[bytes] = joined.cast(pa.binary()).to_pylist()
    return found


def value_json(value: Any) -> str:
    """A value as JSON, as compact as can be."""
    try:
        return _COMPACT.encode(value)
    except (TypeError, ValueError):
        return _COMPACT.encode(_plain(value))


def _texts(column: pa.ChunkedArray) -> pa.Array:
    """The JSON of each value of a column."""
    values = column.combine_chunks()
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type):
        texts = values.cast(pa.string())
    elif pa.types.is_string(values.type) and not pc.any(pc.match_substring_regex(values, _ESCAPED)).as_py():
        texts = pc.binary_join_element_wise('"', values, '"', "")
    elif pa.types.is_floating(values.type) and pc.all(pc.is_finite(values)).as_py():
        texts = pa.array([None if each is None else repr(each) for each in values.to_pylist()], pa.string())
    else:
        texts = pa.array(map(value_json, values.to_pylist(maps_as_pydicts="lossy")), pa.string())
    return texts.fill_null("null")


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
