"""How Kafka itself is: who answers, what lacks replicas, and how busy brokers are."""

from __future__ import annotations

import socket
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from penstock.local.services import size_on_disk
from penstock.observe.samples import BrokerHealth, KafkaHealth
from penstock.sinks.topics import QUIET

_ANSWER_TIMEOUT_S = 2.0
_SCRAPE_TIMEOUT_S = 1.0
_DISK_EVERY_S = 30.0

Scraped = dict[str, float]


class BrokerMeter:
    """Asks a cluster, and those of its brokers that have an exporter.

    A broker is alive when it accepts connections: the cluster itself misses one only after its session.
    """

    def __init__(
        self,
        bootstrap: str,
        here: Mapping[int, tuple[str, Path]] | None = None,
    ) -> None:
        """`here`: where brokers on this machine tell Prometheus how they are, and where their data is."""
        self._bootstrap = bootstrap
        self._here = here or {}
        self._places: dict[int, tuple[str, int]] = {}
        self._last: dict[int, tuple[float, Scraped]] = {}
        self._disks: dict[int, int] = {}
        self._disks_at_s = -_DISK_EVERY_S
        self._known: Any = None
        """The cluster's last answer."""

    def read(self, now_ms: int) -> KafkaHealth | None:
        """None before the cluster has answered for the first time."""
        # A new client each time: one whose broker died may wait for it for long.
        admin = AdminClient({"bootstrap.servers": self._bootstrap, **QUIET})
        answered = True
        try:
            self._known = admin.list_topics(timeout=_ANSWER_TIMEOUT_S)
        except KafkaException:
            answered = False
        if self._known is None:
            return None
        for broker in self._known.brokers.values():
            self._places[broker.id] = (broker.host, broker.port)
        partitions = [
            partition for topic in self._known.topics.values() for partition in topic.partitions.values()
        ]
        lacking = sum(len(partition.isrs) < len(partition.replicas) for partition in partitions)
        headless = sum(partition.leader < 0 for partition in partitions)
        return KafkaHealth(
            now_ms,
            tuple(self._health(broker) for broker in sorted(self._places)),
            under_replicated=lacking if answered else len(partitions),
            offline=headless if answered else len(partitions),
            controller=self._known.controller_id if answered else -1,
        )

    def _health(self, broker: int) -> BrokerHealth:
        if not _accepts(self._places[broker]):
            self._last.pop(broker, None)
            return BrokerHealth(broker, alive=False)
        told = self._scrape(broker)
        now_s = time.monotonic()
        then_s, before = self._last.get(broker, (now_s, told))
        if told:
            self._last[broker] = (now_s, told)

        def rate(name: str) -> float | None:
            if name not in told or name not in before or now_s <= then_s:
                return None
            return max(0.0, told[name] - before[name]) / (now_s - then_s)

        def milliseconds(name: str) -> float | None:
            return told[name] * 1000 if name in told else None

        return BrokerHealth(
            broker,
            alive=True,
            disk_bytes=self._disk_bytes(broker),
            bytes_in_per_s=rate("kafka_bytes_in_total"),
            bytes_out_per_s=rate("kafka_bytes_out_total"),
            produce_p99_ms=milliseconds("kafka_request_p99_seconds Produce"),
            fetch_p99_ms=milliseconds("kafka_request_p99_seconds FetchConsumer"),
            isr_shrinks=int(told["kafka_isr_shrinks_total"]) if "kafka_isr_shrinks_total" in told else None,
        )

    def _scrape(self, broker: int) -> Scraped:
        """What an exporter tells, by name and label; nothing where there is none."""
        if broker not in self._here:
            return {}
        try:
            with urllib.request.urlopen(self._here[broker][0], timeout=_SCRAPE_TIMEOUT_S) as answer:  # noqa: S310
                text = answer.read().decode()
        except OSError:
            return {}
        return {
            " ".join([sample.name, *sample.labels.values()]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith("kafka_")
        }

    def _disk_bytes(self, broker: int) -> int | None:
        if broker not in self._here:
            return None
        if time.monotonic() - self._disks_at_s > _DISK_EVERY_S:
            self._disks = {each: size_on_disk(directory) for each, (_, directory) in self._here.items()}
            self._disks_at_s = time.monotonic()
        return self._disks[broker]


def _accepts(place: tuple[str, int]) -> bool:
    try:
        socket.create_connection(place, timeout=_SCRAPE_TIMEOUT_S).close()
    except OSError:
        return False
    return True
