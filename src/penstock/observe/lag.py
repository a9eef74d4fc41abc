"""How far a topic reaches: Spark commits no group offsets, so lag is the topic's ends less the receipts'."""

from __future__ import annotations

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

_ANSWER_TIMEOUT_S = 3.0


class TopicEnds:
    """Asks a broker for the end offsets of one topic."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        self._latest = {TopicPartition(topic, partition): latest for partition in range(partitions)}

    def read(self) -> dict[int, int] | None:
        """End offsets by partition; None while the broker does not answer."""
        try:
            answers = self._admin.list_offsets(self._latest, request_timeout=_ANSWER_TIMEOUT_S)
            return {asked.partition: answer.result().offset for asked, answer in answers.items()}
        except KafkaException:
            return None
