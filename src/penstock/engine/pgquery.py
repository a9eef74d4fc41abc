"""The result of a PostgreSQL query as an Arrow table, by COPY: no Python object is made for a value."""

from __future__ import annotations

import io
from collections.abc import Sequence

import psycopg
import pyarrow as pa
import pyarrow.csv as pacsv

from penstock.engine.unusable import Unusable
from penstock.errors import first_line

_TYPES = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
_NUMERIC = (38, 18)
"""Precision and scale of a numeric that names none."""

_CONNECT = {
    "connect_timeout": 10,
    # A server that vanished in the middle of a result is noticed within half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
_SETTINGS = "SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'; SET LOCAL statement_timeout = '5min'"


def read_query(address: str, query: str) -> pa.Table:
    """The rows of a SELECT, read at one moment; raises Unusable."""
    query = query.strip().rstrip(";")
    try:
        connection = psycopg.connect(address, **_CONNECT)  # type: ignore[arg-type]
    except psycopg.Error as error:
        raise Unusable("away", f"PostgreSQL does not answer: {first_line(error)}") from error
    try:
        with connection, connection.cursor() as cursor:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            cursor.execute(_SETTINGS)
            # The query is the pipeline owner's own. It stands on lines of its own: it may end in a comment.
            cursor.execute(f"SELECT * FROM (\n{query}\n) AS reference LIMIT 0".encode())  # noqa: S608
            schema = _schema(cursor.description or [])
            with cursor.copy(f"COPY (\n{query}\n) TO STDOUT (FORMAT csv)".encode()) as copy:
                return _parse(b"".join(copy), schema)
    except (psycopg.Error, pa.ArrowException) as error:
        raise Unusable("query", f"the query failed: {first_line(error)}") from error


def _schema(columns: Sequence[psycopg.Column]) -> pa.Schema:
    return pa.schema([(column.name, _type(column)) for column in columns])


def _type(column: psycopg.Column) -> pa.DataType:
    """What is no number, truth value or time is taken as its text."""
    if column.type_display.startswith("numeric"):
        return pa.decimal128(*((column.precision, column.scale) if column.precision else _NUMERIC))
    known = psycopg.adapters.types.get(column.type_code)
    return _TYPES.get(known.name if known else "", pa.string())


def _parse(csv: bytes, schema: pa.Schema) -> pa.Table:
    if not csv:
        return schema.empty_table()
    # Names may repeat in a result, so the columns are named after they are read.
    numbers = [str(number) for number in range(len(schema))]
    table = pacsv.read_csv(
        io.BytesIO(csv),
        read_options=pacsv.ReadOptions(column_names=numbers),
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            column_types=dict(zip(numbers, schema.types, strict=True)),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        ),
    )
    return table.rename_columns(schema.names)
