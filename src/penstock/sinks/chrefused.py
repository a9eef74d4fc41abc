"""Rows that a ClickHouse table refuses: found, and remembered beside the positions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from penstock.errors import first_line
from penstock.sinks.chcolumns import storable
from penstock.sinks.protocol import Refusal
from penstock.sinks.refusals import from_text, keyless, sift, to_text, without
from penstock.tuning import tuned

REFUSED_TABLE = "penstock_refused"

_COLUMNS = {
    "query": "String",
    "sink": "String",
    "slot": "UInt16",
    "batch": "Int64",
    "refused": "String",
    "written_at": "DateTime64(3)",
}
_DDL = f"""
CREATE TABLE IF NOT EXISTS {REFUSED_TABLE} (
  {", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())}
) ENGINE = MergeTree ORDER BY (query, sink, slot, batch)
"""
_READ = f"""
SELECT refused FROM {REFUSED_TABLE}
WHERE query = {{query:String}} AND sink = {{sink:String}} AND slot = {{slot:UInt16}}
AND batch = {{batch:Int64}}
ORDER BY written_at DESC LIMIT 1
"""  # noqa: S608  (a constant)

# What a server says to a row and not to a statement: a value it cannot hold, a constraint, throwIf().
_REFUSING = frozenset({6, 53, 69, 70, 321, 349, 395, 407, 469, 691})


def is_refusal(error: ClickHouseError) -> bool:
    """Whether a server has refused rows, rather than us or the statement."""
    found = re.search(r"\bcode:? (\d+)", str(error), re.IGNORECASE)
    return found is not None and int(found[1]) in _REFUSING


class RefusedRows:
    """What one writer knows of the rows that its table refuses."""

    def __init__(self, client: Client, table: str, place: tuple[str, str, int]) -> None:
        self._client = client
        self._table = table
        self._place = place

    def sift(self, rows: pa.Table, key: Sequence[str]) -> list[Refusal]:
        """The rows that the table refuses, by a table of the same columns and constraints that keeps none."""
        probe = f"{self._table}_penstock_probe_{self._place[2]}"
        self._client.command(f"CREATE TABLE IF NOT EXISTS {probe} AS {self._table} ENGINE = Null")

        def tried(some: pa.Table) -> str | None:
            some = without(some, keyless(some, key))
            try:
                if some.num_rows:
                    self._client.insert_arrow(probe, storable(some))
            except ClickHouseError as error:
                if not is_refusal(error):
                    raise
                return first_line(error)
            return None

        try:
            found = [*keyless(rows, key), *sift(self._place[1], rows, tried)]
        finally:
            self._client.command(f"DROP TABLE IF EXISTS {probe}")
        return sorted(found, key=lambda refusal: refusal.row)

    def remember(self, batch: int, refused: Sequence[Refusal]) -> None:
        self._client.command(_DDL)
        self._client.insert(
            REFUSED_TABLE,
            [[*self._place, batch, to_text(refused), datetime.now(UTC)]],
            column_names=list(_COLUMNS),
            column_type_names=list(_COLUMNS.values()),
            settings=tuned("clickhouse-insert"),
        )

    def before(self, batch: int) -> tuple[Refusal, ...]:
        """What an earlier writer was refused of a batch."""
        if not self._client.query(f"EXISTS TABLE {REFUSED_TABLE}").result_rows[0][0]:
            return ()
        query, sink, slot = self._place
        parameters = {"query": query, "sink": sink, "slot": slot, "batch": batch}
        held = self._client.query(_READ, parameters=parameters).result_rows
        return from_text(held[0][0]) if held else ()
