"""The topic that is read: there, and as described."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.preflight.facts import Facts, KafkaFacts, MissingTopic, Topic, TopicSettings, Unreadable
from penstock.preflight.finding import Finding, error, note, ok, warning
from penstock.preflight.words import DAY_MS, alter_topic, counted, time_text


def topic(facts: Facts) -> Iterator[Finding]:
    """It is there, with the partitions that the spec says."""
    if not isinstance(facts.kafka, KafkaFacts):
        return
    source, about = facts.spec.source, about_source(facts)
    found = facts.kafka.topics[source.topic]
    if isinstance(found, MissingTopic):
        yield _missing(facts, found.refusal)
    elif found.partitions != source.partitions:
        yield error(
            about,
            f"has {counted(found.partitions, 'partition')}, the spec says {source.partitions}",
            why="Realtime queries would leave partitions unread, and lag is counted by the spec.",
            fix=f"Set [source] partitions = {found.partitions}, or recreate the topic.",
        )
    else:
        records = sum(end - facts.kafka.first.get(p, 0) for p, end in facts.kafka.ends.items())
        yield ok(about, f"{counted(found.partitions, 'partition')}, {counted(records, 'record')}")


def _missing(facts: Facts, refusal: str) -> Finding:
    about = about_source(facts)
    if not facts.start.create_topics:
        return error(
            about,
            "is not there",
            why="There is nothing to read.",
            fix="Create it with: penstock run SPEC --create-topics; or correct [source] topic.",
        )
    if refusal:
        return error(
            about,
            f"is not there, and the cluster will not create it: {refusal}",
            why="There is nothing to read.",
            fix="Create it by other means, or correct [source] topic.",
        )
    return ok(about, "is not there; the start creates it")


def timestamps(facts: Facts) -> Iterator[Finding]:
    """Event times are judged against the stamp of the record, so somebody is trusted with that."""
    settings = settings_of_source(facts)
    if isinstance(settings, Unreadable):
        yield note(
            about_source(facts),
            f"its settings cannot be read: {settings.why}",
            why="Nothing is known of its retention, its replication and its stamps.",
        )
    if not isinstance(settings, TopicSettings) or not settings.stamped_by_producer:
        return
    cleanse = facts.spec.cleanse
    bounds = f"cleanse.future = {cleanse.future}"
    bounds += f" and cleanse.past = {cleanse.past} are" if cleanse.past else " is"
    ahead_ms = settings.stamped_ahead_max_ms
    limit = f" (up to {time_text(ahead_ms)} of it)" if ahead_ms is not None and ahead_ms < DAY_MS else ""
    yield warning(
        about_source(facts),
        "producers stamp its records (message.timestamp.type=CreateTime)",
        why=f"{bounds} judged against the stamp. A producer whose clock is ahead{limit} stamps its events"
        " ahead too, so none is refused, and one of them can close everything that is open.",
        fix=_alter_source(facts, "message.timestamp.type=LogAppendTime"),
    )


def compaction(facts: Facts) -> Iterator[Finding]:
    settings = settings_of_source(facts)
    if isinstance(settings, TopicSettings) and settings.compacted:
        yield warning(
            about_source(facts),
            "is compacted",
            why="Of the records of one key all but the newest may be gone before they are read.",
            fix=_alter_source(facts, "cleanup.policy=delete"),
        )


def about_source(facts: Facts) -> str:
    return f"source {facts.spec.source.topic}"


def settings_of_source(facts: Facts) -> TopicSettings | Unreadable | None:
    """None where there is no topic."""
    found = facts.kafka.topics[facts.spec.source.topic] if isinstance(facts.kafka, KafkaFacts) else None
    return found.settings if isinstance(found, Topic) else None


def _alter_source(facts: Facts, setting: str) -> str:
    return alter_topic(facts.kafka.where, facts.spec.source.topic, setting)
