"""A ClickHouse table of a test's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.client import Client

from penstock.sinks.clickhouse import POSITIONS_TABLE, ClickHouseSink
from penstock.sinks.protocol import Batch
from tests.integration.places.place import ROW, SINK, Place

# ruff: noqa: S608 - tables have names of their own


@dataclass
class ClickHousePlace(Place):
    key: tuple[str, ...] = ("session_id",)
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = clickhouse_connect.get_client(dsn=self.address, autogenerate_session_id=False)

    def _open(self, name: str, adopt: bool) -> ClickHouseSink:
        keep = "all" if self.exactly_once else "newest"
        return ClickHouseSink(
            name,
            self.address,
            self.target,
            self.query,
            key=self.key,
            keep=keep,
            set_aside=self.set_aside,
            adopt=adopt,
            slot=self.slot,
        )

    def writer(self, name: str = SINK, *, adopt: bool = False) -> ClickHouseSink:
        sink = super().writer(name, adopt=adopt)
        assert isinstance(sink, ClickHouseSink)
        return sink

    def select(self, what: str, relation: str = "") -> list[tuple[Any, ...]]:
        found = self.client.query(f"SELECT {what} FROM {relation or self.target}")
        return [tuple(row) for row in found.result_rows]

    def rows(self, names: Sequence[str] = ROW.names) -> list[dict[str, Any]]:
        relation = self.target if self.exactly_once else f"{self.target}_latest"
        return [dict(zip(names, row, strict=True)) for row in self.select(", ".join(names), relation)]

    def latest(self) -> dict[str, tuple[str, int, int]]:
        """What TABLE_latest shows: kind, version and events of each session; it must show each once."""
        rows = self.select("session_id, kind, version, events", f"{self.target}_latest")
        assert len({row[0] for row in rows}) == len(rows)
        return {row[0]: row[1:] for row in rows}

    def refuse_bad(self) -> None:
        self.client.command(f"ALTER TABLE {self.target} ADD CONSTRAINT counted CHECK events >= 0")

    def position(self, name: str = SINK) -> int | None:
        held = self.select("batch", f"{POSITIONS_TABLE} WHERE {self._of(name)} ORDER BY batch DESC LIMIT 1")
        return held[0][0] if held else None

    def lose_position(self, name: str = SINK) -> None:
        self._delete(POSITIONS_TABLE, self._of(name))

    def forget(self, batch: Batch) -> None:
        """Lose the rows of a batch and keep its token, as a server killed after its answer does."""
        self._delete(self.target, f"batch = {batch.number} AND slot = {self.slot}")

    def _of(self, name: str) -> str:
        return f"query = '{self.query}' AND sink = '{name}' AND slot = {self.slot}"

    def _delete(self, table: str, which: str) -> None:
        self.client.command(f"ALTER TABLE {table} DELETE WHERE {which}", settings={"mutations_sync": 2})

    def close(self) -> None:
        super().close()
        self.client.close()
