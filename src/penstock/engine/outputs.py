"""A batch's rows to all its sinks, and the receipt of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

import penstock.spec as spec_
from penstock.engine.checkpoint import Checkpoint
from penstock.engine.enrich import Lookups
from penstock.engine.originals import Originals
from penstock.engine.receipt import Receipt, SinkReceipt
from penstock.engine.rows import (
    for_sink,
    in_order,
    latency_counts,
    refused_rows,
    span_id,
    tally,
    with_originals,
    with_refused,
)
from penstock.sinks.clickhouse import ClickHouseSink
from penstock.sinks.encode import dead_letters, json_rows
from penstock.sinks.kafka import Encoder, KeyedKafkaSink, TransactionalKafkaSink, message_bytes
from penstock.sinks.postgres import PostgresSink
from penstock.sinks.protocol import Batch, Sink
from penstock.spec import PipelineSpec
from penstock.spec.sinks import ASIDE

_WITHOUT_BYTES = {"late", "duplicate"}
"""Set aside behind the shuffle, where their bytes are no longer."""


@dataclass(frozen=True)
class Endpoints:
    """Where the services of a pipeline are."""

    kafka: str
    clickhouse: str
    postgres: str


@dataclass(frozen=True)
class Output:
    """A sink of the spec, and what writes it."""

    described: spec_.Sink
    sink: Sink


def open_outputs(
    spec: PipelineSpec, query: str, sinks: Sequence[spec_.Sink], at: Endpoints, adopt: Sequence[str]
) -> list[Output]:
    """A fresh writer for every sink; opening one fences its predecessors.

    If one of them takes what is refused, the others set it aside.
    """
    set_aside = any("refused" in sink.rows for sink in sinks)
    return [
        Output(sink, _open(spec, query, sink, at, set_aside=set_aside, adopt=sink.name in adopt))
        for sink in sinks
    ]


def _open(
    spec: PipelineSpec, query: str, sink: spec_.Sink, at: Endpoints, *, set_aside: bool, adopt: bool
) -> Sink:
    exactly_once = sink.guarantee == "exactly_once"
    if isinstance(sink, spec_.KafkaSink):
        max_bytes = message_bytes(at.kafka, sink.topic)
        encode = _encoder(spec, sink, max_bytes)
        if exactly_once:
            return TransactionalKafkaSink(
                sink.name,
                at.kafka,
                sink.topic,
                query,
                encode,
                max_bytes=max_bytes,
                set_aside=set_aside,
                adopt=adopt,
            )
        return KeyedKafkaSink(
            sink.name, at.kafka, sink.topic, encode, max_bytes=max_bytes, set_aside=set_aside
        )
    is_event = "events" in sink.rows
    key = (str(sink.key) if is_event else span_id(spec),)
    if isinstance(sink, spec_.ClickHouseSink):
        keep = "all" if exactly_once else "newest"
        return ClickHouseSink(
            sink.name, at.clickhouse, sink.table, query, key=key, keep=keep, set_aside=set_aside, adopt=adopt
        )
    return PostgresSink(
        sink.name,
        at.postgres,
        sink.table,
        query,
        key=key,
        version=None if is_event else "version",
        exactly_once=exactly_once,
        max_rows=int(sink.max_rows),
        set_aside=set_aside,
        adopt=adopt,
    )


def _encoder(spec: PipelineSpec, sink: spec_.KafkaSink, max_bytes: int) -> Encoder:
    if "events" in sink.rows:
        return json_rows(str(sink.key))
    if ASIDE & set(sink.rows):
        return dead_letters(spec.source.topic, max_bytes)
    return json_rows(spec.grouping.key if spec.grouping else spec.source.key)


class BatchWriter:
    """What Spark calls with each batch."""

    def __init__(
        self,
        spec: PipelineSpec,
        query: str,
        checkpoint: Checkpoint,
        outputs: Sequence[Output],
        originals: Originals,
        lookups: Lookups | None,
        on_receipt: Callable[[Receipt], None],
    ) -> None:
        self._spec = spec
        self._query = query
        self._checkpoint = checkpoint
        self._outputs = outputs
        self._originals = originals
        self._lookups = lookups
        self._on_receipt = on_receipt
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(outputs)), thread_name_prefix="sink")
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
        started_at_ms, start = _wall_ms(), time.perf_counter()
        # Before the first task of the batch, which toArrow starts.
        versions = self._lookups.before(batch) if self._lookups else {}
        rows = in_order(frame.toArrow())
        compute_ms = _since_ms(start)
        rows = self._with_bytes(rows)
        receipts = self._to_sinks(rows, batch)
        receipt = Receipt(
            query=self._query,
            batch=batch,
            offsets=self._checkpoint.offsets(batch),
            sinks=tuple(receipts),
            started_at_ms=started_at_ms,
            compute_ms=compute_ms,
            total_ms=_since_ms(start),
            latency_ms=latency_counts(rows, self._visible_at_ms(receipts)),
            versions=versions,
            stale_since_ms=self._lookups.stale_since_ms() if self._lookups else {},
            **tally(rows),
        )
        self.records += receipt.records
        if self.batches == 0:
            self._checkpoint.sinks_began([output.described.name for output in self._outputs])
        self._on_receipt(receipt)

    def _with_bytes(self, rows: pa.Table) -> pa.Table:
        wanted = {kind for output in self._outputs for kind in output.described.rows} & _WITHOUT_BYTES
        if not wanted:
            return rows
        aside = rows.filter(pc.is_in(rows.column("kind"), pa.array(sorted(wanted))))
        origins = zip(aside.column("partition").to_pylist(), aside.column("offset").to_pylist(), strict=True)
        return with_originals(rows, self._originals.fetch(origins))

    def _to_sinks(self, rows: pa.Table, number: int) -> list[SinkReceipt]:
        """To all side by side, but what is refused by others can only be written after them."""
        last = [output for output in self._outputs if "refused" in output.described.rows]
        first = [output for output in self._outputs if output not in last]
        done = list(self._pool.map(lambda output: self._to_sink(output, rows, number), first))
        rows = with_refused(rows, [refused for _, refused in done])
        done += self._pool.map(lambda output: self._to_sink(output, rows, number), last)
        by_name = {receipt.name: receipt for receipt, _ in done}
        return [by_name[output.sink.name] for output in self._outputs]

    def _to_sink(self, output: Output, rows: pa.Table, number: int) -> tuple[SinkReceipt, pa.Table]:
        """The receipt, and the rows that were refused, to be set aside."""
        start = time.perf_counter()
        chosen = for_sink(rows, output.described, self._spec, self._query, number)
        written = output.sink.write(Batch.of(self._query, number, chosen))
        receipt = SinkReceipt(
            name=output.sink.name,
            rows=written.count,
            digest=written.digest,
            replayed=written.replayed,
            write_ms=_since_ms(start),
            visible_at_ms=_wall_ms(),
            refused=len(written.refused),
        )
        return receipt, refused_rows(rows, output.described, chosen, written.refused)

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
            output.sink.close()


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _since_ms(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 1)
