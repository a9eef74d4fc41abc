"""A topic of a test's own."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from penstock.errors import SinkError
from penstock.sinks.control import ensure_control_topic
from penstock.sinks.encode import json_rows
from penstock.sinks.kafka import CONTROL_TOPIC, Encoder, KeyedKafkaSink, TransactionalKafkaSink
from penstock.sinks.protocol import Batch, Sink
from penstock.sinks.topics import ensure_topics, message_bytes
from tests.integration.places.place import ROW, SINK, Place


class NeverCommits(Producer):
    """All is sent, rows and position, and the transaction stays open, as when its process is killed."""

    def commit_transaction(self, *_: object) -> None:
        self.flush(30)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


@dataclass
class KafkaPlace(Place):
    partitions: int = 3
    encode: Encoder = field(default_factory=lambda: json_rows("session_id"))

    def __post_init__(self) -> None:
        ensure_topics(self.address, {self.target: self.partitions})
        ensure_control_topic(self.address, slots=self.slot + 1)

    def _open(self, name: str, adopt: bool) -> Sink:
        if not self.exactly_once:
            return KeyedKafkaSink(
                name,
                self.address,
                self.target,
                self.encode,
                max_bytes=message_bytes(self.address, self.target),
                set_aside=self.set_aside,
            )
        return TransactionalKafkaSink(
            name,
            self.address,
            self.target,
            self.query,
            self.encode,
            max_bytes=message_bytes(self.address, self.target),
            set_aside=self.set_aside,
            adopt=adopt,
            slot=self.slot,
        )

    def rows(self, names: Sequence[str] = ROW.names) -> list[dict[str, Any]]:
        """All rows that were committed; where they come at least once, the newest of each key."""
        records = self.read()
        if not self.exactly_once:
            records = list({record.key(): record for record in records}.values())
        seen = [json.loads(record.value() or b"") for record in records]
        return [{name: row[name] for name in names} for row in seen]

    def read(self, isolation: str = "read_committed") -> list[Message]:
        """All records up to the end; with read_committed, the end is before the oldest open transaction."""
        reading = {
            "bootstrap.servers": self.address,
            "group.id": f"reader-{uuid.uuid4()}",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            # The end is told of only when a request comes back empty: with the default of 500 ms never, while
            # somebody writes.
            "fetch.wait.max.ms": 10,
            "enable.auto.commit": False,
        }
        with closing(Consumer(reading)) as consumer:
            consumer.assign([TopicPartition(self.target, n, 0) for n in range(self.partitions)])
            records, ended = [], 0
            while ended < self.partitions:
                record = consumer.poll(30)
                assert record is not None, f"{self.target} cannot be read to its end"
                error = record.error()
                if error is None:
                    records.append(record)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended += 1
                else:
                    raise KafkaException(error)
            return records

    def refuse_bad(self) -> None:
        small = ConfigEntry("max.message.bytes", "3000", incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ResourceType.TOPIC, self.target, incremental_configs=[small])
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.incremental_alter_configs([topic])[topic].result()

    def group(self, name: str = SINK) -> str:
        """The consumer group whose offset is the position."""
        return f"penstock-{self.query}-{name}"

    def position(self, name: str = SINK) -> int | None:
        asking = {
            "bootstrap.servers": self.address,
            "group.id": self.group(name),
            # Else the answer waits for the end of a transaction that a dead writer left open.
            "isolation.level": "read_uncommitted",
        }
        with closing(Consumer(asking)) as consumer:
            [held] = consumer.committed([TopicPartition(CONTROL_TOPIC, self.slot)], timeout=30)
        return None if held.offset < 0 else int(held.offset) - 1

    def lose_position(self, name: str = SINK) -> None:
        group = self.group(name)
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.delete_consumer_groups([group])[group].result()

    def die_before_position(self, batch: Batch) -> None:
        with patch("penstock.sinks.producer.Producer", NeverCommits):
            dying = self.writer()
            with pytest.raises(SinkError):
                dying.write(batch)
            dying.close()

    def settle(self, writer: Sink) -> None:
        """The next transaction's producer is prepared in the background, and fences when it is."""
        assert isinstance(writer, TransactionalKafkaSink)
        writer._prepared.result()
