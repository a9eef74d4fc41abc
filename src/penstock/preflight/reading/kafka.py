"""What a Kafka cluster tells of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicMetadata,
)

from penstock.engine.clock import clock_topic
from penstock.engine.source import SourceTopic
from penstock.errors import SinkError, first_line
from penstock.preflight.facts import (
    POSITIONS_STORE,
    TRANSACTIONS_STORE,
    Away,
    Held,
    KafkaFacts,
    MissingTopic,
    NoPosition,
    Topic,
    TopicSettings,
    Unreadable,
    queries,
)
from penstock.preflight.words import DAY_MS, HOUR_MS
from penstock.sinks.kafka import CONTROL_TOPIC, committed, position_in, positions_group
from penstock.sinks.topics import QUIET
from penstock.spec import KafkaSink, PipelineSpec
from penstock.spec.sinks import slots_on_kafka

_REACHED_WITHIN_S = 10.0
_ANSWER_TIMEOUT_S = 5.0
_GROUPS_MAX = 100
"""Consumer groups that are asked what they read, with a client for each."""

_OURS = ("penstock-", "penstock.")
"""How the names of our groups begin: positions of sinks, and how far queries are."""

# What says nothing of whether a topic may be created.
_NO_REFUSAL = (
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_CONTROLLER,
    KafkaError.TOPIC_ALREADY_EXISTS,
)

Settings = Mapping[str, str]


def read_kafka(spec: PipelineSpec, bootstrap: str, now_ms: int) -> KafkaFacts | Away:
    """What can be seen; what the cluster does not tell us is left out or Unreadable."""
    try:
        return _Reading(spec, bootstrap, now_ms).facts()
    except KafkaException as error:
        return Away(bootstrap, _reason(error))


class _Reading:
    def __init__(self, spec: PipelineSpec, bootstrap: str, now_ms: int) -> None:
        self._spec = spec
        self._bootstrap = bootstrap
        self._now_ms = now_ms
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        # All topics: to ask for one that is not there may create it.
        self._seen: ClusterMetadata = self._admin.list_topics(timeout=_REACHED_WITHIN_S)
        self._once = [s for s in spec.sink if isinstance(s, KafkaSink) and s.guarantee == "exactly_once"]

    def facts(self) -> KafkaFacts:
        topics = self._topics()
        broker = _asked(lambda: self._settings(ResourceType.BROKER, str(min(self._seen.brokers))))
        broker = {} if isinstance(broker, Unreadable) else broker
        source = topics[self._spec.source.topic]
        offsets = self._offsets(source) if isinstance(source, Topic) else {}
        groups = self._groups() if self._once else []
        return KafkaFacts(
            where=self._bootstrap,
            brokers=len(self._seen.brokers),
            topics=topics,
            source_id=self._source_id() if isinstance(source, Topic) else "",
            **offsets,
            transaction_timeout_max_ms=_number(broker, "transaction.max.timeout.ms"),
            offsets_retention_ms=_times(_number(broker, "offsets.retention.minutes"), 60_000),
            positions=dict(self._positions()),
            readers=self._readers(groups[:_GROUPS_MAX]),
            groups_left_out=len(groups[_GROUPS_MAX:]),
        )

    def _topics(self) -> dict[str, Topic | MissingTopic]:
        """The topics of the pipeline, and those in which a cluster keeps positions and transactions."""
        source, sinks = self._spec.source, [s.topic for s in self._spec.sink if isinstance(s, KafkaSink)]
        wanted = {source.topic: source.partitions, CONTROL_TOPIC: slots_on_kafka(self._spec.sink)}
        wanted |= dict.fromkeys(sinks, source.partitions)
        if self._spec.grouping is not None:
            wanted[clock_topic(self._spec)] = 1
        missing = {name: count for name, count in wanted.items() if name not in self._seen.topics}
        there = [name for name in (*wanted, POSITIONS_STORE, TRANSACTIONS_STORE) if name in self._seen.topics]
        return {
            **{name: self._topic(self._seen.topics[name]) for name in there},
            **{name: MissingTopic(name, refusal) for name, refusal in self._refusals(missing)},
        }

    def _topic(self, seen: TopicMetadata) -> Topic:
        partitions = list(seen.partitions.values())
        settings = _asked(lambda: self._settings(ResourceType.TOPIC, str(seen.topic)))
        return Topic(
            name=str(seen.topic),
            partitions=len(partitions),
            replicas=min((len(partition.replicas) for partition in partitions), default=0),
            in_sync=min((len(partition.isrs) for partition in partitions), default=0),
            leaderless=sum(1 for partition in partitions if partition.leader < 0),
            settings=settings if isinstance(settings, Unreadable) else _topic_settings(settings),
        )

    def _refusals(self, missing: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """What the cluster would say to the creation of topics; it creates none."""
        if not missing:
            return
        wanted = [NewTopic(name, partitions) for name, partitions in missing.items()]
        asked = self._admin.create_topics(
            wanted, validate_only=True, request_timeout=_ANSWER_TIMEOUT_S, operation_timeout=_ANSWER_TIMEOUT_S
        )
        for name, answer in asked.items():
            try:
                answer.result()
                yield name, ""
            except KafkaException as error:
                yield name, "" if error.args[0].code() in _NO_REFUSAL else _reason(error)

    def _settings(self, kind: ResourceType, name: str) -> Settings:
        [answer] = self._admin.describe_configs(
            [ConfigResource(kind, name)], request_timeout=_ANSWER_TIMEOUT_S
        ).values()
        return {key: str(entry.value) for key, entry in answer.result(2 * _ANSWER_TIMEOUT_S).items()}

    def _source_id(self) -> str:
        try:
            return SourceTopic(self._spec, self._bootstrap).id()
        except SinkError:
            return ""

    def _offsets(self, source: Topic) -> dict[str, dict[int, int]]:
        first = self._listed(source, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = self._listed(source, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        kept_ms = source.settings.retention_ms if isinstance(source.settings, TopicSettings) else -1
        found = {"first": first, "ends": ends}
        for name, ahead_ms in (("gone_in_an_hour", HOUR_MS), ("gone_in_a_day", DAY_MS)):
            oldest_ms = self._now_ms - kept_ms + ahead_ms
            if kept_ms >= 0 and oldest_ms > 0:
                at = self._listed(source, OffsetSpec.for_timestamp(oldest_ms))
                # -1: no record is that young.
                found[name] = {p: offset if offset >= 0 else ends.get(p, 0) for p, offset in at.items()}
        return found

    def _listed(self, source: Topic, wanted: OffsetSpec) -> dict[int, int]:
        places = {TopicPartition(source.name, p): wanted for p in range(source.partitions)}
        asked = self._admin.list_offsets(places, request_timeout=_ANSWER_TIMEOUT_S)
        found = {place.partition: _asked(answer.result) for place, answer in asked.items()}
        return {p: at.offset for p, at in found.items() if not isinstance(at, Unreadable)}

    def _positions(self) -> Iterator[tuple[str, tuple[Held, ...]]]:
        for query, sinks in queries(self._spec).items():
            for sink in sinks:
                if sink in self._once:
                    yield sink.name, self._of_slots(positions_group(query, sink.name), sink.writers)

    def _of_slots(self, group: str, slots: int) -> tuple[Held, ...]:
        if CONTROL_TOPIC not in self._seen.topics:
            return (NoPosition(),) * slots
        there = range(min(slots, len(self._seen.topics[CONTROL_TOPIC].partitions)))
        held = _asked(lambda: self._committed(group, [TopicPartition(CONTROL_TOPIC, slot) for slot in there]))
        if isinstance(held, Unreadable):
            return (held,) * slots
        found = {place.partition: position_in(place) for place in held}
        return tuple(found.get(slot) or NoPosition() for slot in range(slots))

    def _committed(self, group: str, places: list[TopicPartition]) -> list[TopicPartition]:
        asking: dict[str, str | int | bool] = {
            "bootstrap.servers": self._bootstrap,
            "group.id": group,
            # Else the answer waits for the end of a transaction that a dead writer left open.
            "isolation.level": "read_uncommitted",
            **QUIET,
        }
        with closing(Consumer(asking)) as consumer:
            held = committed(consumer, places, _ANSWER_TIMEOUT_S)
        return [place for place in held if place.offset >= 0]

    def _groups(self) -> list[str]:
        """Groups of others; ours hold positions, or tell how far queries are."""
        listed = _asked(self._admin.list_consumer_groups(request_timeout=_ANSWER_TIMEOUT_S).result)
        if isinstance(listed, Unreadable):
            return []
        return sorted(g.group_id for g in listed.valid if not g.group_id.startswith(_OURS))

    def _readers(self, groups: list[str]) -> dict[str, tuple[str, ...]]:
        topics = [sink.topic for sink in self._once if sink.topic in self._seen.topics]
        places = [TopicPartition(t, p) for t in topics for p in self._seen.topics[t].partitions]
        if not places:
            return {}
        reads: dict[str, set[str]] = {topic: set() for topic in topics}
        for group in groups:
            found = _asked(partial(self._committed, group, places))
            for place in () if isinstance(found, Unreadable) else found:
                reads[place.topic].add(group)
        return {topic: tuple(sorted(names)) for topic, names in reads.items()}


def _topic_settings(given: Settings) -> TopicSettings:
    return TopicSettings(
        min_in_sync=_number(given, "min.insync.replicas") or 1,
        unclean_election=given.get("unclean.leader.election.enable") == "true",
        retention_ms=_retention(given, "retention.ms"),
        retention_bytes=_retention(given, "retention.bytes"),
        compacted="compact" in given.get("cleanup.policy", ""),
        stamped_by_producer=given.get("message.timestamp.type") == "CreateTime",
        stamped_ahead_max_ms=_number(given, "message.timestamp.after.max.ms"),
    )


def _retention(given: Settings, name: str) -> int:
    """-1, no limit, also where only compaction deletes."""
    found = _number(given, name)
    return -1 if found is None or given.get("cleanup.policy") == "compact" else found


def _number(given: Settings, name: str) -> int | None:
    text = given.get(name, "")
    return int(text) if text.lstrip("-").isdigit() else None


def _times(number: int | None, unit: int) -> int | None:
    return None if number is None else number * unit


def _asked(ask: Callable[[], Any]) -> Any | Unreadable:
    """An answer, or why there is none: a right that we lack, a coordinator that is being loaded."""
    try:
        return ask()
    except (KafkaException, TimeoutError) as error:
        return Unreadable(_reason(error))


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return str(reason.str()) if hasattr(reason, "str") else first_line(error)
