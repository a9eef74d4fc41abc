"""The embedded Kafka, one broker and three, with real clients."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.errors import ServiceError
from penstock.local.kafka import exporters
from penstock.local.services import Addresses, Services
from penstock.observe.brokers import BrokerMeter
from penstock.paths import DataDir
from tests.integration.recorded import eventually

pytestmark = pytest.mark.integration


def make_topic(bootstrap: str, partitions: int = 2, replicas: int = -1) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(30)
    return name


def produce(bootstrap: str, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 60_000})
    errors: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * len(values)


def consume(bootstrap: str, topic: str, count: int, isolation: str = "read_committed") -> list[str]:
    """The values read until `count` have come, then for half a second more, in which none should."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
        }
    )
    consumer.subscribe([topic])
    values: list[str] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None, message.error()
            values.append((message.value() or b"").decode())
        if len(values) >= count:
            deadline = min(deadline, time.monotonic() + 0.5)
    consumer.close()
    return sorted(values)


def test_what_is_produced_is_consumed(services: Addresses) -> None:
    topic = make_topic(services.kafka)
    sent = [f"{n:05}" for n in range(10_000)]
    produce(services.kafka, topic, sent)
    assert consume(services.kafka, topic, len(sent)) == sent


def test_a_committed_transaction_is_read_and_an_aborted_one_is_not(services: Addresses) -> None:
    topic = make_topic(services.kafka)
    producer = Producer({"bootstrap.servers": services.kafka, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    for value, keep in (("kept", True), ("dropped", False), ("kept too", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        if keep:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    assert consume(services.kafka, topic, 2) == ["kept", "kept too"]
    assert len(consume(services.kafka, topic, 3, isolation="read_uncommitted")) == 3


def test_a_topic_nobody_made_is_not_made_by_writing_to_it(services: Addresses) -> None:
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": services.kafka, "message.timeout.ms": 3_000})
    producer.produce("nobody-made-this", "x", on_delivery=lambda error, _: failed.append(str(error)))
    producer.flush(30)
    assert len(failed) == 1
    assert "nobody-made-this" not in AdminClient({"bootstrap.servers": services.kafka}).list_topics().topics


def alive(meter: BrokerMeter) -> list[int]:
    """Who answers; and what has lost a replica lacks one while a broker is away."""
    seen = meter.read(0)
    assert seen is not None
    found = [broker.id for broker in seen.brokers if broker.alive]
    deadline = time.monotonic() + 60
    while (seen.under_replicated > 0) != (len(found) < 3):
        assert time.monotonic() < deadline
        time.sleep(0.5)
        seen = meter.read(0)
        assert seen is not None
    return found


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    data = DataDir.at(tmp_path_factory.mktemp("three"))
    running = Services(data, brokers=3, tie_to_parent=True, only=["kafka"])
    try:
        running.start()
        yield running
    finally:
        running.stop()


def test_three_brokers_replicate_three_times_and_want_two(three: Services) -> None:
    bootstrap = three.addresses().kafka
    topic = make_topic(bootstrap)
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def partitions() -> list[int]:
        # Of any broker, which may hear of the topic later than the one that made it.
        return [len(one.replicas) for one in admin.list_topics(topic).topics[topic].partitions.values()]

    eventually(lambda: bool(partitions()), "a topic with partitions")
    assert partitions() == [3, 3]
    resource = ConfigResource(ResourceType.TOPIC, topic)
    assert admin.describe_configs([resource])[resource].result()["min.insync.replicas"].value == "2"


def test_with_one_of_three_brokers_killed_writing_goes_on_and_the_broker_comes_back(three: Services) -> None:
    bootstrap = three.addresses().kafka
    topic = make_topic(bootstrap, partitions=6)
    produce(bootstrap, topic, ["before"])
    meter = BrokerMeter(bootstrap, exporters(three.data))
    assert alive(meter) == [1, 2, 3]
    victim = three._known["kafka"].children[1]
    process = victim.process()
    assert process is not None
    process.kill()
    victim.wait_until_gone(10)
    assert [s.state for s in three.status()] == ["running", "crashed", "running"]
    assert alive(meter) == [1, 3]
    produce(bootstrap, topic, [f"without {n}" for n in range(100)])
    assert three.revive() == ["kafka-2"]
    assert [s.state for s in three.status()] == ["running", "running", "running"]
    assert alive(meter) == [1, 2, 3]
    assert len(consume(bootstrap, topic, 101)) == 101
    assert three.revive() == []


def test_brokers_tell_how_busy_they_are(three: Services) -> None:
    bootstrap = three.addresses().kafka
    topic = make_topic(bootstrap, partitions=6)
    meter = BrokerMeter(bootstrap, exporters(three.data))
    meter.read(0)
    produce(bootstrap, topic, ["x" * 1_000] * 1_000)
    consume(bootstrap, topic, 1_000)
    seen = meter.read(1)
    assert seen is not None
    assert sum(broker.bytes_in_per_s or 0 for broker in seen.brokers) > 0
    assert sum(broker.bytes_out_per_s or 0 for broker in seen.brokers) > 0
    assert max(broker.produce_p99_ms or 0 for broker in seen.brokers) > 0
    assert all(broker.disk_bytes and broker.isr_shrinks is not None for broker in seen.brokers)
    assert seen.controller in (1, 2, 3)
    # Brokers of others are asked as clients can: who is there, and what lacks replicas.
    elsewhere = BrokerMeter(bootstrap).read(2)
    assert elsewhere is not None
    assert [broker.id for broker in elsewhere.brokers if broker.alive] == [1, 2, 3]
    assert elsewhere.brokers[0].bytes_in_per_s is None


def test_another_number_of_brokers_than_the_data_has_is_refused(three: Services) -> None:
    with pytest.raises(ServiceError, match=r"belongs to 3 broker\(s\), not to 1"):
        Services(three.data, brokers=1, only=["kafka"]).start()
