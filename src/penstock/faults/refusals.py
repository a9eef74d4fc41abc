"""What no pipeline may go on from: it must stop, say so, and name the way out."""

from __future__ import annotations

import shutil
import time

import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from penstock.faults.kills import kill_before_commit
from penstock.faults.program import until
from penstock.faults.scenario import Unmet
from penstock.faults.trial import STARTED_WITHIN_S, Trial
from penstock.sinks.clickhouse import connect
from penstock.sinks.kafka import QUIET, ensure_source_topic
from penstock.spec import Sink

_ATTEMPTS = 5
_ANSWER_WITHIN_S = 30


def position_deleted(trial: Trial) -> None:
    """Delete a sink's position: the next start must refuse and name --adopt, and with it go on."""
    trial.await_some_batches()
    _stop_between_batches(trial)
    sink = trial.chance.choice([sink for sink in trial.spec.sink if sink.guarantee == "exactly_once"])
    trial.strike()
    _delete_position(trial, sink)
    trial.sender.program.thaw()
    trial.host.start()
    trial.await_refusal(trial.host, f"--adopt {sink.name}")
    trial.host.start("--adopt", sink.name)
    trial.recover()


def checkpoint_rolled_back(trial: Trial) -> None:
    """Put an older copy of the checkpoint in place: the start must refuse, and with the right one go on."""
    checkpoint, aside = trial.host.checkpoint, trial.root / "aside"
    older, newer = aside / "older", aside / "newer"
    trial.host.program.freeze()
    shutil.copytree(checkpoint, older)
    trial.host.program.thaw()
    trial.await_batches(trial.chance.randint(4, 8))
    trial.host.program.kill()
    trial.strike()
    checkpoint.rename(newer)
    older.rename(checkpoint)
    trial.host.start()
    trial.await_refusal(trial.host, "the checkpoint was rolled back")
    shutil.rmtree(checkpoint)
    newer.rename(checkpoint)
    trial.recover()


def replay_differs(trial: Trial) -> None:
    """Change the spec while a batch is half done: its replay must be refused, and the old spec go on."""
    for _ in range(_ATTEMPTS):
        trial.await_some_batches()
        if kill_before_commit(trial):
            break
        trial.recover()
    else:
        raise Unmet(f"Spark committed the batch before the kill, {_ATTEMPTS} times")
    trial.host.start("--set", "cleanse.where.known_type=event_type = 'view'")
    trial.await_refusal(trial.host, "came again with other content")
    trial.host.start()
    trial.recover()


def topic_recreated(trial: Trial) -> None:
    """Delete the source topic and create it anew, with fewer records or more: the pipeline must stop."""
    trial.await_some_batches()
    trial.sender.stop()
    trial.sender.close_sessions()
    trial.await_drained()
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


def _stop_between_batches(trial: Trial) -> None:
    """Stop the pipeline when all batches are done, and the producer is frozen."""
    trial.sender.program.freeze()
    for _ in range(_ATTEMPTS):
        trial.await_drained()
        trial.host.program.stop()
        if trial.host.is_committed(trial.host.last_planned()):
            return
        trial.host.start()
    raise Unmet("the pipeline could not be stopped between two batches")


def _delete_position(trial: Trial, sink: Sink) -> None:
    match sink.kind:
        case "kafka":
            admin = AdminClient({"bootstrap.servers": trial.at.kafka, **QUIET})
            [gone] = admin.delete_consumer_groups([f"penstock-{trial.spec.name}-{sink.name}"]).values()
            gone.result(_ANSWER_WITHIN_S)
        case "clickhouse":
            client = connect(trial.at.clickhouse)
            client.command(
                f"ALTER TABLE penstock_positions DELETE WHERE sink = '{sink.name}' "
                "SETTINGS mutations_sync = 1"
            )
            client.close()
        case "postgres":
            with psycopg.connect(trial.at.postgres) as connection:
                connection.execute("DELETE FROM penstock_positions WHERE sink = %s", [sink.name])


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
