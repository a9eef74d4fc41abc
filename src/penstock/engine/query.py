"""One Spark query as it lives: started, watched, started again when a service comes back, stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.batch import BatchWriter, open_outputs
from penstock.engine.checkpoint import Checkpoint
from penstock.engine.claim import BatchClaim, check_not_overtaken
from penstock.engine.clock import Silence, Ticker, clock_topic, due_tick, horizon_ms
from penstock.engine.enrich import Lookups
from penstock.engine.originals import Originals
from penstock.engine.outputs import Endpoints
from penstock.engine.progress import Progress
from penstock.engine.receipt import Receipt
from penstock.engine.source import SourceTopic, records_gone
from penstock.errors import PenstockError, PipelineFailed, SinkError, first_line
from penstock.paths import DataDir
from penstock.sinks.clickhouse import clickhouse_answers
from penstock.sinks.control import ensure_control_topic
from penstock.sinks.postgres import postgres_answers
from penstock.sinks.topics import ensure_topics, kafka_answers
from penstock.spec import ClickHouseSink, KafkaSink, PipelineSpec, PostgresSink, Sink
from penstock.spec.secret import Secret
from penstock.spec.sinks import slots_on_kafka

_POLL_S = 0.2
_ATTEMPTS_WITHOUT_PROGRESS = 4


@dataclass
class Query:
    """Rows of one tier to the sinks that take them, on a checkpoint of its own."""

    name: str
    spec: PipelineSpec
    data: DataDir
    endpoints: Endpoints
    rows: DataFrame
    sinks: Sequence[Sink]
    checkpoint: Checkpoint
    on_receipt: Callable[[Receipt], None]
    on_ready: Callable[[], None]
    say: Callable[[str], None]
    on_progress: Callable[[dict[str, Any]], None] = lambda _: None
    lookups: Lookups | None = None
    adopt: Sequence[str] = ()
    ticks: bool = False
    """Whether the rows depend on a clock that must go on when nothing comes."""

    def __post_init__(self) -> None:
        self._source = SourceTopic(self.spec, self.endpoints.kafka)

    def run(self, stop: threading.Event) -> None:
        """Run until told to stop; failures that pass are waited out, others raised."""
        attempts = 0
        while not stop.is_set():
            try:
                self._check_source()
                progressed, failure = self._run_once(stop)
            except SinkError as error:
                progressed, failure = False, error
            if failure is None:
                return
            if gone := records_gone(self.spec, failure):
                # Gone with their topic, perhaps: then that is what has to be said.
                with suppress(SinkError):
                    self._check_source()
                raise gone from failure
            # A PenstockError other than a plain SinkError says that going on would do harm.
            if isinstance(failure, PenstockError) and type(failure) is not SinkError:
                raise failure
            if progressed:
                attempts, self.adopt = 0, ()
            if not self._waited_for_services(stop):
                attempts += 1
                self._give_up_after(attempts, failure)
                self.say(f"batch failed, starting again: {first_line(failure)}")
                stop.wait(min(2.0**attempts, 8.0))

    def _check_source(self) -> None:
        """Raise if the topic is another one than the checkpoint tells of."""
        self.checkpoint.belongs_to(self._source.id())

    def _run_once(self, stop: threading.Event) -> tuple[bool, Exception | None]:
        """One life of the query: whether any batch succeeded, and what ended it (None when told to stop)."""
        ensure_topics(self.endpoints.kafka, self._topics())
        ensure_control_topic(self.endpoints.kafka, slots=slots_on_kafka(self.sinks))
        check_not_overtaken(self.endpoints.kafka, self.name, self.checkpoint.due())
        outputs = open_outputs(self.spec, self.name, self.sinks, self.endpoints, self.adopt)
        writer = BatchWriter(
            self.name,
            self.checkpoint,
            outputs,
            Originals(self.endpoints.kafka, self.spec.source.topic),
            self.lookups,
            BatchClaim(self.endpoints.kafka, self.name),
            self._check_source,
            self.on_receipt,
        )
        try:
            query = (
                self.rows.writeStream.queryName(self.name)
                .foreachBatch(writer)
                .outputMode("append")
                .option("checkpointLocation", str(self.checkpoint.path))
                .trigger(processingTime=f"{self.spec.trigger.ms} milliseconds")
                .start()
            )
            try:
                self._await(query, writer, stop)
            finally:
                query.stop()
            return writer.batches > 0, None
        except StreamingQueryException as error:
            return writer.batches > 0, writer.failure or error
        except SinkError as error:
            return writer.batches > 0, error
        finally:
            writer.close()

    def _await(self, query: StreamingQuery, writer: BatchWriter, stop: threading.Event) -> None:
        ready = False
        clock = _IdleClock(self) if self.ticks else None
        progress = Progress(self.rows.sparkSession, query)
        while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]
            waiting = query.status["message"].startswith("Waiting for data")
            # The first batch compiles the plan, which takes seconds; with no data there may be none.
            if not ready and (writer.batches or waiting):
                ready = True
                self.on_ready()
            for report in progress.new():
                self.on_progress(report)
            if clock:
                clock.look(waiting=waiting, records=writer.records)
            if stop.is_set():
                return

    def _topics(self) -> dict[str, int]:
        partitions = self.spec.source.partitions
        return {sink.topic: partitions for sink in self.sinks if isinstance(sink, KafkaSink)}

    def _give_up_after(self, attempts: int, failure: Exception) -> None:
        if attempts >= _ATTEMPTS_WITHOUT_PROGRESS:
            raise PipelineFailed(
                f"{self.name}: failed {attempts} times without progress: {first_line(failure)}",
                hint=f"The whole story is in {self.data.logs / f'spark-{self.spec.name}.log'}",
            ) from failure

    def _waited_for_services(self, stop: threading.Event) -> bool:
        """Wait until all services answer; False when they did at once: the failure has another cause."""
        away = self._away()
        if not away:
            return False
        self.say(f"{' and '.join(away)} away; waiting")
        since = time.monotonic()
        while not stop.is_set() and self._away():
            stop.wait(0.5)
        if not stop.is_set():
            waited_s = time.monotonic() - since
            self.say(f"{' and '.join(away)} back after {waited_s:.0f} s; going on from the checkpoint")
        return True

    def _away(self) -> list[str]:
        at = self.endpoints
        kinds = {type(sink) for sink in self.sinks}
        topics = [self.spec.source.topic, *self._topics()]
        away = [] if kafka_answers(at.kafka, topics) else [f"Kafka at {at.kafka}"]
        if ClickHouseSink in kinds and not clickhouse_answers(at.clickhouse):
            away.append(f"ClickHouse at {Secret(at.clickhouse)}")
        if PostgresSink in kinds and not postgres_answers(at.postgres):
            away.append("PostgreSQL")
        return away


class _IdleClock:
    """Sees when nothing comes any more, and sends the ticks that are due then."""

    def __init__(self, query: Query) -> None:
        self._checkpoint = query.checkpoint
        self._ticker = Ticker(query.endpoints.kafka, clock_topic(query.spec))
        grouping = query.spec.grouping
        self._idle_ms = grouping.idle.ms if grouping else 0
        self._out_of_order_ms = grouping.out_of_order.ms if grouping else 0
        self._horizon_ms = horizon_ms(query.spec)
        self._records = -1
        self._silent_since_ms = 0
        self._silence: Silence | None = None
        self._last_tick_ms = 0

    def look(self, *, waiting: bool, records: int) -> None:
        now_ms = time.time_ns() // 1_000_000
        if not waiting or records != self._records:
            if records != self._records:
                self._silence, self._silent_since_ms = None, now_ms
            self._records = records
            return
        if now_ms - self._silent_since_ms < self._idle_ms:
            return
        if self._silence is None:
            watermark_ms = self._checkpoint.watermark_ms()
            if watermark_ms == 0:
                return
            self._silence = Silence(self._silent_since_ms, watermark_ms + self._out_of_order_ms)
        at_ms = due_tick(
            self._silence, now_ms, self._last_tick_ms, idle_ms=self._idle_ms, horizon_ms=self._horizon_ms
        )
        if at_ms is not None:
            self._ticker.send(at_ms)
            self._last_tick_ms = at_ms
