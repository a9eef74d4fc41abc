"""The topic on whose partitions the positions of Kafka sinks are offsets."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from penstock.errors import SinkError
from penstock.sinks.kafka import CONTROL_TOPIC, QUIET, ensure_topics

_TIMEOUT_S = 30.0


def ensure_control_topic(bootstrap: str, *, slots: int) -> None:
    """Have it there, with a partition for each slot at least. It never has fewer again."""
    ensure_topics(bootstrap, {CONTROL_TOPIC: slots})
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    try:
        have = _partitions(admin)
        if have < slots:
            [grown] = admin.create_partitions(
                [NewPartitions(CONTROL_TOPIC, slots)], operation_timeout=_TIMEOUT_S
            ).values()
            grown.result()
    except KafkaException as error:
        if _partitions(admin) < slots:  # else another pipeline was faster
            raise SinkError(
                f"topic {CONTROL_TOPIC} has {have} partitions, but {slots} slots need one each:"
                f" {error.args[0].str()}",
                hint=f"Grow it: kafka-topics.sh --bootstrap-server {bootstrap} --alter"
                f" --topic {CONTROL_TOPIC} --partitions {slots}",
            ) from error


def _partitions(admin: AdminClient) -> int:
    return len(admin.list_topics(CONTROL_TOPIC, timeout=_TIMEOUT_S).topics[CONTROL_TOPIC].partitions)
