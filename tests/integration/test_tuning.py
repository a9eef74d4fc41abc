"""The settings on real Kafka and Spark: those in force are ours, and the defaults are as they say."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]
from pyspark.sql import SparkSession

from penstock.local.services import Addresses
from penstock.tuning import Setting, settings

pytestmark = pytest.mark.integration

CLIENTS = {"source": "consumer", "realtime-source": "consumer", "realtime-sink": "producer"}


def of(*areas: str) -> list[Setting]:
    return [setting for setting in settings() if setting.area.name in areas]


def text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize(
    "setting", [one for one in of(*CLIENTS) if one.key.startswith("kafka.")], ids=lambda setting: setting.id
)
def test_the_defaults_of_sparks_kafka_clients_are_as_they_say(setting: Setting, spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    kind = CLIENTS[setting.area.name]
    config = getattr(getattr(jvm.org.apache.kafka.clients, kind), f"{kind.capitalize()}Config")
    told = config.configDef().defaultValues().get(setting.key.removeprefix("kafka."))
    assert text(told) == text(setting.default)


@pytest.mark.parametrize("setting", of("spark", "state"), ids=lambda setting: setting.id)
def test_sparks_defaults_are_as_it_says(setting: Setting, spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    entry = jvm.org.apache.spark.internal.config.ConfigEntry.findEntry(setting.key)
    if entry is None or " " in str(setting.default):
        pytest.skip("no entry of Spark's, or one that depends on the machine")
    assert entry.defaultValueString() == setting.default


@pytest.mark.parametrize(
    "setting", [one for one in of("spark", "state") if one.ours is not None], ids=lambda setting: setting.id
)
def test_spark_has_what_it_was_given(setting: Setting, spark: SparkSession) -> None:
    assert spark.conf.get(setting.key) == setting.ours


def test_the_embedded_broker_has_what_it_was_given(services: Addresses) -> None:
    admin = AdminClient({"bootstrap.servers": services.kafka})
    [broker] = admin.list_topics(timeout=30).brokers
    [asked] = admin.describe_configs([ConfigResource(ResourceType.BROKER, str(broker))]).values()
    told = {name: entry.value for name, entry in asked.result(30).items()}
    ours = {one.key: text(one.ours) for one in of("broker") if one.ours is not None}
    assert {name: told[name] for name in ours} == ours
