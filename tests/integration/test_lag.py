"""Lag of a real pipeline on a real topic: what we say, what Kafka's own tool says, what a group holds."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from typer.testing import CliRunner

from penstock.cli import app
from penstock.cli.lagging import Lagging
from penstock.local.services import Addresses, Services
from penstock.observe.lag.group import GroupOffsets, progress_group
from penstock.observe.lag.retention import kept_ms
from penstock.paths import DataDir
from penstock.sinks.topics import QUIET, ensure_topics
from penstock.spec import to_toml
from penstock.toolchain import ensure_jars, ensure_java
from tests.integration.clicks import NewRig
from tests.integration.recorded import eventually, has_read_all, running

pytestmark = pytest.mark.integration


def described(kafka: str, group: str) -> dict[int, dict[str, int]]:
    """What kafka-consumer-groups says of a group, by partition."""
    java, jars = ensure_java(print), ensure_jars("kafka", print)
    command = [str(java.home / "bin" / "java"), "-cp", ":".join(map(str, jars))]
    command.append("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand")
    done = subprocess.run(
        [*command, "--bootstrap-server", kafka, "--describe", "--group", group],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    [head] = [line for line in lines if line[0] == "GROUP"]
    rows = [dict(zip(head, line, strict=False)) for line in lines if line[0] == group]
    wanted = ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
    return {int(row["PARTITION"]): {name: int(row[name]) for name in wanted} for row in rows}


def committed(kafka: str, group: str, topic: str) -> dict[int, int]:
    """What a group holds; nothing while its coordinator does not answer.

    An AdminClient that asks a coordinator which is not ready takes the process down (librdkafka issue 5040).
    """
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group, **QUIET})
    try:
        held = consumer.committed([TopicPartition(topic, partition) for partition in range(2)], timeout=10)
    except KafkaException:
        return {}
    finally:
        consumer.close()
    return {place.partition: place.offset for place in held}


def test_kafkas_own_tool_says_the_same_of_a_pipeline_as_penstock_lag(new_rig: NewRig, tmp_path: Path) -> None:
    rig = new_rig()
    rig.send(seconds=2.0)
    spec = rig.spec.model_copy(
        update={"services": rig.spec.services.model_copy(update={"kafka": rig.addresses.kafka})}
    )
    with running(rig) as recorder:
        eventually(has_read_all(recorder), "all is read")
        live = Lagging(spec, rig.data, None).look()
    assert live.ends_at_ms > live.heard_at_ms
    assert {one.health.verdict for one in live.partitions} == {"ok"}
    rig.send(seconds=1.0)

    file, out = tmp_path / "pipeline.toml", tmp_path / "lag.json"
    file.write_text(to_toml(spec))
    result = CliRunner().invoke(app, ["lag", str(file), "--data", str(rig.data.root), "--json", str(out)])
    assert result.exit_code == 0, result.output
    told = json.loads(out.read_text())
    ours = {
        one["partition"]: {
            "CURRENT-OFFSET": one["position"],
            "LOG-END-OFFSET": one["end"],
            "LAG": one["lag"],
        }
        for one in told["partitions"]
    }
    assert told["ends_at_ms"] > told["heard_at_ms"]
    assert told["lag"] > 0
    assert described(rig.addresses.kafka, progress_group(rig.spec.name)) == ours


def test_a_group_holds_the_newest_positions_and_is_not_in_the_way_while_the_broker_is_down(
    tmp_path: Path,
) -> None:
    kafka = Services(DataDir.at(tmp_path), tie_to_parent=True, only=("kafka",))
    try:
        address = kafka.start().kafka
        ensure_topics(address, {"clicks": 2})
        group = GroupOffsets(address, "clicks")

        def holds(query: str, *offsets: int) -> Callable[[], bool]:
            def held() -> bool:
                group.publish()
                return committed(address, progress_group(query), "clicks") == dict(enumerate(offsets))

            return held

        group.reached("shop", {0: 10, 1: 20})
        group.reached("shop-events", {0: 5, 1: 5})
        eventually(holds("shop", 10, 20), "positions are held")
        eventually(holds("shop-events", 5, 5), "those of the other query too")
        kafka.stop()
        for offset in range(30, 40):
            group.reached("shop", {0: offset, 1: offset})
            group.publish()
            time.sleep(0.3)
        assert kafka.start().kafka == address
        eventually(holds("shop", 39, 39), "the next one carries what was missed")
        group.reached("shop", {0: 50, 1: 60})
        group.close()
        assert committed(address, progress_group("shop"), "clicks") == {0: 50, 1: 60}
    finally:
        kafka.stop()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"retention.ms": "3600000"}, 3_600_000),
        ({"retention.ms": "-1"}, None),
        ({"retention.ms": "3600000", "cleanup.policy": "compact"}, None),
    ],
)
def test_how_long_a_topic_keeps_what_nobody_has_read(
    services: Addresses, settings: dict[str, str], expected: int | None
) -> None:
    topic = f"kept-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": services.kafka})
    admin.create_topics([NewTopic(topic, 1, config=settings)])[topic].result(30)
    eventually(lambda: topic in admin.list_topics(timeout=10).topics, "the topic is known")
    assert kept_ms(services.kafka, topic) == expected
