"""A large sink's rows, written by tasks: one for each slot.

A slot is a share of the keys, with a writer, a transaction and a position of its own in the sink. Spark may
run its task again: the second attempt opens a new writer, which fences the first and finds what it left.
Whatever the slots of a batch did before an error, it comes again, to the same slots with the same rows.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import penstock.spec as spec_
from penstock.engine.events import EVENT, EVENT_PREFIX
from penstock.engine.outputs import BatchRows, Opening, Outcome, since_ms, wall_ms
from penstock.engine.receipt import SinkReceipt
from penstock.engine.rows import LETTER, ORDER, in_order, refused_rows
from penstock.errors import Fenced, PositionLost, ReplayDiffers, SinkError, first_line
from penstock.spec import PipelineSpec

_SLOT = "slot"
_ANSWER = """slot long, rows long, digest string, replayed boolean, refused array<struct<kind string,
reason string, partition int, offset long, raw binary>>, error string, message string, hint string"""
_ERRORS = {kind.__name__: kind for kind in (SinkError, Fenced, PositionLost, ReplayDiffers)}


@dataclass(frozen=True)
class Answer:
    """What became of a slot's rows.

    An error comes back as a row too: of an exception Spark passes only the text on, and not before it has
    tried the task again for nothing.
    """

    slot: int
    rows: int = 0
    digest: str = ""
    replayed: bool = False
    refused: Sequence[Mapping[str, Any]] = ()
    """Rows that the store does not take, as they are set aside."""
    error: str = ""
    """The name of its class."""
    message: str = ""
    hint: str = ""


@dataclass(frozen=True)
class SlotTask:
    """What a task needs to write the slot that is its partition. It is made anew in a Python worker."""

    opening: Opening
    batch: int
    adopt: bool
    schema: pa.Schema
    """Of the rows: they come without their names, and a slot without rows is given nothing."""

    def run(self, slot: int, parts: Iterable[pa.RecordBatch]) -> Answer:
        try:
            return self._write(slot, list(parts))
        except SinkError as error:
            return Answer(slot, error=type(error).__name__, message=error.message, hint=error.hint)
        except Exception as error:
            traceback.print_exc()  # into Spark's log
            text = f"sink {self.opening.sink.name}: {type(error).__name__}: {first_line(error)}"
            return Answer(slot, error=SinkError.__name__, message=text)

    def _write(self, slot: int, parts: Sequence[pa.RecordBatch]) -> Answer:
        given = pa.Table.from_batches(parts) if parts else self.schema.empty_table()
        given = given.rename_columns(self.schema.names)
        if strange := given.num_rows - (pc.sum(pc.equal(given.column(_SLOT), slot)).as_py() or 0):
            name = self.opening.sink.name
            raise SinkError(f"sink {name}: {strange} rows of other slots came; nothing was written")
        given = in_order(given)
        batch = self.opening.batch(given, self.batch, slot)
        with closing(self.opening.open(adopt=self.adopt, slot=slot)) as sink:
            written = sink.write(batch)
        refused = tuple(refused_rows(given, self.opening.sink, batch.rows, written.refused).to_pylist())
        return Answer(slot, written.count, written.digest, written.replayed, refused)


@dataclass
class SlotOutput:
    """A task for each slot writes the rows of its keys."""

    opening: Opening
    adopt: bool
    """Whether the next batch may be the first that the sink knows of."""

    @property
    def described(self) -> spec_.Sink:
        return self.opening.sink

    def stage(self, rows: BatchRows) -> None:
        """Nothing: what is set aside is for the driver to write."""

    def write(self, rows: BatchRows) -> Outcome:
        start = time.perf_counter()
        answers = self._in_tasks(rows)
        check_answers(self.described, answers)
        self.adopt = False
        refused = [row for answer in answers for row in answer.refused]
        receipt = SinkReceipt(
            name=self.described.name,
            rows=sum(answer.rows for answer in answers),
            digest=digest_of([answer.digest for answer in answers]),
            replayed=all(answer.replayed for answer in answers),
            write_ms=since_ms(start),
            visible_at_ms=wall_ms(),
            refused=len(refused),
        )
        return Outcome(receipt, pa.Table.from_pylist(refused, LETTER))

    def _in_tasks(self, rows: BatchRows) -> list[Answer]:
        shared = in_slots(rows.frame, self.described, self.opening.spec)
        schema = to_arrow_schema(shared.schema, timezone="UTC")
        task = SlotTask(self.opening, rows.batch, self.adopt, schema)
        answer = to_arrow_schema(cast(StructType, StructType.fromDDL(_ANSWER)))

        def write(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            slot = cast(TaskContext, TaskContext.get()).partitionId()
            yield pa.RecordBatch.from_pylist([asdict(task.run(slot, parts))], schema=answer)

        # mapInArrow cannot find a column whose name has a dot in it.
        nameless = shared.toDF(*(f"c{place}" for place in range(len(shared.columns))))
        said = nameless.mapInArrow(write, _ANSWER).collect()
        return sorted((Answer(**row.asDict(recursive=True)) for row in said), key=lambda answer: answer.slot)

    def close(self) -> None:
        """Tasks keep nothing open."""


def check_answers(sink: spec_.Sink, answers: Sequence[Answer]) -> None:
    """Raise the gravest of what went wrong. A slot without rows must answer as well."""
    if failed := [answer for answer in answers if answer.error]:
        worst = next((answer for answer in failed if answer.error != SinkError.__name__), failed[0])
        text = f"slot {worst.slot} of {sink.writers} of {worst.message}"
        raise _ERRORS[worst.error](text, hint=worst.hint)
    if [answer.slot for answer in answers] != list(range(sink.writers)):
        there = ", ".join(str(answer.slot) for answer in answers) or "none"
        raise SinkError(f"sink {sink.name}: of the slots 0 to {sink.writers - 1} these answered: {there}")


def in_slots(rows: DataFrame, sink: spec_.Sink, spec: PipelineSpec) -> DataFrame:
    """The events of a sink with as many partitions as it has writers; each holds the keys of its slot."""
    slot = F.pmod(F.xxhash64(f"`{EVENT_PREFIX}{sink.key}`"), F.lit(sink.writers)).cast("int")
    columns = [*ORDER, *(f"`{EVENT_PREFIX}{name}`" for name in spec.event_columns(sink))]
    events = rows.where(F.col("kind") == EVENT).select(*columns, slot.alias(_SLOT))
    return events.repartitionById(sink.writers, _SLOT)


def digest_of(digests: Iterable[str]) -> str:
    """The digest of a batch, of those of its slots in their order."""
    return blake2b("\n".join(digests).encode(), digest_size=8).hexdigest()
