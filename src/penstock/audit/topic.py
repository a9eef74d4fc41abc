"""All records of a topic, as a committed reader sees them."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.errors import ServiceError
from penstock.sinks.topics import QUIET

_IDLE_TIMEOUT_S = 20.0


def committed_reader(bootstrap: str) -> Consumer:
    """A consumer of what is committed, which leaves no trace."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "penstock-audit",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            # A transaction's marker takes an offset without being a record: only this tells the end.
            "enable.partition.eof": True,
            **QUIET,
        }
    )


def read_topic(bootstrap: str, topic: str) -> Iterator[Message]:
    """Every committed record from the beginning to the end of the topic as it is now."""
    consumer = committed_reader(bootstrap)
    try:
        found = consumer.list_topics(topic, timeout=_IDLE_TIMEOUT_S).topics[topic]
        if found.error is not None:
            raise ServiceError(f"topic {topic}: {found.error.str()}")
        consumer.assign(
            [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in found.partitions]
        )
        left = set(found.partitions)
        while left:
            messages = consumer.consume(5000, timeout=1.0) or consumer.consume(1, timeout=_IDLE_TIMEOUT_S)
            if not messages:
                raise ServiceError(
                    f"topic {topic} cannot be read to its end: partitions {sorted(left)} are silent"
                )
            for message in messages:
                trouble = message.error()
                if trouble is None:
                    yield message
                elif trouble.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                else:
                    raise ServiceError(f"topic {topic}: {trouble.str()}")
    except KafkaException as error:
        raise ServiceError(f"topic {topic} cannot be read: {error.args[0].str()}") from error
    finally:
        consumer.close()
