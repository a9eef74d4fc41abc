"""The topic on whose partitions the positions of Kafka sinks are offsets."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from penstock.errors import SinkError
from penstock.sinks.kafka import CONTROL_TOPIC
from penstock.sinks.topics import QUIET, ensure_topics

_TIMEOUT_S = 30.0


def ensure_control_topic(bootstrap: str, *, slots: int) -> None:
    """Have it there, with a partition for each slot at least. It never has fewer again."""
    ensure_topics(bootstrap, {CONTROL_TOPIC: slots})
    try:
        if slots > 1:
            _grow(AdminClient({"bootstrap.servers": bootstrap, **QUIET}), slots)
    except KafkaException as error:
        raise SinkError(
            f"topic {CONTROL_TOPIC} cannot be given {slots} partitions, one for each slot:"
            f" {error.args[0].str()}",
            hint=f"Do it by other means: kafka-topics.sh --bootstrap-server {bootstrap} --alter"
            f" --topic {CONTROL_TOPIC} --partitions {slots}",
        ) from error


def _grow(admin: AdminClient, slots: int) -> None:
    if _partitions(admin) >= slots:
        return
    wanted = [NewPartitions(CONTROL_TOPIC, slots)]
    [grown] = admin.create_partitions(wanted, operation_timeout=_TIMEOUT_S).values()
    try:
        grown.result()
    except KafkaException:
        if _partitions(admin) < slots:  # else another pipeline was faster
            raise


def _partitions(admin: AdminClient) -> int:
    return len(admin.list_topics(CONTROL_TOPIC, timeout=_TIMEOUT_S).topics[CONTROL_TOPIC].partitions)
