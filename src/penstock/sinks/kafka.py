"""Rows into a Kafka topic, in transactions that carry the position."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from threading import Thread

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from penstock.errors import Fenced, SinkError
from penstock.sinks.protocol import Batch, Position, Refusal, Written, must_write
from penstock.sinks.topics import MESSAGE_BYTES, QUIET

CONTROL_TOPIC = "penstock-positions"
"""Positions are offsets of this topic, partition = slot; it holds no records."""

# Being fenced is printed by the client itself, at any log_level; it comes as an exception, too.
_log = logging.getLogger("penstock.sinks.kafka")
_log.addHandler(logging.NullHandler())

TRANSACTION_TIMEOUT_MS = 120_000
"""How long a transaction may be open before the cluster ends it; one is open while a batch is written."""

_CALL_TIMEOUT_S = 30.0
_OVERTIME_S = 2.0

_BATCH_BYTES = 100
_FIELD_BYTES = 8

_PRODUCER_SETTINGS: dict[str, str | int | bool] = {
    **QUIET,
    "enable.idempotence": True,
    "acks": "all",
    "compression.type": "lz4",
    # The whole batch is at hand: waiting for more would only add latency.
    "linger.ms": 2,
    # Bounds the memory of one batch; produce() waits when it is reached.
    "queue.buffering.max.messages": 200_000,
    # Of one record. What a topic takes is the topic's to say.
    "message.max.bytes": 100_000_000,
    "partitioner": "murmur2_random",
    # A new producer waits this long before its connections: a start takes 60 ms with 100, 20 ms with 10.
    "reconnect.backoff.ms": 10,
    # How long an unknown topic may be one that is being created. With the default, which is as long as our
    # calls wait, a topic that does not exist can look like a timeout.
    "topic.metadata.propagation.max.ms": 10_000,
}

_BATCH_SIZE = 1_000_000


def _producer_settings(max_bytes: int) -> dict[str, str | int | bool]:
    """For a topic that takes batches of at most so many bytes."""
    return {**_PRODUCER_SETTINGS, "batch.size": min(_BATCH_SIZE, max_bytes)}


# What a broker answers while it makes or loads the topic of group offsets: the first seconds after a start.
_COORDINATOR_COMES = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


@dataclass(frozen=True)
class Message:
    """A record to send."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = -1
    """Where it must go; -1 is where its key belongs."""

    @property
    def size(self) -> int:
        """Bytes on the way, with what a batch of this one record takes."""
        headers = sum(len(name) + len(value or b"") + _FIELD_BYTES for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers + _BATCH_BYTES


Encoder = Callable[[pa.Table], Iterable[Message]]


class Deliveries:
    """Hears of every record's delivery, and keeps the first reason why one failed."""

    def __init__(self) -> None:
        self.failure: KafkaError | None = None

    def __call__(self, error: KafkaError | None, _record: object) -> None:
        self.failure = self.failure or error


class TransactionalKafkaSink:
    """Exactly once into a topic.

    Lost: nothing that was acknowledged, while in-sync replicas remain (no unclean leader election).
    Duplicated: nothing, for readers with isolation.level=read_committed.
    Delayed: a batch is visible as a whole when its transaction commits.

    One transaction per producer instance: a new instance raises the epoch, which fences delayed requests of
    the one before. Its start costs ~20 ms, so the next one is prepared while the next batch is computed.
    With `one_batch` none is: the writer of a slot lives for a batch, and must not fence the one behind it.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        topic: str,
        query: str,
        encode: Encoder,
        *,
        max_bytes: int = MESSAGE_BYTES,
        set_aside: bool = False,
        adopt: bool = False,
        slot: int = 0,
        one_batch: bool = False,
    ) -> None:
        """`set_aside`: rows larger than `max_bytes` are left out and told of; else the batch fails."""
        self.name = name
        self._max_bytes = max_bytes
        self._set_aside = set_aside
        self._topic = topic
        self._encode = encode
        self._adopt = adopt
        self._slot = slot
        self._one_batch = one_batch
        self._bootstrap = bootstrap
        self._transactional_id = f"penstock-{query}-{name}-{slot}"
        self._positions = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": positions_group(query, name),
                "enable.auto.commit": False,
                **QUIET,
            }
        )
        self._background = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"prepare-{name}")
        self._prepared: Future[Producer] = self._background.submit(self._prepare)

    def _prepare(self) -> Producer:
        return transactional_producer(
            self._bootstrap,
            self._transactional_id,
            self._topic,
            timeout_ms=TRANSACTION_TIMEOUT_MS,
            max_bytes=self._max_bytes,
        )

    def write(self, batch: Batch) -> Written:
        try:
            producer = self._prepared.result()
            position = self._position()
            replayed = not must_write(self.name, batch, position, adopt=self._adopt)
            messages = list(self._encode(batch.rows)) if self._set_aside or not replayed else []
            refused = too_large(self.name, messages, self._max_bytes, set_aside=self._set_aside)
            if not replayed:
                self._adopt = False
                self._transact(producer, batch, _but(messages, refused))
                if not self._one_batch:
                    self._prepared = self._background.submit(self._prepare)
        except KafkaException as error:
            raise _sink_error(self.name, error) from error
        return Written(batch.count, batch.digest, replayed, refused)

    def _transact(self, producer: Producer, batch: Batch, messages: Iterable[Message]) -> None:
        deliveries = Deliveries()
        producer.begin_transaction()
        for message in messages:
            send(producer, self._topic, message, deliveries)
        mark = json.dumps(asdict(Position(batch.number, batch.count, batch.digest)))
        # The offset is the next batch: a committed offset is where reading goes on.
        offsets = [TopicPartition(CONTROL_TOPIC, self._slot, batch.number + 1, metadata=mark)]
        add_offsets(producer, offsets, self._positions)
        commit(producer, deliveries)

    def _position(self) -> Position | None:
        try:
            [held] = committed(self._positions, [TopicPartition(CONTROL_TOPIC, self._slot)], _CALL_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT:
                raise _unreadable(self.name, self._bootstrap) from error
            raise
        return position_in(held)

    def close(self) -> None:
        # A producer that is still being prepared would fence the writer that comes after this one.
        self._background.shutdown(wait=True, cancel_futures=True)
        self._positions.close()


class KeyedKafkaSink:
    """At least once into a topic, keyed, so that a compacted topic or an upserting reader is idempotent.

    Lost: nothing that was acknowledged. Duplicated: a batch that was under way when the pipeline died comes
    again. Delayed: no waiting for a commit; rows are visible as soon as they are acknowledged.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        topic: str,
        encode: Encoder,
        *,
        max_bytes: int = MESSAGE_BYTES,
        set_aside: bool = False,
    ) -> None:
        self.name = name
        self._max_bytes = max_bytes
        self._set_aside = set_aside
        self._topic = topic
        self._encode = encode
        self._producer = Producer({**_producer_settings(max_bytes), "bootstrap.servers": bootstrap})

    def write(self, batch: Batch) -> Written:
        deliveries = Deliveries()
        messages = list(self._encode(batch.rows))
        refused = too_large(self.name, messages, self._max_bytes, set_aside=self._set_aside)
        try:
            for message in _but(messages, refused):
                send(self._producer, self._topic, message, deliveries)
        except KafkaException as error:
            raise _sink_error(self.name, error) from error
        waiting = self._producer.flush(_CALL_TIMEOUT_S)
        if deliveries.failure is not None:
            raise _sink_error(self.name, KafkaException(deliveries.failure))
        if waiting:
            late = f"{waiting} of {batch.count} rows were not acknowledged within {_CALL_TIMEOUT_S:.0f} s"
            raise SinkError(f"sink {self.name}: {late}")
        return Written(batch.count, batch.digest, replayed=False, refused=refused)

    def close(self) -> None:
        self._producer.flush(1.0)


