"""Arrow rows as PostgreSQL's COPY reads them.

As CSV: Arrow writes a row of 11 columns in 0.7 µs, and PostgreSQL reads it into whatever type a column has
(a text into a uuid, say). The same rows, given to psycopg one by one, take 7 to 9 µs, as text or as binary.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, types

from penstock.sinks.jsontext import as_json

# "all_valid" quotes all but nulls: an empty text comes back as an empty text, and a null as a null.
_CSV = csv.WriteOptions(include_header=False, quoting_style="all_valid")

_NAMES = {
    pa.string(): "text",
    pa.large_string(): "text",
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.date32(): "date",
    pa.binary(): "bytea",
}


def column_type(field: pa.Field) -> str:
    """The type of the column that holds such values."""
    arrow = field.type
    if types.is_decimal(arrow):
        return f"numeric({arrow.precision},{arrow.scale})"
    if types.is_timestamp(arrow):
        return "timestamptz" if arrow.tz else "timestamp"
    if _is_array(arrow):
        return f"{column_type(arrow.value_field.with_name(field.name))}[]"
    if types.is_nested(arrow):
        return "jsonb"
    if arrow not in _NAMES:
        raise TypeError(f"PostgreSQL has no type for column {field.name} ({arrow})")
    return _NAMES[arrow]


def encode(rows: pa.Table) -> bytes:
    """The rows as CSV. U+0000, which no PostgreSQL text can hold, becomes U+FFFD."""
    out = pa.BufferOutputStream()
    ready = pa.table([_writable(column) for column in rows.columns], names=rows.column_names)
    csv.write_csv(ready, out, _CSV)
    encoded: bytes = out.getvalue().to_pybytes()
    return encoded.replace(b"\0", "\ufffd".encode()) if b"\0" in encoded else encoded


def _writable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column that Arrow can write as CSV and that PostgreSQL reads as what it was."""
    if types.is_timestamp(column.type) and column.type.tz:
        # The time in UTC, which is the session's zone. With a zone, Arrow looks for a time zone database.
        return column.cast(pa.timestamp(column.type.unit))
    if types.is_binary(column.type):
        texts = (None if value is None else f"\\x{value.hex()}" for value in column.to_pylist())
        return pa.array(texts, pa.string())
    if _is_array(column.type):
        return _array_literals(column.combine_chunks())
    if types.is_nested(column.type):
        return as_json(column)
    return column


def _is_array(arrow: pa.DataType) -> bool:
    """Whether it is a list of plain values; PostgreSQL's arrays of arrays must all be of one length."""
    return types.is_list(arrow) and not types.is_nested(arrow.value_type)


def _array_literals(lists: pa.ListArray) -> pa.Array:
    """Lists as PostgreSQL writes arrays: {"a","b\\"c",NULL}."""
    values = _writable(pa.chunked_array([lists.flatten()])).cast(pa.string())
    for special in ("\\", '"'):
        values = pc.replace_substring(values, special, f"\\{special}")
    quoted = pc.binary_join_element_wise('"', values, '"', "").fill_null("NULL")
    if isinstance(quoted, pa.ChunkedArray):
        quoted = quoted.combine_chunks()
    lengths = pc.list_value_length(lists)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths.fill_null(0))])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, quoted), ",")
    return pc.if_else(pc.is_null(lengths), None, pc.binary_join_element_wise("{", joined, "}", ""))
