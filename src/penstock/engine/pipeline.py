"""A pipeline as it runs: started, watched, started again when a service comes back, stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.checkpoint import Checkpoint
from penstock.engine.decode import decode
from penstock.engine.enrich import enrich
from penstock.engine.originals import Originals
from penstock.engine.outputs import BatchWriter, open_outputs
from penstock.engine.plain import plain_sessions
from penstock.engine.receipt import Receipt
from penstock.engine.sessions import sessions
from penstock.engine.source import read_source
from penstock.errors import PenstockError, PipelineFailed, SinkError, SpecError, first_line
from penstock.paths import DataDir
from penstock.sinks.clickhouse import clickhouse_answers
from penstock.sinks.kafka import CONTROL_TOPIC, ensure_topics, kafka_answers
from penstock.spec import ClickHouseSink, KafkaSink, PipelineSpec

READY = "running"
"""What is said when records that come are taken in at once."""

_POLL_S = 0.2
_ATTEMPTS_WITHOUT_PROGRESS = 4


@dataclass(frozen=True)
class Endpoints:
    """Where the services of a pipeline are."""

    kafka: str
    clickhouse: str


class Pipeline:
    """One spec on one checkpoint."""

    def __init__(
        self,
        spec: PipelineSpec,
        data: DataDir,
        endpoints: Endpoints,
        spark: SparkSession,
        checkpoint: Checkpoint,
        *,
        on_receipt: Callable[[Receipt], None],
        say: Callable[[str], None],
        adopt: Sequence[str] = (),
    ) -> None:
        self._spec = spec
        self._data = data
        self._endpoints = endpoints
        self._checkpoint = checkpoint
        self._on_receipt = on_receipt
        self._say = say
        self._adopt = adopt
        self._rows = build(spark, read_source(spark, spec, endpoints.kafka), spec, data)

    def run(self, stop: threading.Event) -> None:
        """Run until told to stop; failures that pass are waited out, others raised."""
        attempts = 0
        while not stop.is_set():
            progressed, failure = self._run_once(stop)
            if failure is None:
                return
            # A PenstockError other than a plain SinkError says that going on would do harm.
            if isinstance(failure, PenstockError) and type(failure) is not SinkError:
                raise failure
            if progressed:
                attempts, self._adopt = 0, ()
            if not self._waited_for_services(stop):
                attempts += 1
                self._give_up_after(attempts, failure)
                self._say(f"batch failed, starting again: {first_line(failure)}")
                stop.wait(min(2.0**attempts, 8.0))

    def _run_once(self, stop: threading.Event) -> tuple[bool, Exception | None]:
        """One life of the query: whether any batch succeeded, and what ended it (None when told to stop)."""
        try:
            ensure_topics(self._endpoints.kafka, self._sink_topics())
            outputs = open_outputs(self._spec, self._endpoints.kafka, self._endpoints.clickhouse, self._adopt)
        except SinkError as error:
            return False, error
        originals = Originals(self._endpoints.kafka, self._spec.source.topic)
        writer = BatchWriter(self._spec, self._checkpoint, outputs, originals, self._on_receipt)
        try:
            query = (
                self._rows.writeStream.queryName(self._spec.name)
                .foreachBatch(writer)
                .outputMode("append")
                .option("checkpointLocation", str(self._checkpoint.path))
                .trigger(processingTime=f"{self._spec.trigger.ms} milliseconds")
                .start()
            )
            self._await(query, writer, stop)
            return writer.batches > 0, None
        except StreamingQueryException as error:
            return writer.batches > 0, writer.failure or error
        finally:
            writer.close()

    def _await(self, query: StreamingQuery, writer: BatchWriter, stop: threading.Event) -> None:
        ready = False
        while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]
            # The first batch compiles the plan, which takes seconds; with no data there may be none.
            if not ready and (writer.batches or query.status["message"].startswith("Waiting for data")):
                ready = True
                self._say(READY)
            if stop.is_set():
                query.stop()
                return

    def _sink_topics(self) -> dict[str, int]:
        topics = {
            sink.topic: self._spec.source.partitions
            for sink in self._spec.sink
            if isinstance(sink, KafkaSink)
        }
        return {CONTROL_TOPIC: 1, **topics}

    def _give_up_after(self, attempts: int, failure: Exception) -> None:
        if attempts >= _ATTEMPTS_WITHOUT_PROGRESS:
            raise PipelineFailed(
                f"{self._spec.name}: failed {attempts} times without progress: {first_line(failure)}",
                hint=f"The whole story is in {self._data.logs / f'spark-{self._spec.name}.log'}",
            ) from failure

    def _waited_for_services(self, stop: threading.Event) -> bool:
        """Wait until all services answer; False when they did at once: the failure has another cause."""
        away = self._away()
        if not away:
            return False
        self._say(f"{' and '.join(away)} away; waiting")
        since = time.monotonic()
        while not stop.is_set() and self._away():
            stop.wait(0.5)
        if not stop.is_set():
            waited_s = time.monotonic() - since
            self._say(f"{' and '.join(away)} back after {waited_s:.0f} s; going on from the checkpoint")
        return True

    def _away(self) -> list[str]:
        away = [] if kafka_answers(self._endpoints.kafka) else [f"Kafka at {self._endpoints.kafka}"]
        uses_clickhouse = any(isinstance(sink, ClickHouseSink) for sink in self._spec.sink)
        if uses_clickhouse and not clickhouse_answers(self._endpoints.clickhouse):
            away.append(f"ClickHouse at {self._endpoints.clickhouse}")
        return away


def build(spark: SparkSession, records: DataFrame, spec: PipelineSpec, data: DataDir) -> DataFrame:
    """The rows that a spec makes of records; what Spark cannot resolve is a SpecError."""
    try:
        if spec.engine == "plain":
            return plain_sessions(spark, records, spec, data)
        events = enrich(spark, decode(spark, records, spec), spec, data)
        return sessions(spark, events, spec)
    except AnalysisException as error:
        raise SpecError(spec.name, [first_line(error)]) from error
