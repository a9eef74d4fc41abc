"""What experiments run on: embedded services, one Spark, topics filled once, and a meter of CPU seconds."""

from __future__ import annotations

import fcntl
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.spark import open_spark
from penstock.local.services import Addresses, Services
from penstock.paths import DataDir, cache_dir
from penstock.produce.wire import Message
from penstock.sinks.topics import QUIET, ensure_topics
from penstock.spec import PipelineSpec
from penstock.toolchain import ensure_jars, ensure_java, ensure_kernel


@dataclass(frozen=True)
class Cost:
    """What a run took."""

    events: int
    seconds: float
    cpu_seconds: float

    @property
    def per_million(self) -> float:
        """CPU seconds for a million events."""
        return self.cpu_seconds / self.events * 1e6

    @property
    def eps(self) -> float:
        return self.events / self.seconds


@dataclass(frozen=True)
class Rig:
    """One Spark on one Kafka."""

    spark: SparkSession
    addresses: Addresses
    data: DataDir
    jvm: psutil.Process

    def fill(self, topic: str, partitions: int, chunks: Iterator[list[Message]]) -> int:
        """Make a topic of these records; how many there are."""
        return fill(self.addresses.kafka, topic, partitions, chunks)

    def measure(self, rows: DataFrame, events: int) -> Cost:
        """Run a streaming frame over all there is, into nothing, on a checkpoint of its own."""
        checkpoint = self.data.root / f"bench-{uuid.uuid4().hex[:8]}"
        cost = self.go_on(rows, events, checkpoint)
        shutil.rmtree(checkpoint, ignore_errors=True)
        return cost

    def go_on(self, rows: DataFrame, events: int, checkpoint: Path, *, warm: bool = False) -> Cost:
        """Run a streaming frame over all there is new on a checkpoint, into nothing.

        `warm` leaves out the first batch: a query that begins loads its state.
        """
        before, began = self._cpu_s(), time.perf_counter()
        query = (
            rows.writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        if warm:
            while not (done := query.recentProgress):
                query.awaitTermination(0.02)  # type: ignore[arg-type]
            before, began = self._cpu_s(), time.perf_counter()
            events -= sum(batch.numInputRows for batch in done)
        query.awaitTermination()
        return Cost(events, time.perf_counter() - began, self._cpu_s() - before)

    def _cpu_s(self) -> float:
        times = self.jvm.cpu_times()
        return float(times.user + times.system)


def fill(bootstrap: str, topic: str, partitions: int, chunks: Iterator[list[Message]]) -> int:
    """Make a topic of these records; how many there are."""
    ensure_topics(bootstrap, {topic: partitions})
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            **QUIET,
            "compression.type": "lz4",
            "enable.idempotence": True,  # a record that is sent again must not change places with the next
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
            "partitioner": "murmur2_random",
        }
    )
    total = 0
    for messages in chunks:
        while len(producer) > 200_000:
            producer.poll(0.05)
        producer.produce_batch(topic, messages)
        total += len(messages)
    producer.flush()
    return total


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other experiment runs: side by side they would measure each other."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / "bench.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def open_rig(
    spec: PipelineSpec, say: Callable[[str], None], services: Sequence[str] = ("kafka",)
) -> Iterator[Rig]:
    """A rig of its own."""
    with alone(), TemporaryDirectory(prefix="penstock-bench-") as home:
        data = DataDir.at(Path(home))
        running = Services(data, tie_to_parent=True, say=say, only=services)
        try:
            addresses = running.start()
            java, jars = ensure_java(say), ensure_jars("spark", say)
            kernel = ensure_kernel(jars, say)
            spark = open_spark(spec, data, kernel=kernel, jars=jars, java=java)
            [jvm] = [p for p in psutil.Process().children() if "SparkSubmit" in " ".join(p.cmdline())]
            yield Rig(spark, addresses, data, jvm)
            spark.stop()
        finally:
            running.stop()
