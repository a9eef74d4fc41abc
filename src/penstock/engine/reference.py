"""Reference data as it is read: a Parquet or CSV file, or a query, as one Arrow table of a known form."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from penstock.engine.pgquery import read_query
from penstock.engine.unusable import Unusable
from penstock.errors import SpecError, first_line
from penstock.spec import Enrich

KEY = "_key"
"""The column to match, as text. The columns taken stand after it."""

_TIMESTAMP = pa.timestamp("us", "UTC")
_WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
# Text too where there is no value at all to guess a type from.
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)


@dataclass(frozen=True)
class Version:
    """The content of a reference table, named by its digest."""

    id: str
    parquet: bytes
    read_at_ms: int

    @classmethod
    def of(cls, table: pa.Table) -> Version:
        file = io.BytesIO()
        pq.write_table(table, file, compression="zstd")
        content = file.getvalue()
        return cls(hashlib.sha256(content).hexdigest()[:12], content, time.time_ns() // 1_000_000)

    def table(self, enrich: Enrich, schema: pa.Schema | None = None) -> pa.Table:
        """The rows, made to fit what the spec takes now; raises Unusable."""
        table = pq.read_table(io.BytesIO(self.parquet))
        if table.schema == schema:
            return table
        return conform(table.rename_columns([enrich.on, *table.column_names[1:]]), enrich, schema)

    @property
    def at(self) -> str:
        """The time of day when it was read."""
        return f"{datetime.fromtimestamp(self.read_at_ms / 1000):%H:%M}"


@dataclass(frozen=True)
class Source:
    """Where one table comes from."""

    enrich: Enrich
    data: Path
    """The directory that a path is relative to."""
    postgres: str

    def stamp(self) -> object:
        """What changes when a file is written; None of a query, which must be run to know."""
        if self.enrich.path is None:
            return None
        path = self.data / self.enrich.path
        try:
            files = sorted(path.rglob("*")) if path.is_dir() else [path]
            return [(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files]
        except OSError as error:
            raise Unusable("gone", f"no such file ({path})") from error

    def read(self, schema: pa.Schema | None = None) -> pa.Table:
        """The table in the form of `conform`; raises Unusable."""
        if self.enrich.path is None:
            return conform(read_query(self.postgres, str(self.enrich.query)), self.enrich, schema)
        stamp = self.stamp()
        table = conform(_read_file(self.data / self.enrich.path, self.enrich, schema), self.enrich, schema)
        # A file that is written in place may have been read in part.
        if self.stamp() != stamp:
            raise Unusable("changing", "the file changed while it was read; replace it by renaming another")
        return table


def conform(table: pa.Table, enrich: Enrich, schema: pa.Schema | None = None) -> pa.Table:
    """The key and the columns taken, by key: without nulls in the key, each key once, plain types.

    The order makes the digest of a query's result independent of the order in which it came. With a schema,
    the types are those of it, where that loses nothing.
    """
    if problems := list(_wrong_columns(table.column_names, enrich)):
        raise Unusable("columns", *problems)
    columns = {KEY: _cast(enrich.on, table.column(enrich.on), _key_type(table.schema.field(enrich.on)))}
    for name in enrich.take:
        type_ = schema.field(name).type if schema else _plain_type(table.schema.field(name))
        columns[name] = _cast(name, table.column(name), type_)
    rows = pa.table(columns)
    rows = rows.filter(pc.is_valid(rows.column(KEY))).sort_by(KEY).combine_chunks()
    keys = rows.column(KEY)
    repeated = keys[1:].filter(pc.equal(keys[1:], keys[:-1])) if len(keys) > 1 else keys[:0]
    if len(repeated):
        raise Unusable("duplicate", f"{enrich.on} '{repeated[0]}' stands twice; a join would double events")
    return rows


def _wrong_columns(known: list[str], enrich: Enrich) -> Iterator[str]:
    where = Path(enrich.path).name if enrich.path else "the query's result"
    for name in (enrich.on, *enrich.take):
        if name not in known:
            yield f'"{name}": no such column in {where} (known: {", ".join(known)})'
        elif known.count(name) > 1:
            yield f'"{name}": {known.count(name)} columns of that name in {where}'


def row_of_unknown_keys(enrich: Enrich, schema: pa.Schema) -> pa.Table:
    """One row without a key: the declared defaults, null where there is none."""
    problems, columns = [], {KEY: pa.array([None], pa.string())}
    for name in enrich.take:
        type_ = schema.field(name).type
        given = enrich.default.get(name)
        try:
            columns[name] = pa.array([None if given is None else _literal(given, type_)], type_)
        except (ValueError, TypeError, InvalidOperation, OverflowError):
            problems.append(f"default.{name} = {given!r}: expected a value for {name}, which is {type_}")
    if problems:
        raise SpecError(f"enrich {enrich.name}", problems)
    return pa.table(columns, schema)


def _literal(given: str | float | bool, type_: pa.DataType) -> Any:
    """A literal of the spec as a value of a column's type; raises where it is none."""
    wanted: tuple[type, ...]
    value: Any = given
    if pa.types.is_boolean(type_):
        wanted = (bool,)
    elif pa.types.is_integer(type_):
        wanted = (int,)
    elif pa.types.is_floating(type_):
        wanted, value = (int, float), float(given)
    elif pa.types.is_decimal(type_):
        wanted, value = (int, float, str), Decimal(str(given))
    elif pa.types.is_date(type_):
        wanted, value = (str,), date.fromisoformat(str(given))
    elif pa.types.is_timestamp(type_):
        moment = datetime.fromisoformat(str(given))
        wanted, value = (str,), moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    else:
        wanted = (str,)
    if not isinstance(given, wanted) or (isinstance(given, bool) and bool not in wanted):
        raise TypeError
    return value


