"""How far queries have come, as offsets of consumer groups: what kafka-consumer-groups, Burrow and KEDA see.

Spark commits none, and Penstock goes by its checkpoint. The offsets are for others; nothing here reads them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.sinks.topics import QUIET

_ANSWER_TIMEOUT_MS = 2_000
_LAST_WORD_S = 2.0
_POLL_S = 0.05
_AGAIN_S = 3_600.0
"""Brokers forget the offsets of a group without members, after a week by default, also if nothing came in."""


def progress_group(query: str) -> str:
    """The group of a query. The dot keeps it apart from those in which sinks keep their positions.

    With a dash the query `shop-events` would share a group with the sink `events` of `shop`, and who deletes
    a group that only informs would delete a position.
    """
    return f"penstock.{query}"


class GroupOffsets:
    """Commits the positions of queries on one topic. It never waits nor fails: the next one carries it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._reached: dict[str, Mapping[int, int]] = {}
        self._groups: dict[str, _Group] = {}

    def reached(self, query: str, offsets: Mapping[int, int]) -> None:
        """All before these offsets is in every sink of the query. From any thread."""
        self._reached[query] = offsets

    def publish(self) -> None:
        """Ask the broker to hold what is new, unless it still owes an answer. From one thread."""
        for query, offsets in list(self._reached.items()):
            if query not in self._groups:
                self._groups[query] = _Group(self._bootstrap, progress_group(query))
            self._groups[query].commit(self._topic, offsets)

    def close(self) -> None:
        """Have the last positions held, if the broker answers at once."""
        deadline_s = time.monotonic() + _LAST_WORD_S
        self.publish()
        while time.monotonic() < deadline_s and not all(
            self._groups[query].holds(offsets) for query, offsets in self._reached.items()
        ):
            time.sleep(_POLL_S)
            self.publish()
        for group in self._groups.values():
            group.close()
        self._groups.clear()


class _Group:
    """The offsets of one group, which has no members.

    A consumer that reads nothing commits them. An AdminClient could, but one that did so while the group's
    coordinator came back took the process down (SIGABRT with librdkafka 2.16, in 1 of 2 broker restarts).
    """

    def __init__(self, bootstrap: str, name: str) -> None:
        self._asked: Mapping[int, int] | None = None
        self._held: Mapping[int, int] | None = None
        self._held_s = 0.0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name,
                "enable.auto.commit": False,
                "on_commit": self._answered,
                # Of a consumer that never joins its group, this is how long a commit, and the end of the
                # consumer behind it, waits for a coordinator that is away: 45 s unless set.
                "session.timeout.ms": _ANSWER_TIMEOUT_MS,
                **QUIET,
            }
        )

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Ask for it if it is new and nothing else is asked for."""
        self._consumer.poll(0)
        is_old = time.monotonic() - self._held_s > _AGAIN_S
        if self._asked is not None or (self.holds(offsets) and not is_old):
            return
        places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
        except KafkaException:
            return
        self._asked = offsets

    def holds(self, offsets: Mapping[int, int]) -> bool:
        return self._held == offsets

    def _answered(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        # A broker that is not ready refuses each partition by itself.
        if error is None and all(place.error is None for place in places):
            self._held, self._held_s = self._asked, time.monotonic()
        self._asked = None

    def close(self) -> None:
        self._consumer.close()
