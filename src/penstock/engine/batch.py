"""A batch's rows to all its sinks, and the receipt of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

import penstock.spec as spec_
from penstock.engine.checkpoint import Checkpoint
from penstock.engine.claim import BatchClaim
from penstock.engine.enrich import Lookups
from penstock.engine.events import without_events
from penstock.engine.originals import Originals
from penstock.engine.outputs import (
    BatchRows,
    DriverOutput,
    Endpoints,
    Opening,
    Outcome,
    Output,
    since_ms,
    wall_ms,
)
from penstock.engine.receipt import Receipt, SinkReceipt
from penstock.engine.rows import in_order, latency_counts, tally, with_originals, with_refused
from penstock.engine.writers import SlotOutput
from penstock.sinks.topics import message_bytes
from penstock.spec import PipelineSpec

_WITHOUT_BYTES = {"late", "duplicate"}
"""Set aside behind the shuffle, where their bytes are no longer."""


def open_outputs(
    spec: PipelineSpec, query: str, sinks: Sequence[spec_.Sink], at: Endpoints, adopt: Sequence[str]
) -> list[Output]:
    """A fresh writer for every sink that the driver writes; those of slots are opened in tasks."""
    outputs: list[Output] = []
    for sink in sinks:
        max_bytes = message_bytes(at.kafka, sink.topic) if isinstance(sink, spec_.KafkaSink) else 0
        opening = Opening(spec, query, sink, at, sets_aside(sink, sinks), max_bytes)
        if sink.writers > 1:
            outputs.append(SlotOutput(opening, adopt=sink.name in adopt))
        else:
            outputs.append(DriverOutput(opening, opening.open(adopt=sink.name in adopt)))
    return outputs


def sets_aside(sink: spec_.Sink, sinks: Sequence[spec_.Sink]) -> bool:
    """Whether what a sink refuses goes to another one. What the last of them refuses would go nowhere."""
    return "refused" not in sink.rows and any("refused" in other.rows for other in sinks)


class BatchWriter:
    """What Spark calls with each batch."""

    def __init__(
        self,
        query: str,
        checkpoint: Checkpoint,
        outputs: Sequence[Output],
        originals: Originals,
        lookups: Lookups | None,
        claim: BatchClaim,
        check_source: Callable[[], None],
        on_receipt: Callable[[Receipt], None],
    ) -> None:
        self._query = query
        self._checkpoint = checkpoint
        self._outputs = outputs
        self._originals = originals
        self._lookups = lookups
        self._claim = claim
        self._check_source = check_source
        self._on_receipt = on_receipt
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(outputs)), thread_name_prefix="sink")
        slotted = [isinstance(output, SlotOutput) for output in outputs]
        self._has_slots = any(slotted)
        self._driver_has_events = not self._has_slots or any(
            "events" in output.described.rows
            for output, is_slotted in zip(outputs, slotted, strict=True)
            if not is_slotted
        )
        self.failure: Exception | None = None
        """The first error of a batch, as raised: Spark passes only its text on."""
        self.batches = 0
        self.records = 0
        """Read from the source's topic so far."""

    def __call__(self, frame: DataFrame, batch: int) -> None:
        try:
            self._write(frame, batch)
            self.batches += 1
        except Exception as error:
            self.failure = self.failure or error
            raise

    def _write(self, frame: DataFrame, batch: int) -> None:
        started_at_ms, start = wall_ms(), time.perf_counter()
        # Before the first task of the batch, which collecting starts.
        versions = self._lookups.before(batch) if self._lookups else {}
        offsets = self._checkpoint.offsets(batch)
        claimed = self._pool.submit(self._claim.take, batch, offsets)
        with self._computed_once(frame):
            rows = BatchRows(batch, frame, self._collect(frame))
            compute_ms = since_ms(start)
            # Behind the reading: a topic that was created anew may have the offsets that were asked for.
            self._check_source()
            claimed.result()
            rows = replace(rows, collected=self._with_bytes(rows.collected))
            receipts = self._to_sinks(rows)
        receipt = Receipt(
            query=self._query,
            batch=batch,
            offsets=offsets,
            sinks=tuple(receipts),
            started_at_ms=started_at_ms,
            compute_ms=compute_ms,
            total_ms=since_ms(start),
            latency_ms=latency_counts(rows.collected, self._visible_at_ms(receipts)),
            versions=versions,
            stale_since_ms=self._lookups.stale_since_ms() if self._lookups else {},
            **tally(rows.collected),
        )
        self.records += receipt.records
        if self.batches == 0:
            self._checkpoint.sinks_began([output.described.name for output in self._outputs])
        self._on_receipt(receipt)

    @contextmanager
    def _computed_once(self, frame: DataFrame) -> Iterator[None]:
        """Keep the rows while several jobs read them: the driver's, and one for each sink with slots."""
        if not self._has_slots:
            yield
            return
        frame.persist()
        try:
            yield
        finally:
            # Nobody waits for it; and in this thread a stop would break it off, and the batch with it.
            self._pool.submit(frame.unpersist)

    def _collect(self, frame: DataFrame) -> pa.Table:
        """The rows that the driver needs. Events that only tasks write stay where they are."""
        return in_order((frame if self._driver_has_events else without_events(frame)).toArrow())

    def _with_bytes(self, rows: pa.Table) -> pa.Table:
        wanted = {kind for output in self._outputs for kind in output.described.rows} & _WITHOUT_BYTES
        if not wanted:
            return rows
        aside = rows.filter(pc.is_in(rows.column("kind"), pa.array(sorted(wanted))))
        origins = zip(aside.column("partition").to_pylist(), aside.column("offset").to_pylist(), strict=True)
        return with_originals(rows, self._originals.fetch(origins))

    def _to_sinks(self, rows: BatchRows) -> list[SinkReceipt]:
        """To all side by side, but what is refused by others can only be written after them."""
        last = [output for output in self._outputs if "refused" in output.described.rows]
        staging = [self._pool.submit(output.stage, rows) for output in last]
        done = self._side_by_side([output for output in self._outputs if output not in last], rows)
        for staged in staging:
            staged.result()
        refused = [outcome.refused for outcome in done]
        done += self._side_by_side(last, replace(rows, collected=with_refused(rows.collected, refused)))
        by_name = {outcome.receipt.name: outcome.receipt for outcome in done}
        return [by_name[output.described.name] for output in self._outputs]

    def _side_by_side(self, outputs: Sequence[Output], rows: BatchRows) -> list[Outcome]:
        """When one fails the others are waited for: no write outlives its batch."""
        writing = [self._pool.submit(output.write, rows) for output in outputs]
        wait(writing)
        return [written.result() for written in writing]

    def _visible_at_ms(self, receipts: Sequence[SinkReceipt]) -> int:
        """When the freshest rows could be read: at the sink of live rows, or at the slowest where none is."""
        live = [
            r.visible_at_ms
            for r, output in zip(receipts, self._outputs, strict=True)
            if "live" in output.described.rows
        ]
        return max(live or [receipt.visible_at_ms for receipt in receipts])

    def close(self) -> None:
        # A sink must not be closed under a write; each write is bounded by its client's own time-outs.
        self._pool.shutdown(wait=True, cancel_futures=True)
        for output in self._outputs:
            output.close()
        self._claim.close()