def _read_file(path: Path, enrich: Enrich, schema: pa.Schema | None) -> pa.Table:
    try:
        if path.name.endswith((".csv", ".csv.gz")):
            return _read_csv(path, enrich, schema)
        # Only what is needed, but all names where one is missing: the message lists them.
        known = pq.read_schema(path).names if path.is_file() else None
        wanted = [enrich.on, *enrich.take]
        return pq.read_table(path, columns=wanted if known and set(wanted) <= set(known) else None)
    except FileNotFoundError as error:
        raise Unusable("gone", f"no such file ({path})") from error
    except (pa.ArrowException, OSError) as error:
        kind = "CSV" if path.name.endswith((".csv", ".csv.gz")) else "Parquet"
        raise Unusable("broken", f"not a {kind} file: {first_line(error)}") from error


def _read_csv(path: Path, enrich: Enrich, schema: pa.Schema | None) -> pa.Table:
    # A key is text as it stands: "007" is not 7. A type that was guessed once is not guessed again, but for
    # times, of which Arrow reads none with a zone unless each has one.
    known = {field.name: field.type for field in schema or () if not pa.types.is_temporal(field.type)}
    return pacsv.read_csv(
        path,
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            column_types={**known, enrich.on: pa.string()},
            # Arrow's own list has "NA", which is Namibia.
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _key_type(field: pa.Field) -> pa.DataType:
    type_ = _plain_type(field)
    if not (pa.types.is_string(type_) or pa.types.is_integer(type_) or pa.types.is_date(type_)):
        raise Unusable("types", f'"{field.name}" is {type_}: a key is a text, a whole number or a date')
    return pa.string()


def _plain_type(field: pa.Field) -> pa.DataType:
    """The type to hold a column in: what Spark, too, has a type for."""
    type_ = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if any(is_text(type_) for is_text in _TEXTS):
        return pa.string()
    if pa.types.is_timestamp(type_):
        return _TIMESTAMP
    if pa.types.is_date(type_):
        return pa.date32()
    if pa.types.is_decimal(type_) and type_.precision <= 38:
        return pa.decimal128(type_.precision, type_.scale)
    if type_ in _WIDER:
        return _WIDER[type_]
    held = (
        pa.types.is_boolean(type_)
        or pa.types.is_signed_integer(type_)
        or type_ in (pa.float32(), pa.float64())
    )
    if not held:
        raise Unusable(
            "types", f'"{field.name}" is {type_}, which a lookup cannot hold; leave it out or cast it'
        )
    return type_


def _cast(name: str, column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return column.cast(options=pc.CastOptions(target_type=type_, allow_time_truncate=True))
    except pa.ArrowException as error:
        raise Unusable("types", f'"{name}" was {type_}, is {column.type}: {first_line(error)}') from error
