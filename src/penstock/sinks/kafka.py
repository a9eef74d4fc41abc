"""Rows into a Kafka topic, in transactions that carry the position."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from penstock.errors import Fenced, SinkError
from penstock.sinks.producer import (
    CALL_TIMEOUT_S,
    Deliveries,
    Message,
    adding_offsets,
    commit,
    is_fenced,
    producer_settings,
    send_all,
    size_of,
    transactional_producer,
)
from penstock.sinks.protocol import NOTHING, Batch, Position, Refusal, Written, must_write
from penstock.sinks.topics import MESSAGE_BYTES, QUIET
from penstock.tuning import value

CONTROL_TOPIC = "penstock-positions"
"""Positions are offsets of this topic, partition = slot; it holds no records."""

TRANSACTION_TIMEOUT_MS = int(value("sink-transaction.transaction.timeout.ms"))
"""How long a transaction may be open before the cluster ends it; one is open while a batch is written."""

_STAGED_FOR_S = TRANSACTION_TIMEOUT_MS / 1000 / 2

# What a broker answers while it makes or loads the topic of group offsets: the first seconds after a start.
_COORDINATOR_COMES = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)

Encoder = Callable[[pa.Table], Iterable[Message]]


@dataclass(frozen=True)
class Staged:
    """A transaction that holds a batch, and is not committed."""

    position: Position
    deliveries: Deliveries
    begun_s: float

    def is_good_for(self, batch: Batch) -> bool:
        """Not for a batch that has become another, nor if the cluster may end it before it is committed."""
        return self.position == batch.position and time.monotonic() - self.begun_s < _STAGED_FOR_S


class TransactionalKafkaSink:
    """Exactly once into a topic.

    Lost: nothing that was acknowledged, while in-sync replicas remain (no unclean leader election).
    Duplicated: nothing, for readers with isolation.level=read_committed.
    Delayed: a batch is visible as a whole when its transaction commits.

    One transaction per producer instance: a new instance raises the epoch, which fences delayed requests of
    the one before. Its start costs ~20 ms, so the next one is prepared while the next batch is computed, and
    the position read behind its start.
    A batch that may yet grow is staged meanwhile: all of its transaction but the commit.
    With `one_batch` none is prepared: the writer of a slot lives for a batch, and must not fence the one
    behind it.
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
        self._staged: Staged | None = None
        self._background = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"prepare-{name}")
        self._prepared: Future[tuple[Producer, Position | None]] = self._background.submit(self._prepare)

    def _prepare(self) -> tuple[Producer, Position | None]:
        """A producer, and what the sink held when it came: whoever writes since has fenced it."""
        producer = transactional_producer(
            self._bootstrap,
            self._transactional_id,
            self._topic,
            timeout_ms=TRANSACTION_TIMEOUT_MS,
            max_bytes=self._max_bytes,
        )
        return producer, self._position()

    def stage(self, batch: Batch) -> None:
        """Have the cluster hold a batch that is due, uncommitted; to write the same one is only to commit."""
        try:
            producer, position = self._prepared.result()
            if (position.batch if position else NOTHING) == batch.number - 1:
                self._staged = self._send(producer, batch, self._encode(batch.rows))
                producer.flush(CALL_TIMEOUT_S)
        except KafkaException as error:
            raise _sink_error(self.name, error) from error

    def write(self, batch: Batch) -> Written:
        try:
            if self._staged and not self._staged.is_good_for(batch):
                # The next producer ends its transaction.
                self._staged, self._prepared = None, self._background.submit(self._prepare)
            producer, position = self._prepared.result()
            replayed = not must_write(self.name, batch, position, adopt=self._adopt)
            fitting = Fitting(self._encode(batch.rows), self._max_bytes)
            if replayed and self._set_aside:
                # Whoever wrote the others may not have lived to have these set aside.
                for _ in fitting:
                    pass
            if not replayed:
                self._adopt = False
                staged = self._staged or self._send(producer, batch, fitting)
                if fitting.refused and not self._set_aside:
                    producer.abort_transaction(CALL_TIMEOUT_S)  # readers would wait for its end
                    raise too_large(self.name, batch, fitting.refused)
                commit(producer, staged.deliveries)
                self._staged = None
                if not self._one_batch:
                    self._prepared = self._background.submit(self._prepare)
        except KafkaException as error:
            raise _sink_error(self.name, error) from error
        return Written(batch.count, batch.digest, replayed, tuple(fitting.refused))

    def _send(self, producer: Producer, batch: Batch, messages: Iterable[Message]) -> Staged:
        """Rows and position in a transaction that is not committed."""
        staged = Staged(batch.position, Deliveries(), time.monotonic())
        mark = json.dumps(asdict(batch.position))
        # The offset is the next batch: a committed offset is where reading goes on.
        offsets = [TopicPartition(CONTROL_TOPIC, self._slot, batch.number + 1, metadata=mark)]
        producer.begin_transaction()
        with adding_offsets(producer, offsets, self._positions):
            send_all(producer, self._topic, messages, staged.deliveries)
        return staged

    def _position(self) -> Position | None:
        try:
            [held] = committed(self._positions, [TopicPartition(CONTROL_TOPIC, self._slot)], CALL_TIMEOUT_S)
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
        self._producer = Producer({**producer_settings(max_bytes), "bootstrap.servers": bootstrap})

    def write(self, batch: Batch) -> Written:
        deliveries = Deliveries()
        fitting = Fitting(self._encode(batch.rows), self._max_bytes)
        try:
            send_all(self._producer, self._topic, fitting, deliveries)
        except KafkaException as error:
            raise _sink_error(self.name, error) from error
        if fitting.refused and not self._set_aside:
            raise too_large(self.name, batch, fitting.refused)
        waiting = self._producer.flush(CALL_TIMEOUT_S)
        if deliveries.failure is not None:
            raise _sink_error(self.name, KafkaException(deliveries.failure))
        if waiting:
            late = f"{waiting} of {batch.count} rows were not acknowledged within {CALL_TIMEOUT_S:.0f} s"
            raise SinkError(f"sink {self.name}: {late}")
        return Written(batch.count, batch.digest, replayed=False, refused=tuple(fitting.refused))

    def close(self) -> None:
        self._producer.flush(1.0)


class Fitting:
    """Messages that a topic takes, as they are asked for; the rows of the others are told of behind them."""

    def __init__(self, messages: Iterable[Message], max_bytes: int) -> None:
        self._messages = messages
        self._max_bytes = max_bytes
        self.refused: list[Refusal] = []

    def __iter__(self) -> Iterator[Message]:
        for row, message in enumerate(self._messages):
            if (size := size_of(message)) <= self._max_bytes:
                yield message
            else:
                limit = f"the topic takes {self._max_bytes:,} (max.message.bytes)"
                self.refused.append(Refusal(row, f"{size:,} bytes, and {limit}"))


def too_large(sink: str, batch: Batch, refused: Sequence[Refusal]) -> SinkError:
    return SinkError(
        f"sink {sink}: {len(refused)} of {batch.count} rows are too large: {refused[0].reason}",
        hint='Raise the limit, or set such rows aside: give a sink rows = ["refused"].',
    )


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
