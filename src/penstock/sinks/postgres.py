"""Rows into a PostgreSQL table, one transaction a batch, with the position in it."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from penstock.errors import SinkError
from penstock.sinks.keys import require_keys
from penstock.sinks.pgtable import REFUSING, Connection, KeyedTable, exists
from penstock.sinks.protocol import Batch, Position, Refusal, Written, must_write
from penstock.sinks.refusals import from_text, to_text
from penstock.tuning import tuned

POSITIONS_TABLE = "penstock_positions"
"""In the schema of the sink's table, where the sink's user may create tables."""

_SYNCHRONOUS = """
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""

_POSITIONS_DDL = sql.SQL("""
CREATE TABLE {} (
  query text, sink text, slot integer, batch bigint NOT NULL, rows bigint NOT NULL, digest text NOT NULL,
  refused text NOT NULL DEFAULT '', written_at timestamptz NOT NULL, PRIMARY KEY (query, sink, slot)
)
""")
_READ = sql.SQL("SELECT batch, rows, digest FROM {} WHERE query = %s AND sink = %s AND slot = %s")
_READ_REFUSED = sql.SQL("SELECT refused FROM {} WHERE query = %s AND sink = %s AND slot = %s")
_MARK = sql.SQL("""
INSERT INTO {} (query, sink, slot, batch, rows, digest, refused, written_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, clock_timestamp())
ON CONFLICT (query, sink, slot) DO UPDATE
SET batch = excluded.batch, rows = excluded.rows, digest = excluded.digest, refused = excluded.refused,
written_at = excluded.written_at
""")

_LOCK = "SELECT pg_advisory_xact_lock(%s)"
# pg_locks shows the 64 bits of such a lock as two numbers.
_END_HOLDERS = """
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) = %s
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND granted AND pid <> pg_backend_pid()
"""


