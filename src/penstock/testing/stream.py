"""The real engine, fed with chosen batches and without a broker."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.checkpoint import Checkpoint
from penstock.engine.enrich import Lookups
from penstock.engine.pipeline import build, tiers
from penstock.engine.refresh import Reference, references
from penstock.engine.rows import in_order, span_id
from penstock.engine.spark import open_spark
from penstock.errors import ReplayDiffers
from penstock.paths import DataDir
from penstock.sinks.protocol import digest
from penstock.spec import PipelineSpec
from penstock.testing.compare import differences
from penstock.testing.events import Record, Row, Topic
from penstock.toolchain import ensure_jars, ensure_java, ensure_kernel

_RECORD = pa.schema(
    [
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("clock_ms", pa.int64()),
    ]
)


@contextmanager
def open_test_spark(spec: PipelineSpec, directory: Path) -> Iterator[SparkSession]:
    """Spark on two threads, with the JDK, the jars and the kernel it needs.

    It takes seconds to start, so share one between tests. A process has one Spark: where one is open
    already, it is given, and left open.
    """
    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    jars = ensure_jars("spark", print)
    session = open_spark(
        spec,
        DataDir.at(directory),
        kernel=ensure_kernel(jars, print),
        jars=jars,
        java=ensure_java(print),
        master="local[2]",
    )
    try:
        yield session
    finally:
        session.stop()


class _Died(Exception):
    """The query ends here, as if its process had."""


@dataclass
class EngineRun:
    """One pipeline on one checkpoint. Each `run` goes on where the one before ended, as after a restart.

    A value that is no Record yet is appended to `topic`. Reference data is read from the data directory or
    from `postgres`, as ever; sinks are not written. A batch that comes again must have the rows that it had,
    to the bit, as a sink would ask of it; a ReplayDiffers says which differ.
    """

    spark: SparkSession
    spec: PipelineSpec
    data: DataDir
    topic: Topic = field(default_factory=Topic)
    postgres: str = ""
    say: Callable[[str], None] = print
    after: Callable[[int], None] = lambda _: None
    """Called when a batch has its rows."""
    tables: list[Reference] = field(default_factory=list)
    """The reference data of the last run."""
    versions: list[dict[str, str]] = field(default_factory=list)
    """Of the reference data, as each batch used them, each time that it came."""
    _lookups: Lookups | None = None
    _fatal: set[int] = field(default_factory=set)
    """The batches after which the query dies."""
    _came: list[tuple[int, pa.Table]] = field(default_factory=list)

    def run(
        self, batches: Sequence[Sequence[Record | bytes | None]], replay: Collection[int] = ()
    ) -> list[list[Row]]:
        """The rows of every batch, and of the one that follows when the last of them moved the clock.

        After each batch of this run that is in `replay`, counted from 0, the query dies: state and rows are
        made, but the batch is not committed. The pipeline starts again, with that batch.
        """
        if unknown := set(replay) - set(range(len(batches))):
            raise ValueError(f"replay has {sorted(unknown)}, but the {len(batches)} batches count from 0")
        source = self.data / "source"
        for batch in batches:
            _write(source, [self._record(given) for given in batch])
        before = len(self._came)
        self._fatal = {self._last_planned() + 1 + number for number in replay}
        while not self._ends(source):
            pass
        self._compare_replays(before)
        return [rows.to_pylist() for rows in dict(self._came[before:]).values()]

    def lose_commit(self) -> None:
        """Undo the commit of the last batch, as a crash may. The next run has it again, before all others."""
        (self._checkpoint_path / "commits" / str(self._last_planned())).unlink()

    @property
    def _checkpoint_path(self) -> Path:
        return self.data.checkpoints / self.spec.name

    def _last_planned(self) -> int:
        with closing(Checkpoint(self._checkpoint_path, self.spec.source.topic)) as checkpoint:
            return checkpoint.last_planned()

    def _ends(self, source: Path) -> bool:
        """Run the query; whether it read all that there is. If not, it died of a batch that was fatal."""
        records = (
            self.spark.readStream.schema(
                "value binary, partition int, offset long, timestamp timestamp, clock_ms long"
            )
            .option("maxFilesPerTrigger", 1)
            .parquet(str(source))
        )
        left = len(self._fatal)
        with closing(Checkpoint(self._checkpoint_path, self.spec.source.topic)) as checkpoint:
            query = (
                self._build(records, checkpoint)
                .writeStream.foreachBatch(self._collect)
                .outputMode("append")
                .option("checkpointLocation", str(checkpoint.path))
                .trigger(availableNow=True)
                .start()
            )
            try:
                query.awaitTermination()
            except StreamingQueryException:
                if len(self._fatal) == left:
                    raise
                return False
        return True

    def _compare_replays(self, before: int) -> None:
        for batch, rows in self._came[before:]:
            first = next(rows for number, rows in self._came if number == batch)
            if first is not rows and digest(first) != digest(rows):
                found = differences(first.to_pylist(), rows.to_pylist(), relative=0)
                raise ReplayDiffers(
                    f"batch {batch} came again with other content: {'; '.join(found[:3])}",
                    hint="The pipeline is not deterministic: look for functions like rand().",
                )

    def _record(self, given: Record | bytes | None) -> Record:
        return given if isinstance(given, Record) else self.topic.record(given)

    def _build(self, records: DataFrame, checkpoint: Checkpoint) -> DataFrame:
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
        return rows

    def _collect(self, frame: DataFrame, batch: int) -> None:
        self.versions.append(self._lookups.before(batch) if self._lookups else {})
        rows = in_order(frame.toArrow())
        if self.spec.grouping is not None:
            place = rows.schema.get_field_index("span_id")
            rows = rows.rename_columns(
                [span_id(self.spec) if i == place else name for i, name in enumerate(rows.column_names)]
            )
        self._came.append((batch, rows))
        self.after(batch)
        if batch in self._fatal:
            self._fatal.remove(batch)
            raise _Died(f"batch {batch} is not committed, as the test asked")


def run_batches(
    spark: SparkSession, spec: PipelineSpec, directory: Path, *runs: Sequence[Sequence[Record]]
) -> list[list[Row]]:
    """The rows of every batch of one or more runs, on a directory of the test's own."""
    engine = EngineRun(spark, spec, DataDir.at(directory))
    return [rows for batches in runs for rows in engine.run(batches)]


def _write(source: Path, batch: Sequence[Record]) -> None:
    """One file is one batch. Spark takes files by age: a later name must be a later file."""
    rows = [
        {
            "value": record.value,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
        }
        for record in batch
    ]
    number = len(list(source.glob("*.parquet")))
    hidden, target = source / f".{number:05d}", source / f"{number:05d}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, _RECORD), hidden)
    hidden.rename(target)
    os.utime(target, (1_700_000_000 + number, 1_700_000_000 + number))
