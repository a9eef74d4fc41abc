"""The sinks of a query: where they are, and what writes a batch's rows to each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

import penstock.spec as spec_
from penstock.engine.receipt import SinkReceipt
from penstock.engine.rows import for_sink, refused_rows, span_id
from penstock.sinks.clickhouse import ClickHouseSink
from penstock.sinks.encode import dead_letters, json_rows
from penstock.sinks.kafka import Encoder, KeyedKafkaSink, TransactionalKafkaSink
from penstock.sinks.postgres import PostgresSink
from penstock.sinks.protocol import Batch, Sink
from penstock.spec import PipelineSpec
from penstock.spec.sinks import ASIDE


@dataclass(frozen=True)
class Endpoints:
    """Where the services of a pipeline are."""

    kafka: str
    clickhouse: str
    postgres: str


@dataclass(frozen=True)
class BatchRows:
    """The rows of a batch."""

    batch: int
    frame: DataFrame
    """All of them, as Spark has them."""
    collected: pa.Table
    """Those that the driver needs, in order."""


@dataclass(frozen=True)
class Outcome:
    """What became of a batch's rows at one sink."""

    receipt: SinkReceipt
    refused: pa.Table
    """The rows that it does not take, to be set aside."""


@dataclass(frozen=True)
class Opening:
    """What it takes to open a writer of a sink, on the driver or in a task, and the rows that are for it."""

    spec: PipelineSpec
    query: str
    sink: spec_.Sink
    at: Endpoints
    set_aside: bool
    """Rows that the store does not take are left out and told of; else the batch fails."""
    max_bytes: int = 0
    """The largest message that its topic takes, where it has one."""

    def batch(self, rows: pa.Table, number: int, slot: int = 0) -> Batch:
        """The rows of a batch that the sink asked for."""
        return Batch.of(self.query, number, for_sink(rows, self.sink, self.spec, self.query, number, slot))

    def open(self, *, adopt: bool, slot: int = 0) -> Sink:
        """A fresh writer; opening one fences its predecessors. One of a slot writes one batch."""
        sink, exactly_once = self.sink, self.sink.guarantee == "exactly_once"
        if isinstance(sink, spec_.KafkaSink):
            return self._open_topic(sink, adopt=adopt, slot=slot)
        is_event = "events" in sink.rows
        key = (str(sink.key) if is_event else span_id(self.spec),)
        if isinstance(sink, spec_.ClickHouseSink):
            return ClickHouseSink(
                sink.name,
                self.at.clickhouse,
                sink.table,
                self.query,
                key=key,
                keep="all" if exactly_once else "newest",
                set_aside=self.set_aside,
                adopt=adopt,
                slot=slot,
            )
        return PostgresSink(
            sink.name,
            self.at.postgres,
            sink.table,
            self.query,
            key=key,
            version=None if is_event else "version",
            exactly_once=exactly_once,
            max_rows=int(sink.max_rows),
            set_aside=self.set_aside,
            adopt=adopt,
            slot=slot,
        )

    def _open_topic(self, sink: spec_.KafkaSink, *, adopt: bool, slot: int) -> Sink:
        encode = _encoder(self.spec, sink, self.max_bytes)
        if sink.guarantee == "at_least_once":
            return KeyedKafkaSink(
                sink.name,
                self.at.kafka,
                sink.topic,
                encode,
                max_bytes=self.max_bytes,
                set_aside=self.set_aside,
            )
        return TransactionalKafkaSink(
            sink.name,
            self.at.kafka,
            sink.topic,
            self.query,
            encode,
            max_bytes=self.max_bytes,
            set_aside=self.set_aside,
            adopt=adopt,
            slot=slot,
            one_batch=sink.writers > 1,
        )


class Output(Protocol):
    """A sink of the spec, and what writes it."""

    @property
    def described(self) -> spec_.Sink: ...

    def stage(self, rows: BatchRows) -> None:
        """Prepare to write the rows, to which some may yet be added."""

    def write(self, rows: BatchRows) -> Outcome:
        """Have the sink hold its rows of the batch, once."""

    def close(self) -> None:
        """Let go of all connections."""


@dataclass(frozen=True)
class DriverOutput:
    """The driver writes a batch as a whole."""

    opening: Opening
    sink: Sink

    @property
    def described(self) -> spec_.Sink:
        return self.opening.sink

    def stage(self, rows: BatchRows) -> None:
        if isinstance(self.sink, TransactionalKafkaSink):
            self.sink.stage(self.opening.batch(rows.collected, rows.batch))

    def write(self, rows: BatchRows) -> Outcome:
        start = time.perf_counter()
        batch = self.opening.batch(rows.collected, rows.batch)
        written = self.sink.write(batch)
        receipt = SinkReceipt(
            name=self.sink.name,
            rows=written.count,
            digest=written.digest,
            replayed=written.replayed,
            write_ms=since_ms(start),
            visible_at_ms=wall_ms(),
            refused=len(written.refused),
        )
        return Outcome(receipt, refused_rows(rows.collected, self.described, batch.rows, written.refused))

    def close(self) -> None:
        self.sink.close()


def _encoder(spec: PipelineSpec, sink: spec_.KafkaSink, max_bytes: int) -> Encoder:
    if "events" in sink.rows:
        return json_rows(str(sink.key))
    if ASIDE & set(sink.rows):
        return dead_letters(spec.source.topic, max_bytes)
    return json_rows(spec.grouping.key if spec.grouping else spec.source.key)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def since_ms(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 1)
