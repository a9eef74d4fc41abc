"""The Kafka topic as a stream of records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import ServiceError, SinkError, SourceError, first_line
from penstock.sinks.topics import QUIET
from penstock.spec import PipelineSpec
from penstock.tuning import Value, is_tuned, tuned

_ANSWER_TIMEOUT_S = 10.0

# Spark's class of errors, and what a task says instead.
_DATA_LOSS = ("KAFKA_DATA_LOSS", "Some data may have been lost because they are not available in Kafka")


def read_source(
    spark: SparkSession,
    spec: PipelineSpec,
    bootstrap: str,
    topics: Sequence[str],
    start: Mapping[int, int] | None = None,
) -> DataFrame:
    """Records as decode.RECORD has them, at most `max_batch` in one batch; other topics hold ticks.

    `start` is where a new checkpoint begins, by partition; the spec says it otherwise.
    """
    tasks = spark.sparkContext.defaultParallelism if is_tuned("source.tasks") else spec.source.partitions
    is_plain = spec.engine == "plain"
    stream = (
        spark.readStream.format("kafka" if is_plain else "penstock.kernel.Topic")
        .options(**({} if is_plain else {"tasks": tasks}))
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", starting_offsets(spec, topics, start))
        .options(**source_options(spec))
    )
    tick = F.when(F.col("topic") != spec.source.topic, F.col("value").cast("string").cast("long"))
    clock_ms = tick if len(topics) > 1 else F.lit(None).cast("long")
    records = stream.load().select("value", "partition", "offset", "timestamp", clock_ms.alias("clock_ms"))
    return records.coalesce(tasks) if is_plain and is_tuned("source.tasks") else records


def source_options(spec: PipelineSpec) -> dict[str, Value]:
    """How the topic is read, wherever it is."""
    options = {**tuned("source"), "maxOffsetsPerTrigger": int(spec.source.max_batch)}
    if spec.source.min_batch is not None:
        options["minOffsetsPerTrigger"] = int(spec.source.min_batch)
        options["maxTriggerDelay"] = f"{spec.source.max_wait.ms}ms"
    return options


def starting_offsets(spec: PipelineSpec, topics: Sequence[str], start: Mapping[int, int] | None) -> str:
    """As Spark takes them: a word, or every partition of every topic."""
    if start is None:
        return spec.source.starting
    earliest = -2
    offsets = {str(partition): start.get(partition, earliest) for partition in range(spec.source.partitions)}
    others = {topic: {"0": earliest} for topic in topics if topic != spec.source.topic}
    return json.dumps({spec.source.topic: offsets, **others})


class SourceTopic:
    """The topic that a pipeline reads, as the cluster knows it."""

    def __init__(self, spec: PipelineSpec, bootstrap: str) -> None:
        self._name = spec.source.topic
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})

    def id(self) -> str:
        """A topic of the same name that is created anew has another."""
        try:
            [asked] = self._admin.describe_topics(
                TopicCollection([self._name]), request_timeout=_ANSWER_TIMEOUT_S
            ).values()
            return str(asked.result(2 * _ANSWER_TIMEOUT_S).topic_id)
        except (KafkaException, TimeoutError) as error:
            raise SinkError(f"topic {self._name} cannot be looked at: {first_line(error)}") from error


def records_gone(spec: PipelineSpec, failure: Exception) -> SourceError | None:
    """The error to raise if a query failed because records were deleted before it had read them."""
    if not any(words in str(failure) for words in _DATA_LOSS):
        return None
    return SourceError(
        f"records of {spec.source.topic} were deleted before {spec.name} had read them",
        hint="What is lost, and how to go on: penstock check SPEC",
    )


def check_source(spec: PipelineSpec, bootstrap: str) -> None:
    """Raise unless the topic is there with the partitions that the spec says."""
    topic = spec.source.topic
    try:
        found = (
            AdminClient({"bootstrap.servers": bootstrap})
            .list_topics(timeout=_ANSWER_TIMEOUT_S)
            .topics.get(topic)
        )
    except KafkaException as error:
        raise ServiceError(
            f"Kafka at {bootstrap} does not answer: {error.args[0].str()}",
            hint="Start the embedded one with: penstock up; or name another in [services] kafka.",
        ) from error
    if found is None:
        raise SourceError(
            f"topic {topic} does not exist on {bootstrap}",
            hint="Create it with: penstock run SPEC --create-topics; or correct [source] topic.",
        )
    if len(found.partitions) != spec.source.partitions:
        raise SourceError(
            f"topic {topic} has {len(found.partitions)} partitions, the spec says {spec.source.partitions}",
            hint=f"Set [source] partitions = {len(found.partitions)}, or recreate the topic.",
        )
