"""Readers of a pipeline's sinks that run all along, through every fault."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable
from hashlib import blake2b

import psycopg
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
from psycopg import sql

from penstock.audit.topic import read_topic
from penstock.engine.outputs import Endpoints
from penstock.engine.rows import span_id
from penstock.faults.seen import Row, differences
from penstock.sinks.clickhouse import connect
from penstock.sinks.postgres import POSITIONS_TABLE
from penstock.sinks.topics import QUIET
from penstock.spec import ClickHouseSink, KafkaSink, PipelineSpec, PostgresSink
from penstock.spec.sinks import ASIDE

_POLL_S = 1.0


class Reader(ABC):
    """A thread that looks at one sink until it is told to stop, and then says what was wrong."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    @abstractmethod
    def _run(self) -> None: ...

    @abstractmethod
    def judge(self) -> list[str]:
        """Problems, once the reader has stopped and the pipeline too."""


class TopicReader(Reader):
    """A consumer with read_committed: what it saw stands where it saw it, and each row is there once."""

    def __init__(self, spec: PipelineSpec, sink: KafkaSink, bootstrap: str) -> None:
        super().__init__(f"topic {sink.topic}")
        self._spec, self._sink, self._bootstrap = spec, sink, bootstrap
        self._seen: dict[Hashable, Row] = {}

    def _run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "penstock-faults",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 5_000,
                **QUIET,
            }
        )
        places = range(self._spec.source.partitions)
        consumer.assign([TopicPartition(self._sink.topic, place, OFFSET_BEGINNING) for place in places])
        while not self._over.is_set():
            for message in consumer.consume(1_000, timeout=_POLL_S):
                if message.error() is None:
                    self._seen[_place(message)] = self._row(message)
        consumer.close()

    def _row(self, message: Message) -> Row:
        value = message.value() or b""
        content = blake2b(value, digest_size=8).hexdigest()
        if ASIDE & set(self._sink.rows):
            return Row((message.key(),), content)
        row = json.loads(value)
        return Row((row[span_id(self._spec)], row["version"]), content)

    def judge(self) -> list[str]:
        final: dict[Hashable, Row] = {
            _place(message): self._row(message) for message in read_topic(self._bootstrap, self._sink.topic)
        }
        return differences(self.name, self._seen, final)


class TableReader(Reader):
    """Asks a ClickHouse table for its newest batches: what it saw is there in the end, and each row once."""

    def __init__(self, spec: PipelineSpec, sink: ClickHouseSink, address: str) -> None:
        super().__init__(f"table {sink.table}")
        self._address = address
        self._query = (
            f"SELECT `{span_id(spec)}`, version, cityHash64(toString(tuple(*))), batch "  # noqa: S608
            f"FROM {sink.table} WHERE batch >= "
        )
        self._newest = 0
        self._seen: dict[Hashable, Row] = {}
        self._came_twice: list[str] = []

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                client = connect(self._address)
                while not self._over.wait(_POLL_S):
                    self._look(client)
                client.close()
            except (ClickHouseError, OSError):
                self._over.wait(_POLL_S)  # it was killed, or has no table yet: that is what it is watched for

    def _look(self, client: Client) -> None:
        found = self._rows(client, self._newest - 1)
        self._came_twice += differences(self.name, found, found) if found else []
        self._seen |= found

    def _rows(self, client: Client, from_batch: int) -> dict[Hashable, Row]:
        rows = client.query(f"{self._query}{from_batch}").result_rows
        self._newest = max([self._newest, *(batch for *_, batch in rows)])
        # The place of a row is its number among those of the same name: the second one is a repetition.
        found: dict[Hashable, Row] = {}
        for name, version, content, _ in rows:
            copy = 0
            while (name, version, copy) in found:
                copy += 1
            found[name, version, copy] = Row((name, version), content)
        return found

    def judge(self) -> list[str]:
        client = connect(self._address)
        final = self._rows(client, 0)
        client.close()
        return [*self._came_twice[:1], *differences(self.name, self._seen, final)]


class PositionReader(Reader):
    """Asks PostgreSQL how many rows a table has and which batch it holds: neither ever goes back."""

    def __init__(self, sink: PostgresSink, address: str) -> None:
        super().__init__(f"table {sink.table}")
        self._sink, self._address = sink, address
        self._reached: tuple[int, int] | None = None
        self._went_back: list[str] = []

    def _run(self) -> None:
        while not self._over.wait(_POLL_S):
            try:
                self._look()
            except psycopg.Error:
                continue  # it was killed, or has no table yet

    def _look(self) -> None:
        count = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(*self._sink.table.split(".")))
        position = sql.SQL("SELECT batch FROM {} WHERE sink = %s").format(sql.Identifier(POSITIONS_TABLE))
        with psycopg.connect(self._address, connect_timeout=5) as connection:
            held = connection.execute(position, [self._sink.name]).fetchone()
            rows = connection.execute(count).fetchone()
        if held is None or rows is None:
            return
        now = (int(held[0]), int(rows[0]))
        if (
            self._reached is not None
            and min(new - old for new, old in zip(now, self._reached, strict=True)) < 0
        ):
            self._went_back.append(
                f"{self.name}: went back from batch {self._reached[0]}, {self._reached[1]} rows "
                f"to batch {now[0]}, {now[1]} rows"
            )
        self._reached = now

    def judge(self) -> list[str]:
        return self._went_back if self._reached else [f"{self.name}: the reader saw nothing"]


def readers_of(spec: PipelineSpec, at: Endpoints) -> list[Reader]:
    """A reader for every sink that promises each row once."""
    readers: list[Reader] = []
    for sink in spec.sink:
        if sink.guarantee != "exactly_once":
            continue
        match sink:
            case KafkaSink():
                readers.append(TopicReader(spec, sink, at.kafka))
            case ClickHouseSink():
                readers.append(TableReader(spec, sink, at.clickhouse))
            case PostgresSink():
                readers.append(PositionReader(sink, at.postgres))
    return readers


def _place(message: Message) -> tuple[int | None, int | None]:
    return message.partition(), message.offset()
