"""The kernel's reader of a topic, on a real broker, beside its twin: Spark's own.

Numbers in brackets are the invariants of TopicConsumer.java.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.source import records_gone
from penstock.errors import SourceError
from penstock.local.services import Addresses
from penstock.sinks.topics import ensure_topics
from tests.integration.clicks import clickstream

pytestmark = pytest.mark.integration

PARTITIONS = 3
TWINS = {"penstock.kernel.Topic": {"tasks": "2"}, "kafka": {}}
COLUMNS = ("topic", "partition", "offset", "timestamp", "value")


class Log:
    """A topic, and what reads it on one checkpoint."""

    def __init__(self, spark: SparkSession, kafka: str, home: Path) -> None:
        self.spark, self.kafka, self.home = spark, kafka, home
        self.topic = f"log-{uuid.uuid4().hex[:8]}"
        ensure_topics(kafka, {self.topic: PARTITIONS})

    def send(self, values: Sequence[bytes | None], *, commit: bool | None = None) -> None:
        """To all partitions in turn; in a transaction that is committed or aborted, or in none."""
        settings: dict[str, str | int] = {"bootstrap.servers": self.kafka}
        if commit is not None:
            settings["transactional.id"] = f"test-{uuid.uuid4().hex}"
        producer = Producer(settings)
        if commit is not None:
            producer.init_transactions()
            producer.begin_transaction()
        for number, value in enumerate(values):
            producer.produce(self.topic, value, key=b"k", partition=number % PARTITIONS)
        producer.flush()
        if commit is True:
            producer.commit_transaction()
        elif commit is False:
            producer.abort_transaction()

    def rows(self, format_: str, max_batch: int) -> DataFrame:
        return (
            self.spark.readStream.format(format_)
            .options(**TWINS[format_])
            .option("kafka.bootstrap.servers", self.kafka)
            .option("kafka.isolation.level", "read_committed")
            .option("kafka.fetch.max.wait.ms", 5)
            .option("kafka.max.poll.records", 7)
            .option("subscribe", self.topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", max_batch)
            .load()
            .select(*COLUMNS)
        )

    def read(self, format_: str, max_batch: int) -> list[list[Row]]:
        """All that is new on the checkpoint of this format, batch by batch."""
        batches: list[list[Row]] = []
        query = (
            self.rows(format_, max_batch)
            .writeStream.foreachBatch(lambda rows, _: batches.append(rows.collect()))
            .option("checkpointLocation", str(self.home / format_))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return batches

    @contextmanager
    def running(
        self, keep: Callable[[DataFrame, int], None], max_batch: int = 50
    ) -> Iterator[StreamingQuery]:
        """The kernel's reader, as long as it takes."""
        query = (
            self.rows("penstock.kernel.Topic", max_batch)
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self.home / "running"))
            .start()
        )
        try:
            yield query
        finally:
            query.stop()


@pytest.fixture
def log(spark: SparkSession, services: Addresses, tmp_path: Path) -> Log:
    return Log(spark, services.kafka, tmp_path)


def in_partitions(rows: Sequence[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.partition].append(row)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_it_reads_what_sparks_own_reads_in_the_same_batches_and_in_order(log: Log, seed: int) -> None:
    # [1] [3]
    chance = random.Random(seed)
    for _ in range(3):
        for _ in range(chance.randint(1, 6)):
            values = [
                chance.choice([b"x" * chance.randint(0, 300), None]) for _ in range(chance.randint(1, 40))
            ]
            log.send(values, commit=chance.choice([None, True, False]))
        log.send([b"there is always one"])
        max_batch = chance.randint(5, 60)
        ours, sparks = (log.read(format_, max_batch) for format_ in TWINS)
        assert [in_partitions(rows) for rows in ours] == [in_partitions(rows) for rows in sparks]
        assert sum(map(len, ours)) > 0


def test_a_range_that_ends_in_an_aborted_transaction_comes_to_its_end(log: Log) -> None:
    # [1] Nothing follows that could tell that the range is over.
    log.send([b"kept"] * 10)
    log.send([b"aborted"] * 50, commit=False)
    assert [row.value for rows in log.read("penstock.kernel.Topic", 1000) for row in rows] == [b"kept"] * 10


def test_records_that_come_while_others_are_read_are_read_once(log: Log) -> None:
    # [3]
    seen: list[tuple[int, int]] = []
    lock = threading.Lock()

    def keep(rows: DataFrame, _batch: int) -> None:
        with lock:
            seen.extend((row.partition, row.offset) for row in rows.collect())

    with log.running(keep):
        for _ in range(60):
            log.send([b"x"] * 30)
        deadline = time.monotonic() + 60
        while len(seen) < 60 * 30 and time.monotonic() < deadline:
            time.sleep(0.05)
    by_partition = defaultdict(list)
    for partition, offset in seen:
        by_partition[partition].append(offset)
    assert dict(by_partition) == {partition: list(range(600)) for partition in range(PARTITIONS)}


def test_a_batch_that_failed_is_read_again_from_its_start(log: Log) -> None:
    log.send([b"x"] * 300)
    came = threading.Event()
    seen: list[int] = []

    def break_off(rows: DataFrame, _batch: int) -> None:
        rows.selectExpr("IF(offset = 12, raise_error('broken off'), offset)").collect()

    with log.running(break_off, 300) as query, pytest.raises(StreamingQueryException, match="broken off"):
        query.awaitTermination()

    def keep(rows: DataFrame, _batch: int) -> None:
        seen.extend(row.offset for row in rows.collect())
        came.set()

    with log.running(keep):
        assert came.wait(60)
    assert sorted(seen) == sorted(list(range(100)) * PARTITIONS)


def test_it_fails_where_records_were_deleted_before_they_were_read(log: Log, services: Addresses) -> None:
    # [2]
    log.send([b"x"] * 30)
    log.read("penstock.kernel.Topic", 1000)
    log.send([b"x"] * 90)
    admin = AdminClient({"bootstrap.servers": services.kafka})
    [deleted] = admin.delete_records([TopicPartition(log.topic, 1, 25)]).values()
    deleted.result(30)
    with pytest.raises(StreamingQueryException, match="KAFKA_DATA_LOSS") as failure:
        log.read("penstock.kernel.Topic", 1000)
    assert isinstance(records_gone(clickstream(), failure.value), SourceError)
