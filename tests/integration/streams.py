"""A stream of records with chosen batch boundaries, run through the engine without a broker."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.checkpoint import Checkpoint
from penstock.engine.enrich import Lookups
from penstock.engine.pipeline import build, tiers
from penstock.engine.refresh import Reference, references
from penstock.engine.rows import in_order
from penstock.paths import DataDir
from penstock.spec import PipelineSpec

T0 = 1_800_000_000_000
"""Event times in tests count from here, in milliseconds."""

RECORD = pa.schema(
    [
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("clock_ms", pa.int64()),
    ]
)


def click(user: str | None, at_ms: int, **fields: Any) -> bytes:
    """A click `at_ms` after T0."""
    event = {
        "event_id": f"{user}-{at_ms}",
        "producer": "p1",
        "seq": at_ms,
        "user_id": user,
        "event_type": "view",
        "product_id": "p00001",
        "page": f"/{at_ms}",
        "price": None,
        "ts": T0 + at_ms,
        "created_ms": T0 + at_ms,
        **fields,
    }
    return json.dumps(event).encode()


@dataclass
class Stream:
    """Feeds batches to the engine one by one, on a checkpoint, and collects the rows of each."""

    spark: SparkSession
    spec: PipelineSpec
    data: DataDir
    batches: list[list[dict[str, Any]]] = field(default_factory=list)
    postgres: str = ""
    say: Callable[[str], None] = print
    after: Callable[[int], None] = lambda _: None
    """Called when a batch is done."""
    tables: list[Reference] = field(default_factory=list)
    """The reference data of the last run."""
    versions: list[dict[str, str]] = field(default_factory=list)
    """Of the reference data, as each batch used them."""
    _lookups: Lookups | None = None
    _offset: int = 0

    def run(self, batches: Sequence[Sequence[bytes | None]]) -> list[list[dict[str, Any]]]:
        """Rows of every batch, in order; batches that only move the clock on are there too."""
        source = self.data.root / "source"
        source.mkdir(exist_ok=True)
        for batch in batches:
            self._write(source, batch)
        records = (
            self.spark.readStream.schema(
                "value binary, partition int, offset long, timestamp timestamp, clock_ms long"
            )
            .option("maxFilesPerTrigger", 1)
            .parquet(str(source))
        )
        before = len(self.batches)
        checkpoint = Checkpoint(self.data.checkpoints / self.spec.name, self.spec.source.topic)
        try:
            self.tables = references(self.spec, self.data, self.postgres, self.say)
            if self.spec.engine == "kernel":
                self._lookups = Lookups(self.spark, self.tables, checkpoint, self.say)
            rows, _ = build(
                self.spark,
                records,
                self.spec,
                self.data,
                next(tiers(self.spec)),
                checkpoint,
                say=self.say,
                lookups=self._lookups,
                postgres=self.postgres,
            )
            query = (
                rows.writeStream.foreachBatch(self._collect)
                .outputMode("append")
                .option("checkpointLocation", str(checkpoint.path))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        finally:
            checkpoint.close()
        return self.batches[before:]

    def _collect(self, frame: DataFrame, batch: int) -> None:
        self.versions.append(self._lookups.before(batch) if self._lookups else {})
        self.batches.append(in_order(frame.toArrow()).to_pylist())
        self.after(batch)

    def _write(self, source: Path, batch: Sequence[bytes | None]) -> None:
        rows = [
            {
                "value": value,
                "partition": 0,
                "offset": self._offset + i,
                "timestamp": datetime.fromtimestamp(T0 / 1000 + 3600, UTC),
            }
            for i, value in enumerate(batch)
        ]
        self._offset += len(batch)
        number = len(list(source.glob("*.parquet")))
        # Spark takes files by age: a later name must be a later file.
        hidden = source / f".{number:05d}"
        pq.write_table(pa.Table.from_pylist(rows, RECORD), hidden)
        target = source / f"{number:05d}.parquet"
        hidden.rename(target)
        os.utime(target, (1_700_000_000 + number, 1_700_000_000 + number))


def kinds(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [row["kind"] for row in rows]


def of_kind(rows: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] == kind]
