"""What is still to be read: in the topic, and for long enough."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.preflight.facts import CheckpointFacts, Facts, KafkaFacts, Offsets, TopicSettings
from penstock.preflight.finding import Finding, error, ok, warning
from penstock.preflight.rules.source import about_source, settings_of_source
from penstock.preflight.words import DAY_MS, HOUR_MS, alter_topic, anew, counted, listed, time_text


def recreated(facts: Facts) -> Iterator[Finding]:
    """The topic is the one that was read before, not another of its name."""
    for checkpoint, kafka in _begun(facts):
        if _is_another(checkpoint, kafka):
            records = sum(end - kafka.first.get(p, 0) for p, end in kafka.ends.items())
            yield error(
                about_source(facts),
                f"was deleted and created anew since {checkpoint.query} read it; it has"
                f" {counted(records, 'record')}",
                why=f"The offsets up to which {checkpoint.query} has read say nothing about this topic."
                f" {_left_unread(checkpoint)}",
                fix=_read_anew(facts),
            )


def beyond_the_end(facts: Facts) -> Iterator[Finding]:
    """No checkpoint has read more than the topic ever had."""
    for checkpoint, kafka in _same(facts):
        ends = _ends(facts, kafka)
        beyond = {p: at for p, at in sorted(checkpoint.next.items()) if at > ends.get(p, at)}
        if beyond:
            where = listed(f"{p} (next {at:,}, end {ends[p]:,})" for p, at in beyond.items())
            yield error(
                about_source(facts),
                f"{checkpoint.query} has read beyond the end of partition {where}",
                why="The topic was recreated, or lost what it had acknowledged: the records there now"
                " are others, and those before the old offsets would be skipped.",
                fix=_read_anew(facts),
            )


def gone(facts: Facts) -> Iterator[Finding]:
    """No record was deleted before it was read."""
    for checkpoint, kafka in _same(facts):
        counts = _records(checkpoint, kafka.first, kafka)
        if not counts:
            continue
        spans = ((p, checkpoint.next.get(p, 0), kafka.first[p] - 1) for p in sorted(counts))
        where = listed(f"{p} (offsets {at:,} to {end:,})" for p, at, end in spans)
        what = (
            f"{counted(sum(counts.values()), 'record')} that {checkpoint.query} has not read were deleted,"
            f" of partition {where}"
        )
        keep = f"Have records kept for longer: {_alter(facts, 'retention.ms=MS')}"
        if facts.start.accept_loss:
            yield warning(about_source(facts), what, why="They are given up; an audit names them.", fix=keep)
        else:
            yield error(
                about_source(facts),
                what,
                why="Their retention was over, or somebody deleted them. What they told of is lost; all else"
                " can go on.",
                fix=f"Go on without them: penstock run SPEC --accept-loss. {keep}",
            )


def age(facts: Facts) -> Iterator[Finding]:
    """No record will be deleted for its age before it is read."""
    settings = settings_of_source(facts)
    if not isinstance(settings, TopicSettings) or settings.retention_ms < 0:
        return
    for checkpoint, kafka in _same(facts):
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
    for checkpoint, kafka in _same(facts):
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
    for checkpoint, kafka in _same(facts):
        unread = _total(checkpoint, kafka.ends, kafka)
        takes = _reading_time(unread, facts)
        yield ok(about_source(facts), f"{counted(unread, 'record')} for {checkpoint.query} to read{takes}")


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


def _same(facts: Facts) -> Iterator[tuple[CheckpointFacts, KafkaFacts]]:
    """Those whose offsets are of the topic that is there."""
    for checkpoint, kafka in _begun(facts):
        if not _is_another(checkpoint, kafka):
            yield checkpoint, kafka


def _is_another(checkpoint: CheckpointFacts, kafka: KafkaFacts) -> bool:
    """Whether the topic is not the one that the checkpoint has read."""
    return bool(checkpoint.topic_id and kafka.source_id and checkpoint.topic_id != kafka.source_id)


def _left_unread(checkpoint: CheckpointFacts) -> str:
    places = listed(f"{p} from {at:,}" for p, at in sorted(checkpoint.next.items()))
    return f"What the old one held behind them is gone, unread if there was any: partition {places}."


def _read_anew(facts: Facts) -> str:
    return (
        f"Read the new one, from its beginning and with a state of its own: {anew(facts.spec.name)}. Or"
        " restore the topic."
    )


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
