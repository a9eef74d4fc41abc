"""How long an event takes from the producer to a reader of the topic that it is written to, enriched.

Services, pipeline, producer and reader share one machine and one clock, so what the machine lacks is in the
figures. How much of it is the engine's is told by the broker's stamps in both topics' logs.
"""

from __future__ import annotations

import re
import threading
import time
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from numpy.typing import NDArray

from penstock.audit.topic import read_topic
from penstock.bench.running import produce, running_pipeline
from penstock.local.services import Services
from penstock.paths import DataDir, shipped
from penstock.produce.reference import write_reference
from penstock.sinks.topics import QUIET, ensure_source_topic
from penstock.spec import KafkaSink, PipelineSpec, load

_DRAINED_WITHIN_S = 30.0
_CLICKS = "clicks"
_CREATED = b'"created_ms":'
_NUMBER = re.compile(rb'"event_id":"[^"]*-(\d+)"')
_SINK = KafkaSink(
    topic="enriched",
    rows=("events",),
    guarantee="at_least_once",
    latency="realtime",
    key="event_id",
    columns=("event_id", "user_id", "event_type", "price", "created_ms", "segment", "country", "brand"),
)

_EXACTLY_ONCE = {"guarantee": "exactly_once", "latency": "batch"}


@dataclass(frozen=True)
class Outcome:
    """What one run measured; latencies are of events made after the warm-up, at their first arrival."""

    rate_eps: float
    achieved_eps: float
    """Below the rate, the machine was too busy to make the load, and the latencies are of another one."""
    measured: int
    engine_p50_ms: float
    """From the topic's log to that of the sink's; exactly once to the reader, who waits for a commit."""
    engine_p99_ms: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    sent: int
    expected: int
    """Of those sent, the ones that are good."""
    received: int
    producer_behind_ms_max: float


class Reader:
    """Reads the sink's topic as fast as records come, and notes how old each one is."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.received = 0
        self._arrivals = array("q")
        """Of each event its number, when it was made, when it was in the log, when it was seen. Objects would
        keep Python's garbage collector busy, and the reader waiting for it."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "penstock-bench",
                "enable.auto.commit": False,
                # The broker answers as soon as there is a record: a longer wait is only for silence.
                "fetch.wait.max.ms": 50,
                **QUIET,
            }
        )
        partitions = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, name="reader", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._over.is_set():
            # Waits until it has so many or the time is up: a longer time would be measured as latency.
            messages = self._consumer.consume(1_000, 0.002)
            now_ms = time.time_ns() // 1_000_000
            for message in messages:
                value = message.value() or b""
                at = value.index(_CREATED) + len(_CREATED)
                number = int((message.key() or b"").rpartition(b"-")[2])
                self._arrivals.extend((number, int(value[at : at + 13]), message.timestamp()[1], now_ms))
            self.received += len(messages)

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._consumer.close()

    def arrivals(self, warm_up_s: float) -> NDArray[np.int64]:
        """Of the events that were made so long after the first: number, made, in the log, seen."""
        arrivals = np.frombuffer(self._arrivals, dtype=np.int64).reshape(-1, 4)
        # The producer sends some events twice, the copy 300 ms later with the time of the first.
        _, first = np.unique(arrivals[:, 0], return_index=True)
        made = arrivals[first, 1]
        behind: NDArray[np.int64] = arrivals[first][made >= made.min() + warm_up_s * 1000]
        return behind


def in_the_log_ms(messages: Iterable[Message], events: int) -> NDArray[np.int64]:
    """When each of so many events was in the topic's log, by its number; 0 where it is not there."""
    stamps = np.zeros(events, dtype=np.int64)
    for message in messages:
        found = _NUMBER.search(message.value() or b"")
        if found and not stamps[number := int(found[1])]:
            stamps[number] = message.timestamp()[1]
    return stamps


def described(guarantee: str) -> PipelineSpec:
    """The clickstream's events, enriched: in real time, or exactly once in batches; no sessions."""
    sink = _SINK if guarantee == "at_least_once" else _SINK.model_copy(update=_EXACTLY_ONCE)
    return load(shipped("pipelines") / "clickstream.toml").model_copy(
        update={"sink": (sink,), "sessions": None}
    )


def measure(data: DataDir, guarantee: str, *, rate_eps: float, seconds: float, warm_up_s: float) -> Outcome:
    services = Services(data, tie_to_parent=True, only=("kafka",))
    kafka = services.start().kafka
    try:
        spec = described(guarantee)
        write_reference(data.reference)
        ensure_source_topic(kafka, _SINK.topic, spec.source.partitions)
        with running_pipeline(data, spec):
            return measure_topic(
                data, kafka, _SINK.topic, guarantee, rate_eps=rate_eps, seconds=seconds, warm_up_s=warm_up_s
            )
    finally:
        services.stop()


def measure_topic(
    data: DataDir,
    kafka: str,
    topic: str,
    guarantee: str,
    *,
    rate_eps: float,
    seconds: float,
    warm_up_s: float,
) -> Outcome:
    """Send clicks at a rate, and see when each is in a topic that something which runs writes to.

    Both topics are stamped by the broker.
    """
    reader = Reader(kafka, topic)
    sent = produce(data, "clickstream", rate_eps, seconds + warm_up_s)
    expected = sent["sent"] - sent["malformed"] - sent["invalid"]
    deadline = time.monotonic() + _DRAINED_WITHIN_S
    while reader.received < expected and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1.0)
    reader.close()
    number, made, logged, seen = reader.arrivals(warm_up_s).T
    p50, p99, p999, most = np.percentile(seen - made, [50, 99, 99.9, 100]).round(1).tolist()
    came = in_the_log_ms(read_topic(kafka, _CLICKS), sent["sent"])[number]
    readable = logged if guarantee == "at_least_once" else seen
    engine_p50, engine_p99 = np.percentile(readable - came, [50, 99]).round(1).tolist()
    return Outcome(
        rate_eps=rate_eps,
        achieved_eps=round(sent["achieved_eps"]),
        measured=len(number),
        engine_p50_ms=engine_p50,
        engine_p99_ms=engine_p99,
        p50_ms=p50,
        p99_ms=p99,
        p999_ms=p999,
        max_ms=most,
        sent=sent["sent"],
        expected=expected,
        received=reader.received,
        producer_behind_ms_max=round(sent["behind_ms_max"], 1),
    )
