"""Events to a Kafka topic one by one, as they come: Spark's Real-time Mode."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.cleanse import judged
from penstock.engine.query import Query
from penstock.engine.slots import Reading
from penstock.engine.source import starting_offsets
from penstock.errors import PenstockError
from penstock.sinks.topics import ensure_topics
from penstock.spec import KafkaSink, PipelineSpec
from penstock.tuning import tuned, value

_POLL_S = 0.2
_LOOK_EVERY_S = 5.0
_UNREAD_MAX_S = 15.0
"""How long a partition may go unread: a batch's tasks do not all start at the same moment."""


def batch_length() -> str:
    """How long one batch runs. At its end the position is kept, and the next one is planned."""
    return str(value("realtime.batch"))


def read_realtime(
    spark: SparkSession,
    spec: PipelineSpec,
    bootstrap: str,
    tasks: int,
    start: Mapping[int, int] | None = None,
) -> DataFrame:
    """Records as decode.RECORD has them, by so many tasks, each of which has partitions of its own."""
    return (
        spark.readStream.format("penstock.kernel.Topic")
        .option("tasks", tasks)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", spec.source.topic)
        .option("startingOffsets", starting_offsets(spec, [spec.source.topic], start))
        .options(**tuned("realtime-source"))
        .load()
        .select("value", "partition", "offset", "timestamp", F.lit(None).cast("long").alias("clock_ms"))
    )


def realtime_rows(events: DataFrame, spec: PipelineSpec, sink: KafkaSink) -> DataFrame:
    """Good events as key and value of a Kafka record. The others are told of by the micro-batches."""
    event = F.struct(*(F.col(f"`{name}`") for name in spec.event_columns(sink)))
    return (
        judged(events, spec)
        .where("_reason IS NULL")
        .select(
            F.col(f"`{sink.key}`").cast("string").alias("key"),
            # Columns that are null are there, as in the events of micro-batches.
            F.to_json(event, {"ignoreNullFields": "false"}).alias("value"),
        )
    )


@dataclass
class RealtimeQuery(Query):
    """Events of one sink, each as soon as it came.

    Lost: nothing; the position is kept when the broker has acknowledged all records before it.
    Duplicated: after a crash, and after a stop too, what left since the last batch ended comes again, at most
    a batch of it, under the same keys.
    Delayed: by the pause between two batches.
    """

    def _run_once(self, stop: threading.Event) -> tuple[bool, Exception | None]:
        [sink] = self.sinks
        ensure_topics(self.endpoints.kafka, {sink.target: self.spec.source.partitions})
        query = (
            self.rows.writeStream.queryName(self.name)
            .format("kafka")
            .option("kafka.bootstrap.servers", self.endpoints.kafka)
            .option("topic", sink.target)
            .options(**tuned("realtime-sink"))
            .outputMode("update")
            .option("checkpointLocation", str(self.checkpoint.path))
            .trigger(realTime=batch_length())  # type: ignore[call-overload]
            .start()
        )
        failure: Exception | None = None
        try:
            self._watch(query, stop)
        except (StreamingQueryException, PenstockError) as error:
            failure = error
        finally:
            query.stop()
        # Spark reports progress at the end of a batch, and only there.
        return query.lastProgress is not None, failure

    def _watch(self, query: StreamingQuery, stop: threading.Event) -> None:
        ready = False
        looked_s = read_s = time.monotonic()
        reading = Reading(self.rows.sparkSession, query)
        while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]
            now_s = time.monotonic()
            if stop.is_set():
                return
            if ready and now_s - looked_s < _LOOK_EVERY_S:
                continue
            looked_s = now_s
            idle = reading.idle()
            if not idle:
                read_s = now_s
            elif now_s - read_s > _UNREAD_MAX_S:
                raise PenstockError(
                    f"{self.name}: {idle} of the tasks that read {self.spec.source.topic} do not run:"
                    " Spark has too few slots for them",
                    hint="Look whether executors were lost, or whether partitions were added to the topic.",
                )
            if idle == 0 and not ready:
                ready = True
                self.say(f"realtime {self.sinks[0].name}: running")
                self.on_ready()
