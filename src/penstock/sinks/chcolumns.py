"""Arrow columns as ClickHouse holds them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from penstock.sinks.jsontext import as_json

_NAMES = {
    pa.string(): "String",
    pa.binary(): "String",
    pa.bool_(): "Bool",
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.float32(): "Float32",
    pa.float64(): "Float64",
    pa.date32(): "Date32",
}
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def column_type(field: pa.Field) -> str:
    """The type of the column that holds such values. An array is never null in ClickHouse, but empty."""
    base = _base_type(field)
    return f"Nullable({base})" if field.nullable and not _is_array(field.type) else base


def storable(rows: pa.Table) -> pa.Table:
    """The rows as ClickHouse gives them back: structs and maps as JSON, no list for an empty list."""
    for at, field in enumerate(rows.schema):
        column = rows.column(at)
        if _is_array(field.type):
            rows = rows.set_column(at, field, pc.fill_null(column, pa.scalar([], field.type)))
        elif types.is_nested(field.type):
            rows = rows.set_column(at, field.with_type(pa.string()), as_json(column))
    return rows


def sortable(rows: pa.Table) -> pa.Table:
    """The rows with lists as JSON: Arrow does not sort by lists."""
    for at, field in enumerate(rows.schema):
        if types.is_nested(field.type):
            rows = rows.set_column(at, field.name, as_json(rows.column(at)))
    return rows


def _base_type(field: pa.Field) -> str:
    arrow = field.type
    if types.is_decimal(arrow):
        return f"Decimal({arrow.precision}, {arrow.scale})"
    if types.is_timestamp(arrow):
        # UTC for a time without a zone too: shown in the server's zone it would be another time.
        return f"DateTime64({_DIGITS[arrow.unit]}, 'UTC')"
    if _is_array(arrow):
        return f"Array({column_type(arrow.value_field.with_name(field.name))})"
    if types.is_nested(arrow):
        return "String"
    if arrow not in _NAMES:
        raise TypeError(f"ClickHouse has no type for column {field.name} ({arrow})")
    return _NAMES[arrow]


def _is_array(arrow: pa.DataType) -> bool:
    return types.is_list(arrow) and not types.is_nested(arrow.value_type)