def too_large(
    sink: str, messages: Sequence[Message], max_bytes: int, *, set_aside: bool
) -> tuple[Refusal, ...]:
    """The rows whose message the topic does not take; raises if there are any and none may be left out."""
    refused = tuple(
        Refusal(row, f"{message.size:,} bytes, and the topic takes {max_bytes:,} (max.message.bytes)")
        for row, message in enumerate(messages)
        if message.size > max_bytes
    )
    if refused and not set_aside:
        raise SinkError(
            f"sink {sink}: {len(refused)} of {len(messages)} rows are too large: {refused[0].reason}",
            hint='Raise the limit, or set such rows aside: give a sink rows = ["refused"].',
        )
    return refused


def _but(messages: Sequence[Message], refused: Sequence[Refusal]) -> Iterator[Message]:
    left_out = {refusal.row for refusal in refused}
    return (message for row, message in enumerate(messages) if row not in left_out)


def positions_group(query: str, sink: str) -> str:
    """The consumer group whose offset on the control topic is a sink's position."""
    return f"penstock-{query}-{sink}"


def committed(consumer: Consumer, places: list[TopicPartition], timeout_s: float) -> list[TopicPartition]:
    """The offsets that the consumer's group holds; a coordinator that comes up is waited for.

    Not with an AdminClient: its question takes the process down while there is no coordinator (librdkafka
    5040).
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            held = consumer.committed(places, timeout=timeout_s)
            for place in held:
                if place.error is not None:
                    raise KafkaException(place.error)
            return held
        except KafkaException as error:
            if error.args[0].code() not in _COORDINATOR_COMES or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def position_in(held: TopicPartition) -> Position | None:
    """The position that a committed offset is."""
    # An offset that was set by hand has no metadata: as good as none.
    if held.offset < 0 or not held.metadata:
        return None
    return Position(**json.loads(held.metadata))


def transactional_producer(
    bootstrap: str, transactional_id: str, topic: str, *, timeout_ms: int, max_bytes: int = MESSAGE_BYTES
) -> Producer:
    """A producer for one transaction; when it is there, all earlier ones of its id are fenced and over."""
    producer = Producer(
        {
            **_producer_settings(max_bytes),
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
        },
        logger=_log,
    )
    # librdkafka asks for the coordinator over its bootstrap connection, which it drops when the first
    # metadata come; a third of all starts then waits for a timer of 500 ms. After a second answer the
    # connection is the lasting one: 20 ms, 0 of 80 starts over 300 ms (24 of 80 without).
    try:
        for _ in range(2):
            producer.list_topics(topic, _CALL_TIMEOUT_S)
        # Answers "concurrent transactions" until a predecessor's transaction is over; the client retries.
        producer.init_transactions(_CALL_TIMEOUT_S)
        return producer
    except KafkaException as error:
        reason = error.args[0]
    # The client would go on trying, and fence whoever came meanwhile. It ends when nobody holds it: not the
    # frames of an error either.
    del producer
    raise KafkaException(reason)


def add_offsets(producer: Producer, offsets: list[TopicPartition], consumer: Consumer) -> None:
    """Make offsets of the consumer's group part of the transaction.

    The client heeds no time-out here while the group's coordinator is away (librdkafka 5456), so the call has
    a thread that may be left behind with it. What it still does then cannot harm: only we would commit, and
    the next producer of this id ends the transaction.
    """
    group = consumer.consumer_group_metadata()
    outcome: Future[None] = Future()

    def call() -> None:
        try:
            producer.send_offsets_to_transaction(offsets, group, _CALL_TIMEOUT_S)
            outcome.set_result(None)
        except Exception as error:
            outcome.set_exception(error)

    Thread(target=call, name="add-offsets", daemon=True).start()
    try:
        outcome.result(_CALL_TIMEOUT_S + _OVERTIME_S)
    except TimeoutError:
        reason = "the coordinator of the positions' group does not answer"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason)) from None


def commit(producer: Producer, deliveries: Deliveries) -> None:
    """Commit the transaction, or raise the reason why a record of it was not delivered."""
    try:
        producer.commit_transaction(_CALL_TIMEOUT_S)
    except KafkaException as error:
        # "Inconsistent" says no more than that some records were not delivered.
        if error.args[0].code() == KafkaError._INCONSISTENT and deliveries.failure is not None:
            raise KafkaException(deliveries.failure) from error
        raise


def is_fenced(error: KafkaException) -> bool:
    """Whether a newer producer of the same transactional id has taken over."""
    fenced = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
    return isinstance(error.args[0], KafkaError) and error.args[0].code() in fenced


def send(producer: Producer, topic: str, message: Message, deliveries: Deliveries) -> None:
    """Hand a record to the producer; wait while its queue is full."""
    while True:
        try:
            producer.produce(
                topic,
                value=message.value,
                key=message.key,
                partition=message.partition,
                headers=list(message.headers),
                on_delivery=deliveries,
            )
            return
        except BufferError:
            producer.poll(0.1)
        except KafkaException as error:
            # produce() says that something fatal has happened before; only poll() raises what it was.
            if error.args[0].code() == KafkaError._FATAL:
                producer.poll(_CALL_TIMEOUT_S)
            raise


def _unreadable(name: str, bootstrap: str) -> SinkError:
    """No answer, though a producer has just been given one: the position waits for a transaction's end."""
    return SinkError(
        f"sink {name}: its position cannot be read: a transaction that wrote it is not over",
        hint=f"After {TRANSACTION_TIMEOUT_MS // 1000} s it is, or it hangs, and Kafka must be told to end it:"
        f" kafka-transactions.sh --bootstrap-server {bootstrap} find-hanging --broker-id N; see"
        " docs/recovery.md.",
    )


def _sink_error(name: str, error: KafkaException) -> SinkError:
    if is_fenced(error):
        return Fenced(
            f"sink {name}: a newer writer has taken over",
            hint="Another process runs the same pipeline on the same Kafka; stop one of them. If there is"
            f" none, this one stood still in a transaction for more than {TRANSACTION_TIMEOUT_MS // 1000} s,"
            " and the cluster ended it: start it again.",
        )
    return SinkError(f"sink {name}: {error.args[0]}")
