"""Committed records of a topic, by ranges of offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Self

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from penstock.errors import ServiceError
from penstock.sinks.topics import QUIET

_ANSWER_TIMEOUT_S = 10.0
_IDLE_TIMEOUT_S = 20.0
_PAGE_RECORDS = 500

# What a broker answers for a moment after a topic was made.
_LEADER_COMES = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)

Extent = dict[int, range]
"""Offsets, by partition."""


class Reader:
    """One reading at a time; a second needs a reader of its own."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "penstock-dead-letters",
                "enable.auto.commit": False,
                **QUIET,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                # A transaction's marker takes an offset without being a record: only this tells the end.
                "enable.partition.eof": True,
                # And it is told only when the broker has waited this long for more.
                "fetch.wait.max.ms": 20,
                # Bounds what is fetched ahead of a slow reader.
                "queued.max.messages.kbytes": 16_384,
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def extent(self, topic: str, since_ms: int | None = None) -> Extent | None:
        """What a committed reader can see now, from a moment on; None where there is no such topic.

        All transactions below its ends are decided: who reads it again sees the same records.
        """
        try:
            found = self._consumer.list_topics(topic, timeout=_ANSWER_TIMEOUT_S).topics[topic]
            if found.error is not None:
                if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return None
                raise KafkaException(found.error)
            partitions = sorted(found.partitions)
            ends = self._offsets(topic, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
            begin = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
            if since_ms is not None:
                begin = OffsetSpec.for_timestamp(since_ms)
            starts = self._offsets(topic, partitions, begin)
        except (KafkaException, TimeoutError) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else "timed out"
            raise ServiceError(
                f"topic {topic} on {self._bootstrap} cannot be read: {reason}",
                hint="Is Kafka up? The embedded one is started with: penstock up",
            ) from error
        # No record of that time or later is told as -1.
        return {p: range(starts[p] if starts[p] >= 0 else ends[p], ends[p]) for p in partitions}

    def _offsets(self, topic: str, partitions: list[int], which: OffsetSpec) -> dict[int, int]:
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        while True:
            asked = self._admin.list_offsets(
                {TopicPartition(topic, partition): which for partition in partitions},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=_ANSWER_TIMEOUT_S,
            )
            try:
                return {
                    place.partition: answer.result(2 * _ANSWER_TIMEOUT_S).offset
                    for place, answer in asked.items()
                }
            except KafkaException as error:
                if error.args[0].code() not in _LEADER_COMES or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def read(self, topic: str, extent: Extent) -> Iterator[Message]:
        """The committed records of these offsets, in order within each partition."""
        left = {partition: offsets for partition, offsets in extent.items() if offsets}
        self._consumer.assign([TopicPartition(topic, p, offsets.start) for p, offsets in left.items()])
        heard_at = time.monotonic()
        try:
            while left:
                # consume() waits to fill its list, so it must not be given long.
                messages = self._consumer.consume(_PAGE_RECORDS, timeout=0.02)
                if not messages and time.monotonic() - heard_at > _IDLE_TIMEOUT_S:
                    raise ServiceError(f"topic {topic}: partitions {sorted(left)} are silent")
                for message in messages:
                    partition, offset = message.partition() or 0, message.offset() or 0
                    if partition not in left:
                        continue
                    trouble = message.error()
                    if trouble is None and offset in left[partition]:
                        yield message
                    elif trouble is not None and trouble.code() != KafkaError._PARTITION_EOF:
                        raise ServiceError(f"topic {topic}: {trouble.str()}")
                    if trouble is not None or offset >= left[partition].stop - 1:
                        del left[partition]
                        self._consumer.incremental_unassign([TopicPartition(topic, partition)])
                if messages:
                    heard_at = time.monotonic()
        finally:
            self._consumer.unassign()
