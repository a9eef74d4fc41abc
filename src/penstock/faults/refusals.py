"""What no pipeline may go on from: it must stop, say so, and name the way out."""

from __future__ import annotations

import shutil

import psycopg
from confluent_kafka.admin import AdminClient

from penstock.faults.kills import kill_before_commit
from penstock.faults.scenario import Unmet
from penstock.faults.trial import Trial
from penstock.sinks.clickhouse import connect
from penstock.sinks.topics import QUIET
from penstock.spec import Sink

_ATTEMPTS = 5
_ANSWER_WITHIN_S = 30

_MISFITS = (
    ("sessions.partitions=8", "sessions.partitions was 4, is 8"),
    ("sessions.key=page", "sessions.key was user_id, is page"),
    ("sessions.measures.top_price=min(price)", "measure top_price was a max of double, is a min of double"),
    # Only Spark knows the type of an expression: the check before a start cannot see this one.
    (
        "sessions.measures.top_price=max(cast(price AS int))",
        "measure top_price was a max of double, is a max of int",
    ),
)
"""Changes of a spec that its state does not fit, and what must be said of each."""


def position_deleted(trial: Trial) -> None:
    """Delete a sink's position: the next start must refuse and name --adopt, and with it go on."""
    trial.await_some_batches()
    _stop_between_batches(trial)
    sink = trial.chance.choice([sink for sink in trial.spec.sink if sink.guarantee == "exactly_once"])
    trial.chose = sink.name
    trial.strike()
    _delete_position(trial, sink)
    trial.sender.program.thaw()
    trial.demand_refusal(f"--adopt {sink.name}")
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
    trial.demand_refusal("or the checkpoint was rolled back", "or the checkpoint was deleted or rolled back")
    shutil.rmtree(checkpoint)
    newer.rename(checkpoint)
    trial.host.start()
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


def spec_changed(trial: Trial) -> None:
    """Change the spec into one that its state does not fit: the start must refuse, and the old spec go on."""
    trial.await_some_batches()
    trial.host.program.kill()
    trial.strike()
    change, reason = trial.chance.choice(_MISFITS)
    trial.chose = change
    trial.demand_refusal(reason, options=["--set", change])
    trial.host.start()
    trial.recover()


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
