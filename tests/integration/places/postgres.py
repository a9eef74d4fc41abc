"""A PostgreSQL table of a test's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from penstock.sinks.postgres import PostgresSink
from tests.integration.places.place import ROW, SINK, Place


@dataclass
class PostgresPlace(Place):
    key: tuple[str, ...] = ("session_id",)
    version: str | None = "version"
    max_rows: int = 7
    reader: psycopg.Connection[tuple[Any, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.reader = psycopg.connect(self.address, autocommit=True, options="-c timezone=UTC")

    def _open(self, name: str, adopt: bool) -> PostgresSink:
        return PostgresSink(
            name,
            self.address,
            self.target,
            self.query,
            key=self.key,
            version=self.version,
            exactly_once=self.exactly_once,
            max_rows=self.max_rows,
            set_aside=self.set_aside,
            adopt=adopt,
            slot=self.slot,
        )

    def writer(self, name: str = SINK, *, adopt: bool = False) -> PostgresSink:
        sink = super().writer(name, adopt=adopt)
        assert isinstance(sink, PostgresSink)
        return sink

    @property
    def table(self) -> sql.Identifier:
        return sql.Identifier(*self.target.split("."))

    def run(self, statement: str, *names: sql.Composable) -> None:
        """Run a statement of the test's own, with names in the place of {}."""
        self.reader.execute(sql.SQL(statement).format(*names))

    def select(self, what: str, relation: str = "") -> list[tuple[Any, ...]]:
        name = sql.Identifier(*(relation or self.target).split("."))
        statement = sql.SQL("SELECT {} FROM {}").format(sql.SQL(what), name)
        return self.reader.execute(statement).fetchall()

    def rows(self, names: Sequence[str] = ROW.names) -> list[dict[str, Any]]:
        return [dict(zip(names, row, strict=True)) for row in self.select(", ".join(names))]

    def latest(self) -> dict[str, tuple[str, int, int]]:
        """What TABLE_latest shows: kind, version and events of each session."""
        rows = self.select("session_id, kind, version, events", f"{self.target}_latest")
        return {row[0]: row[1:] for row in rows}

    def refuse_bad(self) -> None:
        self.run("ALTER TABLE {} ADD CONSTRAINT counted CHECK (events >= 0)", self.table)

    def position(self, name: str = SINK) -> int | None:
        held = self.reader.execute(
            "SELECT batch FROM penstock_positions WHERE query = %s AND sink = %s AND slot = %s",
            [self.query, name, self.slot],
        ).fetchone()
        return held[0] if held else None

    def lose_position(self, name: str = SINK) -> None:
        self.reader.execute(
            "DELETE FROM penstock_positions WHERE query = %s AND sink = %s AND slot = %s",
            [self.query, name, self.slot],
        )

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """Nobody gets a row into the table meanwhile: writers stop after they have seen the position."""
        with psycopg.connect(self.address) as blocker:
            blocker.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE").format(self.table))
            yield

    def waiting(self, kind: str) -> int:
        """How many sessions wait for a lock of that kind ('relation' or 'advisory')."""
        return self._sessions("wait_event_type = 'Lock' AND wait_event = %s", kind)

    def open_writers(self) -> int:
        return self._sessions("application_name = %s", "penstock")

    def _sessions(self, which: str, value: str) -> int:
        statement = f"SELECT count(*) FROM pg_stat_activity WHERE {which}"  # noqa: S608
        [(count,)] = self.reader.execute(statement.encode(), [value]).fetchall()
        return int(count)

    def close(self) -> None:
        super().close()
        self.reader.close()
