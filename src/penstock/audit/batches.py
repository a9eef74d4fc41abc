"""How many rows of each batch the sinks of a pipeline hold, read a page at a time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import psycopg
from clickhouse_connect.driver.exceptions import ClickHouseError
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from psycopg import sql

from penstock.audit.reconcile import Keeps
from penstock.audit.topic import committed_reader
from penstock.engine.outputs import Endpoints
from penstock.errors import ServiceError
from penstock.sinks.clickhouse import connect
from penstock.sinks.topics import QUIET
from penstock.spec import ClickHouseSink, KafkaSink, Sink
from penstock.spec.sinks import ASIDE

_PAGE = 2_000
_SILENT_S = 20.0


class BatchCounts(Protocol):
    """Counts the rows of one sink by batch; each look goes on where the one before ended, if it can."""

    @property
    def whole_from(self) -> int:
        """Of batches before this one retention may have taken rows."""

    def look(self) -> Mapping[int, int]:
        """The rows of each batch that are there now."""

    def close(self) -> None:
        """Let go of all connections."""


def keeps(sink: Sink, at: Endpoints) -> Keeps:
    """What is left of a batch in the store of a sink."""
    if isinstance(sink, KafkaSink):
        if _compacted(at.kafka, sink.topic):
            return "newest"
        return "all" if sink.guarantee == "exactly_once" else "each"
    if isinstance(sink, ClickHouseSink) and sink.guarantee == "exactly_once":
        return "all"
    return "newest"


def _compacted(bootstrap: str, topic: str) -> bool:
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    try:
        [found] = admin.describe_configs([asked], request_timeout=_SILENT_S).values()
        return "compact" in found.result()["cleanup.policy"].value
    except KafkaException as error:
        raise ServiceError(f"topic {topic} cannot be looked at: {error.args[0].str()}") from error


def open_counts(sink: Sink, query: str, at: Endpoints) -> BatchCounts:
    if isinstance(sink, KafkaSink):
        return _TopicCounts(at.kafka, sink.topic, _in_headers if ASIDE & set(sink.rows) else _in_value, query)
    if isinstance(sink, ClickHouseSink):
        return _ClickHouseCounts(at.clickhouse, sink.table, query, merged=sink.guarantee == "at_least_once")
    return _PostgresCounts(at.postgres, sink.table, query)


def _in_value(message: Message) -> tuple[str, int]:
    row = json.loads(message.value() or b"{}")
    return str(row.get("query")), int(row.get("batch", -1))


def _in_headers(message: Message) -> tuple[str, int]:
    headers: dict[str, Any] = dict(message.headers() or ())
    return (headers.get("penstock.query") or b"").decode(), int(headers.get("penstock.batch") or -1)


class _TopicCounts:
    """Committed records of a topic; those that were counted are not read again."""

    def __init__(
        self, bootstrap: str, topic: str, origin: Callable[[Message], tuple[str, int]], query: str
    ) -> None:
        self._topic, self._origin, self._query = topic, origin, query
        self._counts: Counter[int] = Counter()
        self._places: list[TopicPartition] = []
        self._begun_late: set[int] = set()
        """Partitions whose first records retention has taken, until one of those left is seen."""
        self._first_seen = -1
        self._consumer = committed_reader(bootstrap)

    def look(self) -> Mapping[int, int]:
        try:
            self._read_on()
        except KafkaException as error:
            raise ServiceError(f"topic {self._topic} cannot be read: {error.args[0].str()}") from error
        return self._counts

    def _read_on(self) -> None:
        if not self._places:
            found = self._consumer.list_topics(self._topic, timeout=_SILENT_S).topics[self._topic]
            if found.error is not None:
                raise ServiceError(f"topic {self._topic}: {found.error.str()}")
            self._places = [TopicPartition(self._topic, p, OFFSET_BEGINNING) for p in found.partitions]
            self._begun_late = {p.partition for p in self._places if self._first(p) > 0}
        # Assigned anew, each partition says once more where its end is.
        self._consumer.assign(self._places)
        left = {place.partition: place for place in self._places}
        while left:
            messages = _page(self._consumer)
            if not messages:
                raise ServiceError(f"topic {self._topic}: partitions {sorted(left)} are silent")
            for message in messages:
                trouble = message.error()
                if trouble is None:
                    # What came behind a partition's end is counted at the next look.
                    if message.partition() in left:
                        self._count(message)
                elif trouble.code() == KafkaError._PARTITION_EOF:
                    if ended := left.pop(message.partition() or 0, None):
                        ended.offset = message.offset() or 0
                else:
                    raise ServiceError(f"topic {self._topic}: {trouble.str()}")

    def _count(self, message: Message) -> None:
        query, batch = self._origin(message)
        if query != self._query:
            return
        self._counts[batch] += 1
        if message.partition() in self._begun_late:
            self._begun_late.discard(message.partition())
            self._first_seen = max(self._first_seen, batch)

    @property
    def whole_from(self) -> int:
        """A partition of which nothing is left may have held rows of every batch."""
        return 1 + (max(self._counts, default=-1) if self._begun_late else self._first_seen)

    def _first(self, place: TopicPartition) -> int:
        return int(self._consumer.get_watermark_offsets(place, timeout=_SILENT_S)[0])

    def close(self) -> None:
        self._consumer.close()


class _ClickHouseCounts:
    whole_from = 0

    def __init__(self, address: str, table: str, query: str, *, merged: bool) -> None:
        """`merged`: rows that replace each other count once, also where ClickHouse has yet to merge them."""
        self._query = query
        self._table = f"{table} FINAL" if merged else table
        try:
            self._client = connect(address)
        except ClickHouseError as error:
            raise ServiceError(f"table {table} cannot be read: ClickHouse does not answer") from error

    def look(self) -> Mapping[int, int]:
        try:
            found = self._client.query(
                f"SELECT batch, count() FROM {self._table} "  # noqa: S608  (a name of the spec)
                "WHERE query = {query:String} GROUP BY batch",
                parameters={"query": self._query},
            )
        except ClickHouseError as error:
            raise ServiceError(f"table {self._table} of ClickHouse cannot be read: {error}") from error
        return {int(batch): int(rows) for batch, rows in found.result_rows}

    def close(self) -> None:
        self._client.close()


class _PostgresCounts:
    whole_from = 0

    def __init__(self, address: str, table: str, query: str) -> None:
        self._address, self._table, self._query = address, table, query

    def look(self) -> Mapping[int, int]:
        counting = sql.SQL("SELECT batch, count(*) FROM {} WHERE query = %s GROUP BY batch").format(
            sql.Identifier(*self._table.split("."))
        )
        try:
            with psycopg.connect(self._address, connect_timeout=5) as connection:
                return {int(batch): int(n) for batch, n in connection.execute(counting, [self._query])}
        except psycopg.Error as error:
            raise ServiceError(f"table {self._table} of PostgreSQL cannot be read: {error}") from error

    def close(self) -> None:
        pass


def count_records(bootstrap: str, topic: str, spans: Mapping[int, tuple[int, int]]) -> int | None:
    """The committed records between the offsets of each partition; None where retention took some.

    Ends of transactions take offsets, and so do records of transactions that were given up.
    """
    consumer = committed_reader(bootstrap)
    try:
        return sum(
            _count_partition(consumer, TopicPartition(topic, partition, start), end)
            for partition, (start, end) in spans.items()
            if end > start
        )
    except _Gone:
        return None
    except KafkaException as error:
        raise ServiceError(f"topic {topic} cannot be read: {error.args[0].str()}") from error
    finally:
        consumer.close()


def _page(consumer: Consumer) -> list[Message]:
    """The records at hand; none only after a long silence."""
    return consumer.consume(_PAGE, timeout=0.2) or consumer.consume(1, timeout=_SILENT_S)


class _Gone(Exception):
    """Retention has taken what was to be counted."""


def _count_partition(consumer: Consumer, start: TopicPartition, end: int) -> int:
    if consumer.get_watermark_offsets(start, timeout=_SILENT_S)[0] > start.offset:
        raise _Gone
    consumer.assign([start])
    records = 0
    while True:
        messages = _page(consumer)
        if not messages:
            raise ServiceError(f"topic {start.topic}: partition {start.partition} is silent")
        for message in messages:
            # What is behind the end, or the end of the topic, comes after all that was asked for.
            if message.error() is not None or (message.offset() or 0) >= end:
                return records
            records += 1
