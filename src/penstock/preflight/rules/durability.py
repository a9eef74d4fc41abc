"""Topics that keep what they have acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.engine.clock import clock_topic
from penstock.preflight.facts import (
    POSITIONS_STORE,
    TRANSACTIONS_STORE,
    Away,
    Facts,
    KafkaFacts,
    MissingTopic,
    Topic,
    TopicSettings,
)
from penstock.preflight.finding import Finding, error, ok, warning
from penstock.preflight.words import alter_topic, counted
from penstock.sinks.kafka import CONTROL_TOPIC
from penstock.spec import KafkaSink


def reachable(facts: Facts) -> Iterator[Finding]:
    if isinstance(facts.kafka, Away):
        yield error(
            "kafka",
            f"{facts.kafka.where} does not answer: {facts.kafka.why}",
            why="There is nothing to read, and nothing is known of its topics.",
            fix="Start the embedded one with: penstock up; or name another in [services] kafka.",
        )
    else:
        yield ok("kafka", f"{facts.kafka.where}: {counted(facts.kafka.brokers, 'broker')}")


def sink_topics(facts: Facts) -> Iterator[Finding]:
    """The topics that are written are there, or can be made."""
    if not isinstance(facts.kafka, KafkaFacts):
        return
    names = {sink.topic: f"sink {sink.name}" for sink in _kafka_sinks(facts)}
    if _transactional(facts):
        names[CONTROL_TOPIC] = "positions"
    if facts.spec.grouping is not None:
        names[clock_topic(facts.spec)] = "clock"
    for name, about in names.items():
        match facts.kafka.topics[name]:
            case MissingTopic(_, refusal) if refusal:
                yield error(
                    about,
                    f"topic {name} is not there, and the cluster will not create it: {refusal}",
                    why="The first batch would fail.",
                    fix="Create it by other means, or name another.",
                )
            case MissingTopic():
                yield ok(about, f"topic {name} is not there; the start creates it")
            case Topic(partitions=partitions):
                yield ok(about, f"topic {name}: {counted(partitions, 'partition')}")


def replication(facts: Facts) -> Iterator[Finding]:
    """No topic lives on one broker where there are several."""
    for about, topic, kafka in _relied_on(facts):
        if topic.replicas == 1 and kafka.brokers > 1:
            yield warning(
                about,
                f"topic {topic.name} has one replica on a cluster of {kafka.brokers} brokers",
                why="What it holds is lost with one disk, and out of reach while one broker is down.",
                fix=f"kafka-reassign-partitions.sh --bootstrap-server {kafka.where}, with more replicas.",
            )


def in_sync(facts: Facts) -> Iterator[Finding]:
    """What is acknowledged is on more than one broker."""
    for about, topic, kafka in _relied_on(facts):
        if topic.leaderless:
            yield warning(
                about,
                f"{counted(topic.leaderless, 'partition')} of topic {topic.name} without a leader",
                why="Nothing of it can be read or written at the moment; batches fail until that has passed.",
                fix="Bring the brokers that hold it back.",
            )
        if not isinstance(topic.settings, TopicSettings):
            continue
        least, fewest = topic.settings.min_in_sync, f"min.insync.replicas = {topic.settings.min_in_sync}"
        if least > topic.replicas:
            yield error(
                about,
                f"topic {topic.name} wants {fewest} and has {counted(topic.replicas, 'replica')}",
                why="Nothing can be written to it, ever.",
                fix=alter_topic(kafka.where, topic.name, f"min.insync.replicas={topic.replicas}"),
            )
        elif topic.in_sync < least and not topic.leaderless:
            yield warning(
                about,
                f"topic {topic.name} has {counted(topic.in_sync, 'replica')} in sync, and {fewest}",
                why="Nothing can be written to it at the moment; batches fail until that has passed.",
                fix="Bring the brokers that hold the others back.",
            )
        elif least == 1 and topic.replicas > 1 and facts.exactly_once:
            yield warning(
                about,
                f"topic {topic.name} has {topic.replicas} replicas, and {fewest}",
                why="A record counts as kept when one broker has it: what it alone had is lost with it,"
                " though it was acknowledged, and no exactly_once can tell.",
                fix=alter_topic(kafka.where, topic.name, "min.insync.replicas=2"),
            )


def elections(facts: Facts) -> Iterator[Finding]:
    """No broker that lags may become a leader."""
    for about, topic, kafka in _relied_on(facts):
        settings = topic.settings
        if not isinstance(settings, TopicSettings) or not settings.unclean_election:
            continue
        if facts.exactly_once and topic.replicas > 1:
            yield error(
                about,
                f"topic {topic.name} has unclean.leader.election.enable = true",
                why="A broker that lags may become its leader, and throws away what was acknowledged:"
                " records, results and positions go back in time, and exactly_once does not hold.",
                fix=alter_topic(kafka.where, topic.name, "unclean.leader.election.enable=false"),
            )


def kept_results(facts: Facts) -> Iterator[Finding]:
    """Results that are told apart by more than their record key are not compacted away."""
    if not isinstance(facts.kafka, KafkaFacts):
        return
    for sink in _kafka_sinks(facts):
        topic = facts.kafka.topic(sink.topic)
        if topic is None or "events" in sink.rows or not isinstance(topic.settings, TopicSettings):
            continue
        if topic.settings.compacted:
            key = facts.spec.grouping.key if facts.spec.grouping else facts.spec.source.key
            yield warning(
                f"sink {sink.name}",
                f"topic {topic.name} is compacted",
                why=f"Its records are keyed by {key}: of each only the newest would stay.",
                fix=alter_topic(facts.kafka.where, topic.name, "cleanup.policy=delete"),
            )


def _kafka_sinks(facts: Facts) -> list[KafkaSink]:
    return [sink for sink in facts.spec.sink if isinstance(sink, KafkaSink)]


def _transactional(facts: Facts) -> bool:
    return any(isinstance(sink, KafkaSink) for sink in facts.exactly_once)


def _relied_on(facts: Facts) -> Iterator[tuple[str, Topic, KafkaFacts]]:
    """The topics that are there and that a result rests on, each with what to call it."""
    if not isinstance(facts.kafka, KafkaFacts):
        return
    named = {facts.spec.source.topic: "source"}
    named |= {sink.topic: f"sink {sink.name}" for sink in _kafka_sinks(facts)}
    if _transactional(facts):
        named |= dict.fromkeys((CONTROL_TOPIC, POSITIONS_STORE, TRANSACTIONS_STORE), "positions")
    for name, about in named.items():
        if (topic := facts.kafka.topic(name)) is not None:
            yield about, topic, facts.kafka
