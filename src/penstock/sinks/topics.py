"""Topics as a pipeline finds or makes them."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.errors import SinkError
from penstock.tuning import value

QUIET: dict[str, str | int | bool] = {"log_level": 0}
"""The client's own complaints go to the terminal; what matters of them comes as an exception."""

MESSAGE_BYTES = 1_048_588
"""The largest batch of records that a topic takes, unless it says otherwise."""

_CALL_TIMEOUT_S = 30.0

_KAFKAS_OWN = ("__transaction_state", "__consumer_offsets")
"""Where the ends of transactions and the positions of groups go."""


def kafka_answers(bootstrap: str, topics: Collection[str] = ()) -> bool:
    """Whether Kafka answers, and takes writes to these topics and to its own: enough replicas are in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    try:
        known = admin.list_topics(timeout=2.0).topics
        used = [name for name in (*topics, *_KAFKAS_OWN) if name in known] if topics else []
        least = _least_in_sync(admin, used)
    except (KafkaException, TimeoutError):
        return False
    return all(
        partition.leader >= 0 and len(partition.isrs) >= least.get(name, 1)
        for name in used
        for partition in known[name].partitions.values()
    )


def _least_in_sync(admin: AdminClient, topics: Sequence[str]) -> dict[str, int]:
    """How many replicas must take a write, by topic, as far as it may be known."""
    if not topics:
        return {}
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in topics])
    least = {}
    for topic, answer in asked.items():
        try:
            least[topic.name] = int(answer.result(2.0)["min.insync.replicas"].value)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
    return least


def ensure_source_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create the topic a pipeline reads, stamped by the broker's clock: the one that bounds the future."""
    _ensure(bootstrap, [NewTopic(topic, partitions, config=_config("message.timestamp.type"))])


def ensure_compacted_topic(bootstrap: str, topic: str) -> None:
    """Create a topic of one partition that keeps the last record of each key for good."""
    _ensure(bootstrap, [NewTopic(topic, 1, config=_config("cleanup.policy"))])


def ensure_topics(bootstrap: str, topics: dict[str, int]) -> None:
    """Create the topics (name -> partitions) that are not there, with the cluster's own replication."""
    _ensure(bootstrap, [NewTopic(name, partitions) for name, partitions in topics.items()])


def _config(name: str) -> dict[str, str]:
    return {name: str(value(f"topic.{name}"))}


def _ensure(bootstrap: str, wanted: list[NewTopic]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    try:
        there = admin.list_topics(timeout=_CALL_TIMEOUT_S).topics
    except KafkaException as error:
        raise SinkError(
            f"Kafka at {bootstrap} does not answer: {error.args[0].str()}",
            hint="Start the embedded one with: penstock up; or name another in [services] kafka.",
        ) from error
    missing = [topic for topic in wanted if topic.topic not in there]
    if not missing:
        return
    for name, outcome in admin.create_topics(missing, operation_timeout=_CALL_TIMEOUT_S).items():
        try:
            outcome.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise SinkError(f"cannot create topic {name}: {error.args[0].str()}") from error
    # The controller has created them; that brokers know of it takes a moment.
    deadline = time.monotonic() + _CALL_TIMEOUT_S
    while not {topic.topic for topic in missing} <= set(admin.list_topics(timeout=_CALL_TIMEOUT_S).topics):
        if time.monotonic() > deadline:
            raise SinkError(f"Kafka at {bootstrap} does not show the topics that it has created")
        time.sleep(0.02)


def message_bytes(bootstrap: str, topic: str) -> int:
    """The largest batch of records that a topic takes."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    try:
        [asked] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        return int(asked.result(_CALL_TIMEOUT_S)["max.message.bytes"].value)
    # Who may write to a topic need not be allowed to read its settings.
    except (KafkaException, TimeoutError, KeyError):
        return MESSAGE_BYTES
