"""How far queries have come, as offsets of consumer groups: what kafka-consumer-groups, Burrow and KEDA see.

Spark commits none, and Penstock goes by its checkpoint. The offsets are for others; nothing here reads them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.sinks.topics import QUIET

_ANSWER_TIMEOUT_S = 3.0
_LAST_WORD_S = 2.0
_AGAIN_S = 3_600.0
"""Brokers forget the offsets of a group without members, after a week by default, also if nothing came in."""


def progress_group(query: str) -> str:
    """The group of a query. The dot keeps it apart from those in which sinks keep their positions.

    With a dash the query `shop-events` would share a group with the sink `events` of `shop`, and who deletes
    a group that only informs would delete a position.
    """
    return f"penstock.{query}"


@dataclass(frozen=True)
class _Commit:
    offsets: Mapping[int, int]
    at_s: float
    answer: Future[ConsumerGroupTopicPartitions]

    @property
    def is_held(self) -> bool:
        """A broker that is not ready refuses each partition by itself, and answers well."""
        return self.answer.exception() is None and all(
            place.error is None for place in self.answer.result().topic_partitions or ()
        )


class GroupOffsets:
    """Commits the positions of queries on one topic. It never waits nor fails: the next one carries it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._admin: AdminClient | None = None
        self._reached: dict[str, Mapping[int, int]] = {}
        self._asked: dict[str, _Commit] = {}
        self._held: dict[str, _Commit] = {}

    def reached(self, query: str, offsets: Mapping[int, int]) -> None:
        """All before these offsets is in every sink of the query. From any thread."""
        self._reached[query] = offsets

    def publish(self) -> None:
        """Ask the broker to hold what is new, unless it still owes an answer. From one thread."""
        now_s = time.monotonic()
        for query, offsets in list(self._reached.items()):
            if self._is_owed(query, now_s):
                continue
            held = self._held.get(query)
            if held is None or held.offsets != offsets or now_s - held.at_s > _AGAIN_S:
                self._ask(query, offsets, now_s)

    def close(self) -> None:
        """Have the last positions held, if the broker answers at once."""
        for _ in range(2):  # an older one may be under way
            self.publish()
            wait([commit.answer for commit in self._asked.values()], timeout=_LAST_WORD_S)

    def _is_owed(self, query: str, now_s: float) -> bool:
        commit = self._asked.get(query)
        if commit is None:
            return False
        if not commit.answer.done():
            if now_s - commit.at_s <= 2 * _ANSWER_TIMEOUT_S:
                return True
            # A client that asked while its broker died may never be answered: the next one gets a new client.
            self._admin = None
        elif commit.is_held:
            self._held[query] = commit
        del self._asked[query]
        return False

    def _ask(self, query: str, offsets: Mapping[int, int], now_s: float) -> None:
        places = [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        wanted = ConsumerGroupTopicPartitions(progress_group(query), places)
        self._admin = self._admin or AdminClient({"bootstrap.servers": self._bootstrap, **QUIET})
        try:
            asked = self._admin.alter_consumer_group_offsets([wanted], request_timeout=_ANSWER_TIMEOUT_S)
        except KafkaException:
            return
        [answer] = asked.values()
        self._asked[query] = _Commit(offsets, now_s, answer)
