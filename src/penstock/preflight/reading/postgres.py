"""What a PostgreSQL server tells of the pipeline's tables and rights."""

from __future__ import annotations

import psycopg
from psycopg import sql

from penstock.errors import first_line
from penstock.preflight.facts import (
    Away,
    Held,
    NoPosition,
    PostgresFacts,
    PostgresTable,
    Unreadable,
    queries,
)
from penstock.preflight.wanted import positions_beside
from penstock.sinks.pgtable import Connection
from penstock.sinks.postgres import parse_address
from penstock.sinks.protocol import Position
from penstock.spec import PipelineSpec, PostgresSink

_CONNECTION = {"application_name": "penstock check", "connect_timeout": 5}

_SERVER = """
SELECT split_part(version(), ' ', 2),
       pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on',
       current_setting('fsync') = 'on',
       has_database_privilege(current_database(), 'TEMPORARY'),
       current_setting('max_connections')::int,
       current_setting('superuser_reserved_connections')::int,
       (SELECT count(*) FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()),
       (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
"""
_COLUMNS = """
SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
"""
# What ON CONFLICT can name: whole, valid, checked at once. The key columns come before those of INCLUDE.
_UNIQUE = """
SELECT array_agg(a.attname::text) FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE i.indrelid = %s::regclass AND i.indisunique AND i.indisvalid AND i.indimmediate
AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid
"""
_WRITABLE = """
SELECT bool_and(has_table_privilege(%s::regclass, needed))
FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) needed
"""
_CREATABLE = """
SELECT has_schema_privilege(coalesce(%s, current_schema()), 'CREATE')
WHERE EXISTS (SELECT FROM pg_namespace WHERE nspname = coalesce(%s, current_schema()))
"""
_POSITIONS = "SELECT slot, batch, rows, digest FROM {} WHERE query = %s AND sink = %s"


def read_postgres(spec: PipelineSpec, address: str) -> PostgresFacts | Away:
    try:
        parts = parse_address(address)
    except ValueError as error:
        return Away("the address", str(error), refused=True)
    where = f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}"
    try:
        with psycopg.connect(**{**_CONNECTION, **parts}, autocommit=True) as connection:
            # Not read-only by a setting of ours: whether it is by one of the server's is a question.
            return _facts(spec, connection, where)
    except psycopg.Error as error:
        text = first_line(error)
        # A server that starts or stops says so in a FATAL too, but will let us in later.
        refused = "FATAL" in str(error) and "the database system is" not in str(error)
        return Away(where, text, refused=refused)


def _facts(spec: PipelineSpec, connection: Connection, where: str) -> PostgresFacts:
    sinks = [sink for sink in spec.sink if isinstance(sink, PostgresSink)]
    once = [sink for sink in sinks if sink.guarantee == "exactly_once"]
    names = sorted({sink.table for sink in sinks} | {positions_beside(sink.table) for sink in once})
    tables = {name: _table(connection, name) for name in names}
    found = connection.execute(_SERVER).fetchone()
    assert found is not None  # noqa: S101  (a SELECT without FROM has one row)
    version, read_only, fsync, may_make_temporary, maximum, reserved, used, superuser = found
    return PostgresFacts(
        where=where,
        version=version,
        tables=tables,
        creatable={name: _creatable(connection, name) for name, table in tables.items() if table is None},
        read_only=read_only,
        fsync=fsync,
        may_make_temporary=may_make_temporary,
        connections_max=maximum,
        connections_free=max(0, maximum - used - (0 if superuser else reserved)),
        positions={
            sink.name: _positions(connection, query, sink, tables)
            for query, its_sinks in queries(spec).items()
            for sink in its_sinks
            if sink in once and isinstance(sink, PostgresSink)
        },
    )


def _table(connection: Connection, name: str) -> PostgresTable | None:
    text = _identifier(name).as_string(None)
    if connection.execute("SELECT to_regclass(%s)", [text]).fetchone() == (None,):
        return None
    return PostgresTable(
        columns=frozenset(column for (column,) in connection.execute(_COLUMNS, [text])),
        unique=frozenset(frozenset(columns) for (columns,) in connection.execute(_UNIQUE, [text])),
        writable=connection.execute(_WRITABLE, [text]).fetchone() == (True,),
    )


def _creatable(connection: Connection, name: str) -> bool:
    schema = name.split(".")[0] if "." in name else None
    return connection.execute(_CREATABLE, [schema, schema]).fetchone() == (True,)


def _positions(
    connection: Connection, query: str, sink: PostgresSink, tables: dict[str, PostgresTable | None]
) -> tuple[Held, ...]:
    name = positions_beside(sink.table)
    if tables[name] is None:
        return (NoPosition(),) * sink.writers
    try:
        statement = sql.SQL(_POSITIONS).format(_identifier(name))
        held = {slot: Position(*rest) for slot, *rest in connection.execute(statement, [query, sink.name])}
    except psycopg.Error as error:
        return (Unreadable(first_line(error)),) * sink.writers
    return tuple(held.get(slot, NoPosition()) for slot in range(sink.writers))


def _identifier(name: str) -> sql.Identifier:
    return sql.Identifier(*name.split("."))
