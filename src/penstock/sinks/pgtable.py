"""A PostgreSQL table that holds one row for each key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from penstock.errors import SinkError, first_line
from penstock.sinks.pgcopy import column_type, encode
from penstock.sinks.protocol import Refusal
from penstock.sinks.refusals import keyless, must_be_few, sift, without

Connection = psycopg.Connection[tuple[Any, ...]]

_INCOMING = sql.Identifier("pg_temp", "penstock_incoming")
_PLACE = "penstock row"
"""A column beside the table's own, while rows are sorted."""

# What a table says to a row and not to a statement: a value it cannot hold, a constraint, a trigger that
# raises an exception.
REFUSING = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.RaiseException)

_COLUMNS = (
    "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
)


class KeyedTable:
    """A table, made or found, that takes rows by their key. The caller opens and commits the transaction."""

    def __init__(self, sink: str, table: str, key: Sequence[str], version: str | None) -> None:
        self._sink = sink
        self._key = tuple(key)
        self._version = version
        *schema, base = table.split(".")
        self._table = sql.Identifier(*schema, base)
        self._view = sql.Identifier(*schema, f"{base}_latest")

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that no row can do without."""
        return (*self._key, self._version) if self._version else self._key

    def create(self, connection: Connection, schema: pa.Schema) -> None:
        """Make what is not there. What is there may be anybody's; it must have the columns."""
        columns = self._column_types(schema)
        if not exists(connection, self._table):
            connection.execute(self._ddl(schema, columns))
        self._check_columns(connection, columns)
        if "kind" in columns and not exists(connection, self._view):
            view = sql.SQL("CREATE VIEW {} AS SELECT * FROM {} WHERE kind IS DISTINCT FROM 'retracted'")
            connection.execute(view.format(self._view, self._table))

    def upsert(self, connection: Connection, rows: pa.Table, max_rows: int) -> None:
        """Put the newest row of each key in, in statements of at most `max_rows`.

        So a large batch stays within the statement timeout. 20,000 rows in four statements take 4 to 8 %
        longer than in one.
        """
        rows = newest_of_each(rows, self._key, self._version)
        if rows.num_rows:
            put = self._putting(connection, rows.column_names)
            for start in range(0, rows.num_rows, max_rows):
                put(rows.slice(start, max_rows))

    def upsert_most(self, connection: Connection, rows: pa.Table, max_rows: int) -> list[Refusal]:
        """The same, but for rows that the table does not take; where in `rows` they stand, and why."""
        refused = keyless(rows, self.identity)
        places = pa.array(np.arange(rows.num_rows))
        placed = without(rows.append_column(_PLACE, places), refused)
        placed = newest_of_each(placed, self._key, self._version)
        if not placed.num_rows:
            return refused
        # A constraint that is checked at the commit could no longer be laid to a row.
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        put = self._putting(connection, rows.column_names)

        def tried(some: pa.Table) -> str | None:
            try:
                with connection.transaction():  # a savepoint
                    put(some.drop_columns(_PLACE))
            except REFUSING as error:
                return error.diag.message_primary or first_line(error)
            return None

        for start in range(0, placed.num_rows, max_rows):
            some = placed.slice(start, max_rows)
            at = some.column(_PLACE).to_pylist()
            refused += [Refusal(at[found.row], found.reason) for found in sift(self._sink, some, tried)]
        must_be_few(self._sink, refused, rows.num_rows)
        return sorted(refused, key=lambda refusal: refusal.row)

    def _putting(self, connection: Connection, names: Sequence[str]) -> Callable[[pa.Table], None]:
        """What puts rows with these columns in, within the present transaction."""
        copied = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(_INCOMING, _listed(names))
        merge = self._merge(names)
        connection.execute(
            sql.SQL("CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA").format(
                _INCOMING, _listed(names), self._table
            )
        )
        used = False

        def put(rows: pa.Table) -> None:
            nonlocal used
            if used:
                connection.execute(sql.SQL("TRUNCATE {}").format(_INCOMING))
            used = True
            with connection.cursor() as cursor, cursor.copy(copied) as copy:
                copy.write(encode(rows))
            self._run_merge(connection, merge)

        return put

    def _run_merge(self, connection: Connection, merge: sql.Composed) -> None:
        try:
            connection.execute(merge)
        except psycopg.errors.InvalidColumnReference as error:
            index = sql.SQL("CREATE UNIQUE INDEX ON {} ({})").format(self._table, _listed(self._key))
            keys = ", ".join(self._key)
            raise SinkError(
                f"sink {self._sink}: table {_text(self._table)} has no unique index on {keys}",
                hint=f"Create it ({_text(index)}) or name another table in the spec.",
            ) from error

    def _merge(self, names: Sequence[str]) -> sql.Composed:
        settable = [sql.Identifier(name) for name in names if name not in self._key]
        action: sql.SQL | sql.Composed = sql.SQL("NOTHING")
        if settable:
            sets = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(name) for name in settable)
            action = sql.SQL("UPDATE SET ") + sets
            if self._version:
                # A row that came without a version, from elsewhere, gives way.
                newer = sql.SQL(" WHERE (held.{0} < excluded.{0}) IS NOT FALSE")
                action += newer.format(sql.Identifier(self._version))
        return sql.SQL("INSERT INTO {} AS held ({}) SELECT {} FROM {} ON CONFLICT ({}) DO {}").format(
            self._table, _listed(names), _listed(names), _INCOMING, _listed(self._key), action
        )

    def _ddl(self, schema: pa.Schema, columns: Mapping[str, str]) -> sql.Composed:
        lines = [
            _column(field.name, columns[field.name] + ("" if field.nullable else " NOT NULL"))
            for field in schema
        ]
        lines.append(sql.SQL("PRIMARY KEY ({})").format(_listed(self._key)))
        return sql.SQL("CREATE TABLE {} ({})").format(self._table, sql.SQL(", ").join(lines))

    def _column_types(self, schema: pa.Schema) -> dict[str, str]:
        try:
            return {field.name: column_type(field) for field in schema}
        except TypeError as error:
            raise SinkError(
                f"sink {self._sink}: {error}", hint="Cast the column to another type in the spec."
            ) from error

    def _check_columns(self, connection: Connection, wanted: Mapping[str, str]) -> None:
        have = {name for (name,) in connection.execute(_COLUMNS, [_text(self._table)])}
        missing = [name for name in wanted if name not in have]
        if missing:
            adds = sql.SQL(", ADD COLUMN ").join(_column(name, wanted[name]) for name in missing)
            statement = sql.SQL("ALTER TABLE {} ADD COLUMN {}").format(self._table, adds)
            raise SinkError(
                f"sink {self._sink}: table {_text(self._table)} has no column {', '.join(missing)}",
                hint=f"Add it ({_text(statement)}) or name another table in the spec.",
            )


def newest_of_each(rows: pa.Table, key: Sequence[str], version: str | None) -> pa.Table:
    """The newest row of each key: the last of the highest version. In the order of the keys.

    ON CONFLICT refuses to touch a row twice. Writers that take rows in one order cannot deadlock.
    """
    if not rows.num_rows:
        return rows
    by = [(name, "ascending") for name in (*key, *([version] if version else []))]
    ordered = rows.take(pc.sort_indices(rows, sort_keys=by))  # stable, so that the last one stays the last
    changes = (pc.not_equal(ordered.column(name)[1:], ordered.column(name)[:-1]) for name in key)
    is_last = np.append(reduce(pc.or_, changes).to_numpy(), True)
    return ordered if is_last.all() else ordered.filter(pa.array(is_last))


def exists(connection: Connection, relation: sql.Identifier) -> bool:
    """Whether a table or view is there, for a user who may look and not create."""
    found = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [_text(relation)]).fetchone()
    return found == (True,)


def _listed(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def _column(name: str, kind: str) -> sql.Composed:
    return sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind))


def _text(statement: sql.Composable) -> str:
    return statement.as_string(None)
