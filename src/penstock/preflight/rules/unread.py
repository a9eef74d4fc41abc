"""What is still to be read: in the topic, and for long enough."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.preflight.facts import CheckpointFacts, Facts, KafkaFacts, Offsets, TopicSettings
from penstock.preflight.finding import Finding, error, ok, warning
from penstock.preflight.rules.source import about_source, settings_of_source
from penstock.preflight.words import DAY_MS, HOUR_MS, alter_topic, counted, listed, time_text

_NEW_NAME = "Give the pipeline another name: it then reads what is there, with a state of its own."


def beyond_the_end(facts: Facts) -> Iterator[Finding]:
    """No checkpoint has read more than the topic ever had."""
    for checkpoint, kafka in _begun(facts):
        ends = _ends(facts, kafka)
        beyond = {p: at for p, at in sorted(checkpoint.next.items()) if at > ends.get(p, at)}
        if beyond:
            where = listed(f"{p} (next {at:,}, end {ends[p]:,})" for p, at in beyond.items())
            yield error(
                about_source(facts),
                f"{checkpoint.query} has read beyond the end of partition {where}",
                why="The topic was recreated, or lost what it had acknowledged: the records there now"
                " are others, and those before the old offsets would be skipped.",
                fix=f"{_NEW_NAME} Or restore the topic.",
            )


def gone(facts: Facts) -> Iterator[Finding]:
    """No record was deleted before it was read."""
    for checkpoint, kafka in _begun(facts):
        counts = _records(checkpoint, kafka.first, kafka)
        if counts:
            where = listed(f"{p} ({count:,})" for p, count in sorted(counts.items()))
            yield error(
                about_source(facts),
                f"{counted(sum(counts.values()), 'record')} that {checkpoint.query} has not read"
                f" were deleted, of partition {where}",
                why="Their retention was over. The query would stop rather than pass over them.",
                fix=f"{_NEW_NAME} And have records kept for longer: {_alter(facts, 'retention.ms=MS')}",
            )


def age(facts: Facts) -> Iterator[Finding]:
    """No record will be deleted for its age before it is read."""
    settings = settings_of_source(facts)
    if not isinstance(settings, TopicSettings) or settings.retention_ms < 0:
        return
    for checkpoint, kafka in _begun(facts):
        soon = _total(checkpoint, kafka.gone_in_an_hour, kafka)
        today = _total(checkpoint, kafka.gone_in_a_day, kafka)
        if soon or today:
            unread = f"{counted(soon or today, 'record')} that {checkpoint.query} has not read may be deleted"
            yield _expiring(
                facts,
                f"{unread} within {'the hour' if soon else 'a day'}",
                why=f"The topic keeps records for {time_text(settings.retention_ms)}.",
                fix=f"Start now: the oldest are read first{_reading_time(soon or today, facts)}. And have"
                f" records kept for longer: {_alter(facts, 'retention.ms=MS')}",
                within_ms=HOUR_MS if soon else DAY_MS,
            )


def room(facts: Facts) -> Iterator[Finding]:
    """No record will be deleted for want of room before it is read, by how fast others have come in."""
    settings = settings_of_source(facts)
    if not isinstance(settings, TopicSettings) or settings.retention_bytes < 0:
        return
    for checkpoint, kafka in _begun(facts):
        left_ms = min(_until_deleted_ms(checkpoint, kafka, facts), default=None)
        if left_ms is not None and left_ms <= DAY_MS:
            yield _expiring(
                facts,
                f"records that {checkpoint.query} has not read may be deleted in about {time_text(left_ms)}",
                why=f"A partition keeps {settings.retention_bytes:,} bytes and deletes already; others come"
                " in as fast as the journal last saw.",
                fix=f"Start now, and give the topic more room: {_alter(facts, 'retention.bytes=BYTES')}",
                within_ms=left_ms,
            )


def lag(facts: Facts) -> Iterator[Finding]:
    """How much there is to read, and how long that takes."""
    for checkpoint, kafka in _begun(facts):
        behind = _total(checkpoint, kafka.ends, kafka)
        takes = _reading_time(behind, facts)
        yield ok(about_source(facts), f"{counted(behind, 'record')} for {checkpoint.query} to read{takes}")


def _expiring(facts: Facts, what: str, *, why: str, fix: str, within_ms: float) -> Finding:
    if within_ms > HOUR_MS:
        return warning(about_source(facts), what, why=why, fix=fix)
    return error(about_source(facts), what, why=why, fix=fix, start_helps=True)


def _begun(facts: Facts) -> Iterator[tuple[CheckpointFacts, KafkaFacts]]:
    """The checkpoints that have a place in the topic."""
    if isinstance(facts.kafka, KafkaFacts) and facts.kafka.ends:
        for checkpoint in facts.checkpoints:
            if checkpoint.next:
                yield checkpoint, facts.kafka


def _ends(facts: Facts, kafka: KafkaFacts) -> Offsets:
    """Where partitions end: at 0 if they are no longer there, nowhere if nobody could say."""
    topic = kafka.topic(facts.spec.source.topic)
    there = topic.partitions if topic else 0
    lost = {p: 0 for checkpoint in facts.checkpoints for p in checkpoint.next if p >= there}
    return {**lost, **kafka.ends}


def _records(checkpoint: CheckpointFacts, ends: Offsets, kafka: KafkaFacts) -> dict[int, int]:
    """How many unread records lie before offsets, by partition; where there are any."""
    # A partition that the checkpoint does not know is read from its beginning.
    counts = {p: end - checkpoint.next.get(p, kafka.first.get(p, 0)) for p, end in ends.items()}
    return {partition: count for partition, count in counts.items() if count > 0}


def _total(checkpoint: CheckpointFacts, ends: Offsets, kafka: KafkaFacts) -> int:
    return sum(_records(checkpoint, ends, kafka).values())


def _until_deleted_ms(checkpoint: CheckpointFacts, kafka: KafkaFacts, facts: Facts) -> Iterator[float]:
    for partition, at in checkpoint.next.items():
        first, end = kafka.first.get(partition, 0), kafka.ends.get(partition, 0)
        added_eps = facts.journal.added_eps.get(partition, 0.0)
        # A first offset above 0 says that deleting has begun: each record that comes in costs an old one.
        if added_eps > 0 and 0 < first <= at < end:
            yield (at - first) / added_eps * 1000


def _reading_time(records: int, facts: Facts) -> str:
    capacity_eps = facts.journal.capacity_eps
    if not records or not capacity_eps:
        return ""
    return f", in about {time_text(records / capacity_eps * 1000)} at the {capacity_eps:,.0f}/s last seen"


def _alter(facts: Facts, setting: str) -> str:
    return alter_topic(facts.kafka.where, facts.spec.source.topic, setting)
