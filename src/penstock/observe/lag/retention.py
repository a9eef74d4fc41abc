"""How long a topic keeps what nobody has read."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from penstock.sinks.topics import QUIET

_ANSWER_TIMEOUT_S = 3.0


def kept_ms(bootstrap: str, topic: str) -> int | None:
    """None where age deletes nothing, or nobody tells: who may read a topic need not see its settings."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    asked = admin.describe_configs(
        [ConfigResource(ResourceType.TOPIC, topic)], request_timeout=_ANSWER_TIMEOUT_S
    )
    try:
        [settings] = (answer.result(2 * _ANSWER_TIMEOUT_S) for answer in asked.values())
        kept = int(settings["retention.ms"].value)
        deletes = "delete" in settings["cleanup.policy"].value
    except (KafkaException, TimeoutError, KeyError):
        return None
    return kept if deletes and kept >= 0 else None
