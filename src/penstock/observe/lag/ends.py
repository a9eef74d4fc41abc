"""How far a topic reaches: Spark commits no group offsets, so lag is the topic's ends less the receipts'."""

from __future__ import annotations

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from penstock.sinks.topics import QUIET

_ANSWER_TIMEOUT_S = 3.0


class TopicEnds:
    """Asks a broker for the end offsets of one topic."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap = bootstrap
        self._admin: AdminClient | None = None
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        self._latest = {TopicPartition(topic, partition): latest for partition in range(partitions)}

    def read(self) -> dict[int, int] | None:
        """End offsets by partition; None while a broker does not answer."""
        # A client that asked while its broker died may never be answered: the next question gets a new one.
        # Or it asks who leads no more, again and again, with a core of its own, and answers at last with an
        # offset below 0.
        admin, self._admin = (
            self._admin or AdminClient({"bootstrap.servers": self._bootstrap, **QUIET}),
            None,
        )
        try:
            asked = admin.list_offsets(self._latest, request_timeout=_ANSWER_TIMEOUT_S)
            ends = {place.partition: end.result(2 * _ANSWER_TIMEOUT_S).offset for place, end in asked.items()}
        except (KafkaException, TimeoutError):
            return None
        if min(ends.values()) < 0:
            return None
        self._admin = admin
        return ends
