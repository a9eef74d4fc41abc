"""Small payments with topics and tables of their own, written in slots."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.audit.auditor import Auditor, Reconciled
from penstock.audit.topic import read_topic
from penstock.sinks.clickhouse import POSITIONS_TABLE, connect
from penstock.sinks.kafka import CONTROL_TOPIC, positions_group
from penstock.spec import PipelineSpec
from tests.integration.clicks import Rig

STORES = ("kafka", "clickhouse", "postgres")
PARTITIONS = 2


@dataclass
class Payments(Rig):
    """A pipeline without state: a sink of events in each of its stores, and one for what it refuses."""

    def pay(self, first: int, count: int, *, amount: int = 5) -> None:
        self.send_raw(
            {"id": f"p{number}", "payer": f"u{number % 7}", "amount": amount, "ts": _now_ms()}
            for number in range(first, first + count)
        )

    def send_raw(self, records: Iterator[dict[str, Any]] | list[bytes]) -> None:
        producer = Producer({"bootstrap.servers": self.addresses.kafka})
        for number, record in enumerate(records):
            value = record if isinstance(record, bytes) else json.dumps(record).encode()
            producer.produce(self.spec.source.topic, value, partition=number % PARTITIONS)
        producer.flush()

    def look(self) -> Reconciled:
        with Auditor(self.spec, self.data, self.endpoints) as auditor:
            return auditor.look()

    @property
    def table(self) -> str:
        return self.spec.name

    def held(self, store: str) -> Counter[tuple[str, int]]:
        """How often the store has each payment, with the slot that wrote it."""
        if store == "kafka":
            rows = (json.loads(message.value() or b"") for message in self._records())
            return Counter((row["id"], row["slot"]) for row in rows)
        query = f"SELECT id, slot FROM {self.table}"  # noqa: S608
        if store == "postgres":
            return Counter(self.sql(query))
        return Counter(tuple(row) for row in connect(self.addresses.clickhouse).query(query).result_rows)

    def _records(self) -> Iterator[Any]:
        return iter(read_topic(self.addresses.kafka, self.table))

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.addresses.postgres, autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []

    def positions(self, store: str) -> tuple[int, ...]:
        """The batch that each slot holds, by slot; -1 for one that has no position."""
        name, slots = f"{store}-events", self.spec.sink[0].writers
        if store == "kafka":
            group = positions_group(self.spec.name, name)
            consumer = Consumer({"bootstrap.servers": self.addresses.kafka, "group.id": group})
            found = consumer.committed([TopicPartition(CONTROL_TOPIC, slot) for slot in range(slots)], 30)
            consumer.close()
            return tuple(max(place.offset, 0) - 1 for place in found)
        query = (
            f"SELECT slot, max(batch) FROM {POSITIONS_TABLE}"  # noqa: S608
            f" WHERE query = '{self.spec.name}' AND sink = '{name}' GROUP BY slot"
        )
        rows = (
            self.sql(query)
            if store == "postgres"
            else connect(self.addresses.clickhouse).query(query).result_rows
        )
        by_slot: dict[int, int] = dict(rows)  # type: ignore[arg-type]
        return tuple(by_slot.get(slot, -1) for slot in range(slots))

    def all_positions(self) -> dict[str, tuple[int, ...]]:
        return {sink.kind: self.positions(sink.kind) for sink in self.spec.sink if "events" in sink.rows}

    @contextmanager
    def refused_to_slot_1(self) -> Iterator[None]:
        """ClickHouse and PostgreSQL refuse the rows of one slot meanwhile."""
        house = connect(self.addresses.clickhouse)
        house.command(f"ALTER TABLE {self.table} ADD CONSTRAINT one CHECK slot != 1")
        self.sql(f"ALTER TABLE {self.table} ADD CONSTRAINT one CHECK (slot <> 1) NOT VALID")
        yield
        house.command(f"ALTER TABLE {self.table} DROP CONSTRAINT one")
        self.sql(f"ALTER TABLE {self.table} DROP CONSTRAINT one")


def payments(*stores: str, guarantee: str = "exactly_once", writers: int = 3) -> PipelineSpec:
    """Small payments into the stores, each with as many writers."""
    name = f"y{uuid.uuid4().hex[:8]}"
    events = {"rows": "events", "key": "id", "guarantee": guarantee, "writers": writers}
    targets = {"kafka": "topic", "clickhouse": "table", "postgres": "table"}
    return PipelineSpec(
        name=name,
        source={
            "topic": f"{name}-payments",
            "partitions": PARTITIONS,
            "schema": "id string, payer string, amount int, ts long",
            "key": "id",
            "event_time": "ts",
        },
        cleanse={"require": ["id"]},
        sink=[
            *({"kind": s, targets[s]: name, "name": f"{s}-events", **events} for s in stores),
            {"kind": "kafka", "topic": f"{name}-refused", "rows": "rejected"},
        ],
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
