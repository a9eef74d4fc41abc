"""Rows as JSON, and structs, maps and lists of them for stores that hold them as one value."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_COMPACT = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_ESCAPED = np.array([byte < 0x20 or chr(byte) in '"\\' for byte in range(256)])
"""The bytes that do not stand for themselves in a JSON text."""


def as_json(column: pa.ChunkedArray) -> pa.Array:
    """A column of JSON texts; null stays null."""
    values = column.to_pylist(maps_as_pydicts="lossy")
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def rows_json(rows: pa.Table) -> list[bytes]:
    """Each row as a JSON object. What JSON has not (decimals, dates, NaN) is text.

    Column by column: an object of Python's for every value costs four times as much. What stands between
    two values, and values that are the same in all rows, is one piece: the cost is that of the pieces.
    """
    pieces: list[pa.Array | str] = []
    between = "{"
    for number, name in enumerate(rows.column_names):
        values = rows.column(number).combine_chunks()
        between += f"{json.dumps(name)}:"
        if _is_constant(values):
            between += f"{value_json(values[0].as_py(maps_as_pydicts='lossy'))},"
        elif values.null_count == 0 and _is_plain(values):
            pieces += [between + '"', values]
            between = '",'
        else:
            pieces += [between, _texts(values)]
            between = ","
    end = between.removesuffix(",") + "}"
    if not pieces:
        return [end.encode()] * rows.num_rows
    joined = pc.binary_join_element_wise(*pieces, end, "")
    found: list[bytes] = joined.cast(pa.binary()).to_pylist()
    return found


def value_json(value: Any) -> str:
    """A value as JSON, as compact as can be."""
    try:
        return _COMPACT.encode(value)
    except (TypeError, ValueError):
        return _COMPACT.encode(_plain(value))


def _texts(values: pa.Array) -> pa.Array:
    """The JSON of each value of a column."""
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type):
        texts = values.cast(pa.string())
    elif _is_plain(values):
        texts = pc.binary_join_element_wise('"', values, '"', "")
    elif pa.types.is_floating(values.type) and pc.all(pc.is_finite(values)).as_py():
        texts = pa.array([None if each is None else repr(each) for each in values.to_pylist()], pa.string())
    else:
        texts = pa.array(map(value_json, values.to_pylist(maps_as_pydicts="lossy")), pa.string())
    return texts.fill_null("null")


def _is_plain(values: pa.Array) -> bool:
    """Whether it is a column of texts that stand for themselves in JSON, between quotes."""
    if not pa.types.is_string(values.type):
        return False
    held, start, end = _bytes_of(values)
    return not _ESCAPED[held[start:end]].any()


def _is_constant(values: pa.Array) -> bool:
    """Whether all are the same number or text. Only a column of one length can be."""
    if values.null_count or not len(values):
        return False
    if pa.types.is_integer(values.type):
        return bool((values.to_numpy() == values[0].as_py()).all())
    if not pa.types.is_string(values.type):
        return False
    held, start, end = _bytes_of(values)
    length = len(values[0].as_py().encode())
    if end - start != length * len(values):
        return False
    return bool(
        (held[start:end].reshape(len(values), length) == held[start : start + length]).all()
    ) and bool(pc.all(pc.equal(pc.binary_length(values), length)).as_py())


def _bytes_of(values: pa.Array) -> tuple[npt.NDArray[np.uint8], int, int]:
    """The bytes that a column of texts is kept in, and where its own start and end."""
    _, offsets, held = values.buffers()
    places = np.frombuffer(offsets, np.int32)
    start, end = int(places[values.offset]), int(places[values.offset + len(values)])
    return np.frombuffer(held or b"", np.uint8), start, end


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
