"""What happens to a source's topic behind the pipeline's back."""

from __future__ import annotations

import time

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.engine.checkpoint import last_offsets
from penstock.faults.program import until
from penstock.faults.scenario import Unmet
from penstock.faults.trial import STARTED_WITHIN_S, Trial
from penstock.sinks.topics import QUIET, ensure_source_topic

_ANSWER_WITHIN_S = 30
_UNREAD = 4_000
_DELETED_OF = 3
"""Partitions that lose records."""


def topic_recreated(trial: Trial) -> None:
    """Delete the source topic and create it anew, with fewer records or more: the pipeline must stop."""
    _finish_all(trial)
    trial.strike()
    goes_on = trial.chance.random() < 0.5
    if not goes_on:
        trial.host.program.stop()
    before = _recreate(trial)
    # More records than before hide the new topic behind offsets that look right.
    _fill(trial, before * 2 if trial.chance.random() < 0.5 else before // 2)
    if not goes_on:
        trial.host.start()
    trial.await_refusal(trial.host, "topic", "offset")


def records_gone(trial: Trial) -> None:
    """Delete records that a stopped pipeline has not read: the start must refuse and say how many."""
    _finish_all(trial)
    trial.host.program.stop()
    _fill(trial, _UNREAD)
    trial.strike()
    gone = _delete_unread(trial)
    trial.host.start()
    trial.await_refusal(
        trial.host, f"{sum(gone.values()):,} records that {trial.spec.name} has not read were deleted"
    )
    for partition in gone:
        trial.check_refusal(trial.host.program, 1, [f" {partition} ("])


def records_gone_running(trial: Trial) -> None:
    """Delete records that a frozen driver has not read, and thaw it: it must stop, and not pass over them."""
    _finish_all(trial)
    trial.host.program.freeze()
    _fill(trial, _UNREAD)
    trial.strike()
    _delete_unread(trial)
    trial.host.program.thaw()
    trial.await_refusal(trial.host, "data", "offset", "deleted")


def _finish_all(trial: Trial) -> None:
    """Let all that producers sent come out, so that whatever else reaches a sink is too much."""
    trial.await_some_batches()
    trial.sender.stop()
    trial.sender.close_sessions()
    trial.await_drained()


def _delete_unread(trial: Trial) -> dict[int, int]:
    """Delete a part of what is unread from some partitions; how many records each of them lost."""
    source = trial.spec.source
    read = last_offsets(trial.host.checkpoint, source.topic)
    unread = _UNREAD // source.partitions
    chosen = trial.chance.sample(sorted(read), _DELETED_OF)
    gone = {partition: trial.chance.randint(1, unread) for partition in sorted(chosen)}
    before = [
        TopicPartition(source.topic, partition, read[partition] + count) for partition, count in gone.items()
    ]
    admin = AdminClient({"bootstrap.servers": trial.at.kafka, **QUIET})
    for outcome in admin.delete_records(before).values():
        outcome.result(_ANSWER_WITHIN_S)
    return gone


def _recreate(trial: Trial) -> int:
    """Make the source topic anew; how many records the old one held."""
    source = trial.spec.source
    lag = trial.host.watch.summary.lag
    held = sum(lag.ends.values()) if lag else 0
    admin = AdminClient({"bootstrap.servers": trial.at.kafka, **QUIET})
    admin.delete_topics([source.topic], operation_timeout=_ANSWER_WITHIN_S)[source.topic].result()
    deadline_s = time.monotonic() + STARTED_WITHIN_S
    while source.topic in admin.list_topics(timeout=_ANSWER_WITHIN_S).topics:
        if not until(deadline_s):
            raise Unmet(f"topic {source.topic} is still there")
    ensure_source_topic(trial.at.kafka, source.topic, source.partitions)
    return held


def _fill(trial: Trial, records: int) -> None:
    """Records that no ledger knows: nothing of them may reach a sink."""
    source = trial.spec.source
    producer = Producer({"bootstrap.servers": trial.at.kafka, **QUIET})
    for number in range(records):
        producer.produce(source.topic, b"{}", partition=number % source.partitions)
        if number % 10_000 == 0:
            producer.poll(0.1)
    producer.flush(_ANSWER_WITHIN_S)