class PostgresSink:
    """Rows into a table, one for each key: the newest.

    Lost: nothing that was acknowledged, as long as the server has fsync on.
    Duplicated: nothing: a row that comes again meets its key. Exactly once, a batch that comes again is
      compared and not written; at least once, it is written over itself.
    Delayed: a batch is visible as a whole when its transaction commits.
    With `version` only a higher version replaces a row; without, whatever comes later.
    Readers of rows with a `kind` use the view TABLE_latest, which leaves out the retracted ones.
    """

    def __init__(
        self,
        name: str,
        address: str,
        table: str,
        query: str,
        *,
        key: Sequence[str],
        version: str | None,
        exactly_once: bool,
        max_rows: int = 5_000,
        set_aside: bool = False,
        adopt: bool = False,
        slot: int = 0,
    ) -> None:
        """`set_aside`: rows that the table does not take are left out and told of; else the batch fails."""
        self.name = name
        self._set_aside = set_aside
        self._table = KeyedTable(name, table, key, version)
        self._exactly_once = exactly_once
        self._max_rows = max_rows
        self._adopt = adopt
        self._positions = sql.Identifier(*table.split(".")[:-1], POSITIONS_TABLE)
        self._place = (query, name, slot)
        self._lock = _lock_key(self._positions.as_string(None), *self._place)
        self._opened = False
        self._connection = self._connect(address)

    def _connect(self, address: str) -> Connection:
        try:
            parts = parse_address(address)
        except ValueError as error:
            raise SinkError(
                f"sink {self.name}: {error}",
                hint="Write postgresql://user:password@host:port/database, with %40 for @ and %2F for /.",
            ) from error
        try:
            return _open(parts)
        except psycopg.Error as error:
            where = f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}"
            raise SinkError(f"sink {self.name}: PostgreSQL at {where} does not answer: {error}") from error

    def write(self, batch: Batch) -> Written:
        if not self._set_aside:
            require_keys(self.name, batch.rows, self._table.identity)
        try:
            if not self._opened:
                self._create(batch)
            with self._connection.transaction():
                replayed = self._exactly_once and not self._is_due(batch)
                refused = self._refused_before() if replayed else self._put(batch)
                if self._exactly_once and not replayed:
                    self._mark(batch, refused)
        except REFUSING as error:
            raise SinkError(
                f"sink {self.name}: {error}",
                hint='To set rows aside that the table does not take, give a sink rows = ["refused"].',
            ) from error
        except psycopg.Error as error:
            raise SinkError(f"sink {self.name}: {error}") from error
        self._opened, self._adopt = True, False
        return Written(batch.count, batch.digest, replayed, tuple(refused))

    def _put(self, batch: Batch) -> Sequence[Refusal]:
        if self._set_aside:
            return self._table.upsert_most(self._connection, batch.rows, self._max_rows)
        self._table.upsert(self._connection, batch.rows, self._max_rows)
        return ()

    def _refused_before(self) -> Sequence[Refusal]:
        """What was refused of the batch that the sink holds: its rows are the same when they come again."""
        held = self._connection.execute(_READ_REFUSED.format(self._positions), self._place).fetchone()
        return from_text(held[0] if held else None)

    def _create(self, batch: Batch) -> None:
        with self._connection.transaction():
            # CREATE ... IF NOT EXISTS fails when two sinks do it at once, and for a user who may not create.
            self._connection.execute(_LOCK, [_lock_key("create")])
            if self._exactly_once and not exists(self._connection, self._positions):
                self._connection.execute(_POSITIONS_DDL.format(self._positions))
            self._table.create(self._connection, batch.rows.schema)

    def _is_due(self, batch: Batch) -> bool:
        """Whether the batch is to be written; from here to the commit no other writer of this sink can ask.

        A new writer ends the session of one that holds the lock, which might be stopped and hold it for ever.
        One that has written before waits: if it is the older, it then finds its batch there, or a later one.
        """
        if not self._opened:
            self._connection.execute(_END_HOLDERS, [self._lock])
        self._connection.execute(_LOCK, [self._lock])
        held = self._connection.execute(_READ.format(self._positions), self._place).fetchone()
        return must_write(self.name, batch, Position(*held) if held else None, adopt=self._adopt)

    def _mark(self, batch: Batch, refused: Sequence[Refusal]) -> None:
        row = (*self._place, batch.number, batch.count, batch.digest, to_text(refused))
        self._connection.execute(_MARK.format(self._positions), row)

    def close(self) -> None:
        self._connection.close()


def postgres_answers(address: str) -> bool:
    """Whether a PostgreSQL server answers at all."""
    try:
        _open(parse_address(address)).close()
    except (psycopg.Error, ValueError):
        return False
    return True


def _open(parts: dict[str, Any]) -> Connection:
    # What the address says comes first.
    given = {"application_name": "penstock", **tuned("postgres"), **parts}
    connection = psycopg.connect(**given, autocommit=True, client_encoding="utf8", prepare_threshold=None)
    # Each statement must see what was committed before it: the position is read after waiting for the lock.
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    connection.execute(_session())
    return connection


def _session() -> str:
    """What a connection begins with, as one question to the server."""
    given = ", ".join(
        f"set_config('{name}', '{set_to}', false)" for name, set_to in tuned("postgres-session").items()
    )
    return f"SELECT {given};{_SYNCHRONOUS}"


def parse_address(address: str) -> dict[str, Any]:
    """The parts of an address. Errors of libpq can show a password that was not encoded; ours do not."""
    try:
        parts = conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        parts = {"host": "@"}
    well_formed = str(parts.get("port", 5432)).replace(",", "").isdigit()
    if not well_formed or any("@" in str(parts.get(part, "")) for part in ("host", "dbname")):
        raise ValueError("the address of PostgreSQL cannot be read")
    return parts


def _lock_key(*parts: object) -> int:
    name = "\n".join(["penstock", *map(str, parts)])
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True)
