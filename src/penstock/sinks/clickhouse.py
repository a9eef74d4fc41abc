"""Rows into a ClickHouse table, one insert a batch, with the batch's number in every row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import clickhouse_connect
import pyarrow as pa
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from penstock.errors import SinkError
from penstock.sinks.chcolumns import column_type, sortable, storable
from penstock.sinks.chrefused import RefusedRows, is_refusal
from penstock.sinks.keys import require_keys
from penstock.sinks.protocol import Batch, Position, Refusal, Written, digest, must_write
from penstock.sinks.refusals import keyless, without
from penstock.spec.secret import Secret
from penstock.tuning import tuned, value

POSITIONS_TABLE = "penstock_positions"

_POSITION_COLUMNS = {
    "query": "String",
    "sink": "String",
    "slot": "UInt16",
    "batch": "Int64",
    "rows": "UInt64",
    "digest": "String",
    "written_at": "DateTime64(3)",
}

_WINDOW = "non_replicated_deduplication_window"
_TABLE_SETTINGS = f"SETTINGS {_WINDOW} = {value(f'clickhouse-table.{_WINDOW}')}"

_POSITIONS_DDL = f"""
CREATE TABLE IF NOT EXISTS {POSITIONS_TABLE} (
  {", ".join(f"{name} {kind}" for name, kind in _POSITION_COLUMNS.items())}
) ENGINE = MergeTree ORDER BY (query, sink, slot, batch)
{_TABLE_SETTINGS}
"""
_OF_BATCH = "WHERE query = {query:String} AND batch = {batch:Int64} AND slot = {slot:Int32}"


class ClickHouseSink:
    """Rows into a table, each carrying query, batch and slot.

    Exactly once (`keep="all"`, MergeTree: every row that was ever final):
      Lost: nothing, as long as ClickHouse keeps what it acknowledged; a batch that comes again is counted.
      Duplicated: nothing: one insert is one block, with the batch as its deduplication token.
      Delayed: a batch is visible as a whole when its insert is acknowledged.
    At least once (`keep="newest"`, ReplacingMergeTree): a batch that comes again replaces itself.
    Rows with a `version` (sessions, windows), and all that come at least once, have a view for readers:
    TABLE_latest, with the newest row of each `key` and no retracted ones.
    """

    def __init__(
        self,
        name: str,
        address: str,
        table: str,
        query: str,
        *,
        key: Sequence[str],
        keep: str,
        set_aside: bool = False,
        adopt: bool = False,
        slot: int = 0,
    ) -> None:
        """`set_aside`: rows that the table does not take are left out and told of; else the batch fails."""
        self.name = name
        self._set_aside = set_aside
        self._table = table
        self._query = query
        self._key = tuple(key)
        self._exactly_once = keep == "all"
        self._adopt = adopt
        self._slot = slot
        self._opened = False
        self._held: Position | None = None
        try:
            self._client: Client = connect(address)
        except ClickHouseError as error:
            where = Secret(address)
            raise SinkError(f"sink {name}: ClickHouse at {where} does not answer: {error}") from error
        self._refused = RefusedRows(self._client, table, (query, name, slot))

    def write(self, batch: Batch) -> Written:
        if not self._set_aside:
            require_keys(self.name, batch.rows, self._identity(batch.rows.schema))
        try:
            if not self._opened:
                self._create(batch.rows.schema)
            if not self._exactly_once:
                self._opened = True
                refused = self._put(batch, self._token(batch))
                return Written(batch.count, batch.digest, replayed=False, refused=refused)
            return self._write_once(batch)
        except ClickHouseError as error:
            raise SinkError(f"sink {self.name}: {error}") from error

    def _write_once(self, batch: Batch) -> Written:
        # What this writer wrote it remembers; there is no need to look.
        position = self._held or self._position()
        replayed = not must_write(self.name, batch, position, adopt=self._adopt)
        if self._held is None:
            refused, was_there = self._settle(batch, has_position=replayed)
            replayed = replayed and was_there
        elif not replayed:
            refused = self._put(batch, self._token(batch))
        else:
            refused = self._refused_before(batch)
        if not replayed:
            self._mark(batch)
        self._opened, self._adopt = True, False
        self._held = Position(batch.number, batch.count, batch.digest)
        return Written(batch.count, batch.digest, replayed, refused)

    def _settle(self, batch: Batch, *, has_position: bool) -> tuple[tuple[Refusal, ...], bool]:
        """Hold the rows of a batch that an earlier writer may have written.

        Returns what is refused of them, and whether all others were there.

        The server may remember the token of rows that it lost in a crash, and would then drop the insert
        silently; so the rows are counted, and if none came a second token, as deterministic as the first, is
        used.
        """
        refused = self._refused_before(batch)
        there = before = self._count(batch)
        for again in ("", "-r1"):
            if there == 0 and batch.count > len(refused):
                refused = self._put(batch, self._token(batch) + again, refused)
                there = self._count(batch)
        taken = batch.count - len(refused)
        if there != taken:
            raise SinkError(
                f"sink {self.name}: {there} of {taken} rows of batch {batch.number} are there",
                hint=f"Look at them in {self._table}. Without them (ALTER TABLE {self._table} DELETE WHERE "
                f"query = '{self._query}' AND batch = {batch.number} AND slot = {self._slot}) the batch is"
                " written anew.",
            )
        if before and not has_position:
            self._compare(batch, refused)
        return refused, before == taken

    def _compare(self, batch: Batch, refused: Sequence[Refusal]) -> None:
        """Hold a batch against its rows in the table: the writer that left no position left no digest."""
        stored = storable(without(batch.rows, refused))
        names = stored.column_names
        held = self._client.query_arrow(
            f"SELECT {', '.join(f'`{name}`' for name in names)} FROM {self._table} {_OF_BATCH}",  # noqa: S608
            parameters=self._of_batch(batch),
            use_strings=True,
        ).cast(stored.schema)
        order = [(name, "ascending") for name in names]
        position = Position(batch.number, held.num_rows, digest(sortable(held).sort_by(order)))
        came = Batch.of(self._query, batch.number, sortable(stored).sort_by(order))
        must_write(self.name, came, position)

    def _put(self, batch: Batch, token: str, known: Sequence[Refusal] = ()) -> tuple[Refusal, ...]:
        """Insert the rows of a batch but those that the table refuses, which are returned."""
        refused = list(known)
        if self._set_aside and not known:
            refused = keyless(batch.rows, self._identity(batch.rows.schema))
        try:
            self._insert(batch, token, refused)
        except ClickHouseError as error:
            if not is_refusal(error):
                raise
            if not self._set_aside:
                raise SinkError(
                    f"sink {self.name}: {error}",
                    hint='To set rows aside that the table does not take, give a sink rows = ["refused"].',
                ) from error
            refused = self._refused.sift(batch.rows, self._identity(batch.rows.schema))
            self._insert(batch, token, refused)
        return tuple(refused)

    def _insert(self, batch: Batch, token: str, refused: Sequence[Refusal] = ()) -> None:
        # Before the rows, not with the position: rows without a position must be accounted for, too.
        if refused and self._exactly_once:
            self._refused.remember(batch.number, refused)
        rows = without(batch.rows, refused)
        if rows.num_rows:
            settings = {"insert_deduplication_token": token, **tuned("clickhouse-insert")}
            self._client.insert_arrow(self._table, storable(rows), settings=settings)

    def _mark(self, batch: Batch) -> None:
        row = [self._query, self.name, self._slot, batch.number, batch.count, batch.digest, datetime.now(UTC)]
        # Without a token, as the server can remember that of a position it lost. Twice it does no harm.
        settings = tuned("clickhouse-insert")
        # With the types given the client need not ask for them: one round trip instead of two.
        self._client.insert(
            POSITIONS_TABLE,
            [row],
            column_names=list(_POSITION_COLUMNS),
            column_type_names=list(_POSITION_COLUMNS.values()),
            settings=settings,
        )

    def _refused_before(self, batch: Batch) -> tuple[Refusal, ...]:
        return self._refused.before(batch.number) if self._set_aside else ()

    def _token(self, batch: Batch) -> str:
        return f"{self._query}-{self.name}-{self._slot}-{batch.number}-{batch.digest}"

    def _position(self) -> Position | None:
        held = self._client.query(
            f"SELECT batch, rows, digest FROM {POSITIONS_TABLE} "  # noqa: S608  (a constant)
            "WHERE query = {query:String} AND sink = {sink:String} AND slot = {slot:UInt16} "
            "ORDER BY batch DESC LIMIT 1",
            parameters={"query": self._query, "sink": self.name, "slot": self._slot},
        ).result_rows
        return Position(*held[0]) if held else None

    def _count(self, batch: Batch) -> int:
        [[count]] = self._client.query(
            f"SELECT count() FROM {self._table} {_OF_BATCH}",  # noqa: S608
            parameters=self._of_batch(batch),
        ).result_rows
        return int(count)

    def _of_batch(self, batch: Batch) -> dict[str, object]:
        return {"query": self._query, "batch": batch.number, "slot": self._slot}

    def _create(self, schema: pa.Schema) -> None:
        if self._exactly_once:
            self._client.command(_POSITIONS_DDL)
        versioned, key = "version" in schema.names, ", ".join(f"`{name}`" for name in self._key)
        engine = (
            f"MergeTree ORDER BY ({key}) {_TABLE_SETTINGS}"
            if self._exactly_once
            else f"ReplacingMergeTree({'version' if versioned else ''}) ORDER BY ({key})"
        )
        columns = ", ".join(self._columns(schema))
        self._client.command(f"CREATE TABLE IF NOT EXISTS {self._table} ({columns}) ENGINE = {engine}")
        self._check_columns(schema.names)
        if versioned:
            self._create_view(schema, f"{self._table} ORDER BY version DESC LIMIT 1 BY {key}")
        elif not self._exactly_once:
            self._create_view(schema, f"{self._table} FINAL")

    def _create_view(self, schema: pa.Schema, newest: str) -> None:
        shown = "kind != 'retracted'" if "kind" in schema.names else "true"
        self._client.command(
            f"CREATE VIEW IF NOT EXISTS {self._table}_latest AS "  # noqa: S608
            f"SELECT * FROM (SELECT * FROM {newest}) WHERE {shown}"
        )

    def _columns(self, schema: pa.Schema) -> list[str]:
        """The columns as CREATE TABLE takes them; those by which it orders cannot be null."""
        for name in self._identity(schema):
            at = schema.get_field_index(name)
            schema = schema.set(at, schema.field(at).with_nullable(False))
        try:
            return [f"`{field.name}` {column_type(field)}" for field in schema]
        except TypeError as error:
            raise SinkError(
                f"sink {self.name}: {error}", hint="Cast it to another type in the spec."
            ) from error

    def _identity(self, schema: pa.Schema) -> tuple[str, ...]:
        return (*self._key, "version") if "version" in schema.names else self._key

    def _check_columns(self, wanted: Sequence[str]) -> None:
        have = [row[0] for row in self._client.query(f"DESCRIBE TABLE {self._table}").result_rows]
        missing = [name for name in wanted if name not in have]
        if missing:
            raise SinkError(
                f"sink {self.name}: table {self._table} has no column {', '.join(missing)}",
                hint=f"Add it (ALTER TABLE {self._table} ADD COLUMN ...) or name another table in the spec.",
            )

    def close(self) -> None:
        self._client.close()


def connect(address: str) -> Client:
    """A client for "http://host:port" or "host:port"; one that hangs is given up on before a batch is."""
    given: dict[str, Any] = {**tuned("clickhouse")}
    return clickhouse_connect.get_client(dsn=address if "://" in address else f"http://{address}", **given)


def clickhouse_answers(address: str) -> bool:
    """Whether a ClickHouse server answers at all."""
    try:
        connect(address).close()
    except ClickHouseError:
        return False
    return True
