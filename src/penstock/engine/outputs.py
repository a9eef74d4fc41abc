"""A batch's rows to all its sinks, and the receipt of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.engine.checkpoint import Checkpoint
from penstock.engine.originals import Originals
from penstock.engine.receipt import Receipt, SinkReceipt
from penstock.engine.rows import for_sink, in_order, latency_counts, tally, with_originals
from penstock.sinks.clickhouse import ClickHouseSink
from penstock.sinks.encode import dead_letters, json_rows
from penstock.sinks.kafka import KeyedKafkaSink, TransactionalKafkaSink
from penstock.sinks.protocol import Batch, Sink
from penstock.spec import KafkaSink, PipelineSpec


@dataclass(frozen=True)
class Output:
    """A sink and the kinds of rows that it takes."""

    rows: tuple[str, ...]
    sink: Sink


def open_outputs(spec: PipelineSpec, kafka: str, clickhouse: str, adopt: Sequence[str]) -> list[Output]:
    """A fresh writer for every sink of the spec; opening one fences its predecessors."""
    outputs = []
    for described in spec.sink:
        exactly_once = described.guarantee == "exactly_once"
        name, rows = described.name, tuple(described.rows)
        sink: Sink
        if isinstance(described, KafkaSink):
            aside = "rejected" in rows or "late" in rows
            encode = dead_letters(spec.source.topic) if aside else json_rows(spec.sessions.key)
            if exactly_once:
                sink = TransactionalKafkaSink(
                    name, kafka, described.topic, spec.name, encode, adopt=name in adopt
                )
            else:
                sink = KeyedKafkaSink(name, kafka, described.topic, encode)
        else:
            keep = "all" if exactly_once else "newest"
            sink = ClickHouseSink(
                name,
                clickhouse,
                described.table,
                spec.name,
                key=("session_id",),
                keep=keep,
                adopt=name in adopt,
            )
        outputs.append(Output(rows, sink))
    return outputs


class BatchWriter:
    """What Spark calls with each batch."""

    def __init__(
        self,
        spec: PipelineSpec,
        checkpoint: Checkpoint,
        outputs: Sequence[Output],
        originals: Originals,
        on_receipt: Callable[[Receipt], None],
    ) -> None:
        self._spec = spec
        self._checkpoint = checkpoint
        self._outputs = outputs
        self._originals = originals
        self._on_receipt = on_receipt
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(outputs)), thread_name_prefix="sink")
        self.failure: Exception | None = None
        """The first error of a batch, as raised: Spark passes only its text on."""
        self.batches = 0

    def __call__(self, frame: DataFrame, batch: int) -> None:
        try:
            self._write(frame, batch)
            self.batches += 1
        except Exception as error:
            self.failure = self.failure or error
            raise

    def _write(self, frame: DataFrame, batch: int) -> None:
        started_at_ms, start = _wall_ms(), time.perf_counter()
        rows = in_order(frame.toArrow())
        compute_ms = _since_ms(start)
        rows = self._with_late_bytes(rows)
        receipts = list(self._pool.map(lambda output: self._to_sink(output, rows, batch), self._outputs))
        self._on_receipt(
            Receipt(
                query=self._spec.name,
                batch=batch,
                offsets=self._checkpoint.offsets(batch),
                sinks=tuple(receipts),
                started_at_ms=started_at_ms,
                compute_ms=compute_ms,
                total_ms=_since_ms(start),
                latency_ms=latency_counts(rows, self._visible_at_ms(receipts)),
                **tally(rows),
            )
        )

    def _with_late_bytes(self, rows: pa.Table) -> pa.Table:
        if not any("late" in output.rows for output in self._outputs):
            return rows
        late = rows.filter(pa.compute.equal(rows.column("kind"), "late")).select(["partition", "offset"])
        origins = zip(late.column("partition").to_pylist(), late.column("offset").to_pylist(), strict=True)
        return with_originals(rows, self._originals.fetch(origins))

    def _to_sink(self, output: Output, rows: pa.Table, number: int) -> SinkReceipt:
        start = time.perf_counter()
        chosen = for_sink(rows, output.rows, self._spec, self._spec.name, number)
        written = output.sink.write(Batch.of(self._spec.name, number, chosen))
        return SinkReceipt(
            name=output.sink.name,
            rows=written.count,
            digest=written.digest,
            replayed=written.replayed,
            write_ms=_since_ms(start),
            visible_at_ms=_wall_ms(),
        )

    def _visible_at_ms(self, receipts: Sequence[SinkReceipt]) -> int:
        """When the freshest rows could be read: at the sink of live rows, or at the slowest where none is."""
        live = [
            r.visible_at_ms
            for r, output in zip(receipts, self._outputs, strict=True)
            if "live" in output.rows
        ]
        return max(live or [receipt.visible_at_ms for receipt in receipts])

    def close(self) -> None:
        # A sink must not be closed under a write; each write is bounded by its client's own time-outs.
        self._pool.shutdown(wait=True, cancel_futures=True)
        for output in self._outputs:
            output.sink.close()


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _since_ms(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 1)
