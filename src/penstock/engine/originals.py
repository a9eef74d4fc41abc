"""The bytes of records that have to be set aside after their bytes were let go.

Late events are found after the shuffle. Carrying every record's bytes that far for the sake of the few late
ones would double what is shuffled; reading those few again costs at most one more pass over the batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import Consumer, TopicPartition

from penstock.errors import SinkError
from penstock.sinks.topics import QUIET

_IDLE_TIMEOUT_S = 15.0
Origin = tuple[int, int]


class Originals:
    """Reads records of one topic by partition and offset."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "penstock-originals",
            "enable.auto.commit": False,
            **QUIET,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }

    def fetch(self, origins: Iterable[Origin]) -> dict[Origin, bytes | None]:
        wanted: dict[int, set[int]] = {}
        for partition, offset in origins:
            wanted.setdefault(partition, set()).add(offset)
        found: dict[Origin, bytes | None] = {}
        if not wanted:
            return found
        consumer = Consumer(self._settings)
        try:
            consumer.assign([TopicPartition(self._topic, p, min(offsets)) for p, offsets in wanted.items()])
            silent_since = time.monotonic()
            while wanted:
                # consume() waits to fill its list, so it must not be given long.
                messages = consumer.consume(500, timeout=0.02)
                if messages:
                    silent_since = time.monotonic()
                elif time.monotonic() - silent_since > _IDLE_TIMEOUT_S:
                    raise SinkError(f"late records of {self._topic} cannot be read again: {sorted(wanted)}")
                for message in messages:
                    error = message.error()
                    if error is not None:
                        raise SinkError(f"late records of {self._topic}: {error.str()}")
                    partition, offset = message.partition() or 0, message.offset() or 0
                    rest = wanted.get(partition)
                    if rest is None or offset not in rest:
                        continue
                    found[partition, offset] = message.value()
                    rest.discard(offset)
                    if not rest:
                        del wanted[partition]
                        consumer.incremental_unassign([TopicPartition(self._topic, partition)])
            return found
        finally:
            consumer.close()
