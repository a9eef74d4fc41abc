"""A stream of clicks that looks up its users."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.local.services import Addresses
from penstock.paths import DataDir
from penstock.spec import Enrich, PipelineSpec
from penstock.testing.stream import EngineRun
from tests.integration.streams import click

NewUsers = Callable[..., "Users"]


class Users:
    """A stream of clicks with one lookup on `user_id`, and its reference data."""

    def __init__(
        self, spark: SparkSession, data: DataDir, postgres: str, engine: str, enrich: Enrich
    ) -> None:
        described: dict[str, Any] = {
            "name": f"enriched-{uuid.uuid4().hex[:6]}",
            "engine": engine,
            "source": {
                "topic": "t",
                "schema": "event_id string, user_id string, ts long",
                "key": "user_id",
                "event_time": "ts",
            },
            "enrich": [enrich],
            "sink": [{"kind": "kafka", "topic": "out", "rows": "events", "key": "event_id"}],
        }
        spec = PipelineSpec(**described)
        self.said: list[str] = []
        self.enrich = enrich
        self.stream = EngineRun(spark, spec, data, postgres=postgres, say=self.said.append)

    def write(self, **columns: Any) -> None:
        path = self.stream.data.root / str(self.enrich.path)
        pq.write_table(pa.table(columns), path.with_suffix(".new"))
        path.with_suffix(".new").rename(path)

    def segments(self, *segments: str) -> None:
        """Users u1, u2 ... of these segments."""
        self.write(user_id=[f"u{i + 1}" for i in range(len(segments))], segment=list(segments))

    def look(self) -> None:
        [table] = self.stream.tables
        table.look()

    def found(self, *batches: Sequence[str | None]) -> list[list[tuple[Any, ...]]]:
        """The columns taken, for each user of each batch."""
        clicks = [[click(user, i) for i, user in enumerate(batch)] for batch in batches]
        names = [f"event.{name}" for name in self.enrich.take]
        return [[tuple(row[name] for name in names) for row in rows] for rows in self.stream.run(clicks)]

    def wait_for(self, text: str) -> None:
        """Wait until something like this is said."""
        deadline = time.monotonic() + 60
        while not any(text in said for said in self.said):
            assert time.monotonic() < deadline, f"never said {text!r}: {self.said}"
            time.sleep(0.02)

    def forget_last_commit(self) -> int:
        """Put the checkpoint back to where a crash before the commit leaves it."""
        commits = self.stream.data.checkpoints / self.stream.spec.name / "commits"
        last = max(int(path.name) for path in commits.glob("[0-9]*"))
        (commits / str(last)).unlink()
        return last

    @property
    def used(self) -> list[str]:
        return [versions["users"] for versions in self.stream.versions]

    @classmethod
    def looked_up(
        cls, spark: SparkSession, directory: Path, engine: str = "kernel", postgres: str = "", **given: Any
    ) -> Users:
        """A stream whose lookup is as given; from users.parquet if nothing else is said."""
        if "query" not in given:
            given = {"path": "users.parquet", **given}
        enrich = Enrich(**{"name": "users", "on": "user_id", "take": ["segment"], **given})
        return cls(spark, DataDir.at(directory / engine), postgres, engine, enrich)


def sql(services: Addresses, text: str) -> None:
    """Run a statement in PostgreSQL."""
    with psycopg.connect(services.postgres, autocommit=True) as connection:
        connection.execute(text.encode())
