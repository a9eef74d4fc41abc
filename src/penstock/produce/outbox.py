"""The way from messages to the broker: sends in order, and knows which have arrived."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.errors import ServiceError, SourceError
from penstock.produce.wire import Message
from penstock.tuning import tuned, value

# The client does not say whether a record it gave up was written by an attempt that got no answer.
_UNKNOWN_OUTCOMES = frozenset(
    {KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_INFLIGHT, KafkaError._PURGE_QUEUE}
)

# The client's own log would go to stderr, which belongs to the person at the terminal.
_log = logging.getLogger("penstock.produce.kafka")
_log.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Settled:
    """The outcome of every record before `position` is known; `failed` and `unknown` since last asked."""

    position: int
    failed: list[int]
    unknown: list[int]


@dataclass
class _Flight:
    """One chunk between the first record sent and the last outcome."""

    position: int
    messages: list[Message]
    open: int
    failed: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)

    def landed(self, error: KafkaError | None, message: Any) -> None:
        """Called by the client for every record: 0.6 us each, and no pause to wait for an empty queue."""
        self.open -= 1
        if error is not None:
            outcomes = self.unknown if error.code() in _UNKNOWN_OUTCOMES else self.failed
            outcomes.append(self._position_of(message))

    def _position_of(self, message: Any) -> int:
        """Equal records of a chunk are told apart by nobody, so any of them that is left will do."""
        lost = {"key": message.key(), "value": message.value()}
        taken = {*self.failed, *self.unknown}
        return next(
            position
            for position, sent in enumerate(self.messages, start=self.position)
            if sent == lost and position not in taken
        )

    @property
    def acknowledged(self) -> int:
        return len(self.messages) - self.open - len(self.failed) - len(self.unknown)


class Outbox:
    """A Kafka producer that can say up to which record everything has arrived. For one thread."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._queue_max = int(value("producer.queue.buffering.max.messages"))
        self._fatal = ""
        self._flights: deque[_Flight] = deque()
        self._arrived = 0  # of the flights that are over
        self._lost = 0
        self._settled = Settled(0, [], [])
        self.trouble = ""  # the client's last complaint
        self._producer = Producer(
            {**tuned("producer"), "bootstrap.servers": bootstrap, "error_cb": self._complaint}, logger=_log
        )

    def _complaint(self, error: KafkaError) -> None:
        self.trouble = error.str()
        if error.fatal():
            self._fatal = error.str()

    def require_topic(self, timeout_s: float = 5.0) -> None:
        """Refuse a topic the broker does not have; a broker that is away is waited for while sending."""
        try:
            known = self._producer.list_topics(timeout=timeout_s).topics
        except KafkaException:
            return
        if self._topic not in known:
            raise SourceError(
                f"the broker has no topic {self._topic!r}",
                hint="Create it first: starting the pipeline does, with the partitions its spec names.",
            )

    @property
    def queued(self) -> int:
        """Records sent and not yet known to have arrived or failed."""
        return sum(flight.open for flight in self._flights)

    @property
    def room(self) -> int:
        """How many records can be sent now.

        Never send more: of a batch refused in part the client may take a later record of the same key.
        """
        return self._queue_max - len(self._producer)

    @property
    def acknowledged(self) -> int:
        return self._arrived + sum(flight.acknowledged for flight in self._flights)

    @property
    def lost(self) -> int:
        """Records that failed, or whose outcome the client does not know."""
        return self._lost + sum(len(f.failed) + len(f.unknown) for f in self._flights)

    def send(self, position: int, messages: list[Message]) -> None:
        """Hand records to the client; `position` is the ledger position of the first."""
        flight = _Flight(position, messages, open=len(messages))
        self._flights.append(flight)
        taken = self._producer.produce_batch(self._topic, messages, on_delivery=flight.landed)
        if taken != len(messages):
            refusal = next((m["_error"] for m in messages if "_error" in m), "no reason given")
            raise ServiceError(
                f"the Kafka client refused {len(messages) - taken} of {len(messages)} records: {refusal}",
                hint="Start the producer again; it takes a new id and the ledger keeps what was sent.",
            )

    def poll(self, timeout_s: float) -> None:
        """Take in outcomes, waiting for some up to `timeout_s`."""
        self._producer.poll(timeout_s)
        if self._fatal:
            raise ServiceError(
                f"the Kafka client gave up: {self._fatal}",
                hint="Start the producer again; it takes a new id and the ledger keeps what was sent.",
            )

    def close(self) -> None:
        """Give up what is still queued, so that nothing is sent behind the ledger's back."""
        self._producer.purge()
        while self.queued:
            self._producer.poll(0.1)
        self._producer.close()

    def settled(self) -> Settled:
        """How far all outcomes are known, with the records lost since this was last asked."""
        position, failed, unknown = self._settled.position, [], []
        while self._flights and self._flights[0].open == 0:
            flight = self._flights.popleft()
            position = flight.position + len(flight.messages)
            self._arrived += flight.acknowledged
            self._lost += len(flight.failed) + len(flight.unknown)
            failed += flight.failed
            unknown += flight.unknown
        self._settled = Settled(position, failed, unknown)
        return self._settled
