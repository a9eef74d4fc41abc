"""A Kafka producer, its records, and a transaction of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import islice
from threading import Thread
from typing import Any, NotRequired, TypeAlias, TypedDict, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from penstock.sinks.topics import MESSAGE_BYTES, QUIET
from penstock.tuning import Value, tuned, value

# Being fenced is printed by the client itself, at any log_level; it comes as an exception, too.
_log = logging.getLogger("penstock.sinks.kafka")
_log.addHandler(logging.NullHandler())

CALL_TIMEOUT_S = 30.0
"""How long a call to Kafka may take."""
_OVERTIME_S = 2.0

_BATCH_BYTES = 100
_FIELD_BYTES = 8

_AT_ONCE = 5_000
_AT_ONCE_BYTES = 16_000_000
_QUEUED_MAX = 50_000
"""With one more lot still within the client's queue, of messages (100,000) and of bytes (1 GB)."""


def producer_settings(max_bytes: int) -> dict[str, Value]:
    """For a topic that takes batches of at most so many bytes."""
    return {**QUIET, **tuned("sink"), "batch.size": min(int(value("sink.batch.size")), max_bytes)}


Headers: TypeAlias = list[tuple[str, str | bytes | None]]


class Message(TypedDict):
    """A record to send, as the client takes it.

    Python's garbage collector passes over dicts of bytes; 168,000 objects of a class cost it 0.2 s.
    """

    key: bytes | None
    value: bytes | None
    headers: NotRequired[Headers]
    partition: NotRequired[int]
    """Where it must go; else where its key belongs."""


def size_of(message: Message) -> int:
    """Bytes on the way, with what a batch of this one record takes."""
    size = len(message["key"] or b"") + len(message["value"] or b"") + _BATCH_BYTES
    for name, held in message.get("headers", ()):
        size += len(name) + len(held or b"") + _FIELD_BYTES
    return size


class Deliveries:
    """Hears of records that were not delivered, and keeps the first reason."""

    def __init__(self) -> None:
        self.failure: KafkaError | None = None

    def __call__(self, error: KafkaError | None, _record: object) -> None:
        self.failure = self.failure or error


def transactional_producer(
    bootstrap: str, transactional_id: str, topic: str, *, timeout_ms: int, max_bytes: int = MESSAGE_BYTES
) -> Producer:
    """A producer for one transaction; when it is there, all earlier ones of its id are fenced and over."""
    producer = Producer(
        {
            **producer_settings(max_bytes),
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
            producer.list_topics(topic, CALL_TIMEOUT_S)
        # Answers "concurrent transactions" until a predecessor's transaction is over; the client retries.
        producer.init_transactions(CALL_TIMEOUT_S)
        return producer
    except KafkaException as error:
        reason = error.args[0]
    # The client would go on trying, and fence whoever came meanwhile. It ends when nobody holds it: not the
    # frames of an error either.
    del producer
    raise KafkaException(reason)


@contextmanager
def adding_offsets(producer: Producer, offsets: list[TopicPartition], consumer: Consumer) -> Iterator[None]:
    """Make offsets of the consumer's group part of the transaction, while records are sent.

    The client heeds no time-out here while the group's coordinator is away (librdkafka 5456), so the call has
    a thread that may be left behind with it. What it still does then cannot harm: only we would commit, and
    the next producer of this id ends the transaction.
    """
    group = consumer.consumer_group_metadata()
    outcome: Future[None] = Future()

    def call() -> None:
        try:
            producer.send_offsets_to_transaction(offsets, group, CALL_TIMEOUT_S)
            outcome.set_result(None)
        except Exception as error:
            outcome.set_exception(error)

    Thread(target=call, name="add-offsets", daemon=True).start()
    try:
        yield
    except KafkaException as error:
        # A transaction that broke here refuses records, and does not say why.
        if outcome.done() and (reason := outcome.exception()):
            raise reason from error
        raise
    try:
        outcome.result(CALL_TIMEOUT_S + _OVERTIME_S)
    except TimeoutError:
        silent = "the coordinator of the positions' group does not answer"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, silent)) from None


def commit(producer: Producer, deliveries: Deliveries) -> None:
    """Commit the transaction, or raise the reason why a record of it was not delivered."""
    try:
        producer.commit_transaction(CALL_TIMEOUT_S)
    except KafkaException as error:
        # "Inconsistent" says no more than that some records were not delivered.
        if error.args[0].code() == KafkaError._INCONSISTENT and deliveries.failure is not None:
            raise KafkaException(deliveries.failure) from error
        raise


def is_fenced(error: KafkaException) -> bool:
    """Whether a newer producer of the same transactional id has taken over."""
    fenced = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
    return isinstance(error.args[0], KafkaError) and error.args[0].code() in fenced


def send_all(producer: Producer, topic: str, messages: Iterable[Message], deliveries: Deliveries) -> None:
    """Hand records to the producer, many at once where they are small and plain.

    They are asked for as they are sent: the client's own thread is at work on those before.
    """
    coming = iter(messages)
    while some := list(islice(coming, _AT_ONCE)):
        plain = not any("headers" in message or "partition" in message for message in some)
        if not plain or sum(map(size_of, some)) > _AT_ONCE_BYTES:
            for message in some:
                send(producer, topic, message, deliveries)
            continue
        while len(producer) > _QUEUED_MAX:
            producer.poll(0.01)
        handed = cast(list[dict[str, Any]], some)
        if producer.produce_batch(topic, handed, on_delivery=deliveries) != len(handed):
            for message, outcome in zip(some, handed, strict=True):
                if outcome.pop("_error", None) is not None:
                    send(producer, topic, message, deliveries)  # raises what is wrong


def send(producer: Producer, topic: str, message: Message, deliveries: Deliveries) -> None:
    """Hand a record to the producer; wait while its queue is full."""
    while True:
        try:
            producer.produce(topic, **message, on_delivery=deliveries)
            return
        except BufferError:
            producer.poll(0.1)
        except KafkaException as error:
            # produce() says that something fatal has happened before; only poll() raises what it was.
            if error.args[0].code() == KafkaError._FATAL:
                producer.poll(CALL_TIMEOUT_S)
            raise
