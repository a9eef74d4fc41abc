"""Parts killed with SIGKILL while the pipeline runs."""

from __future__ import annotations

import json
import time

from penstock.faults.scenario import Unmet
from penstock.faults.trial import Trial

_BATCH_WITHIN_S = 60.0


def driver_before_commit(trial: Trial) -> None:
    """Kill Python and JVM when all sinks hold a batch, and before Spark notes that it is done."""
    trial.await_some_batches()
    kill_before_commit(trial)
    trial.recover()


def kill_before_commit(trial: Trial) -> bool:
    """Kill the pipeline behind the receipt of a batch; whether it was before Spark's commit of it."""
    place = trial.host.watch.instant_of_receipt(_BATCH_WITHIN_S)
    trial.strike()
    trial.host.program.kill()
    if place is None:
        raise Unmet(f"no batch within {_BATCH_WITHIN_S:.0f} s:\n{trial.host.program.last_words()}")
    was_before = not trial.host.is_committed(place.batch)
    trial.hit(was_before)
    return was_before


def driver_anywhere(trial: Trial) -> None:
    """Kill Python and JVM at any moment of a batch."""
    trial.await_some_batches()
    trial.host.await_planned(_BATCH_WITHIN_S)
    # A batch takes a little longer than its receipt says.
    time.sleep(trial.chance.uniform(0, 1.2) * trial.host.watch.summary.last_batch_ms / 1000)
    trial.strike()
    trial.host.program.kill()
    trial.hit(not trial.host.is_committed(trial.host.last_planned()))
    trial.recover()


def jvm(trial: Trial) -> None:
    """Kill Spark's JVM alone: the pipeline must end, and go on when it is started again."""
    trial.await_some_batches()
    found = trial.host.program.jvm()
    if found is None:
        raise Unmet("the pipeline has no JVM")
    trial.strike()
    found.kill()
    trial.recover()


def executor(trial: Trial) -> None:
    """Kill one of two JVMs in which tasks run, at any moment of a batch: others take its tasks over."""
    trial.await_some_batches()
    trial.host.await_planned(_BATCH_WITHIN_S)
    time.sleep(trial.chance.random() * trial.host.watch.summary.last_batch_ms / 1000)
    found = trial.host.program.executors()
    if not found:
        raise Unmet("the pipeline has no executor")
    trial.strike()
    trial.chance.choice(found).kill()
    trial.hit(not trial.host.is_committed(trial.host.last_planned()))
    trial.recover()


def producer(trial: Trial) -> None:
    """Kill the producer, and start another."""
    trial.await_some_batches()
    trial.strike()
    trial.sender.program.kill()
    time.sleep(trial.chance.uniform(0, 2))
    trial.recover()


def clickhouse(trial: Trial) -> None:
    """Kill ClickHouse while batches are written to it."""
    _service(trial, "clickhouse")


def postgres(trial: Trial) -> None:
    """Kill PostgreSQL while batches are written to it."""
    _service(trial, "postgres")


def only_broker(trial: Trial) -> None:
    """Kill the only broker when a batch has just been committed, and start it again."""
    trial.await_some_batches()
    trial.await_batches(1)
    trial.strike()
    trial.kill_service("kafka-1")
    trial.recover()


def broker(trial: Trial) -> None:
    """Kill one of three brokers, and start it again some seconds later."""
    _service(trial, f"kafka-{trial.chance.randint(1, 3)}", away_s=trial.chance.uniform(0, 8))


def controller(trial: Trial) -> None:
    """Kill the broker that is the active controller, and start it again some seconds later."""
    _service(trial, f"kafka-{_active_controller(trial)}", away_s=trial.chance.uniform(0, 8))


def below_minimum(trial: Trial) -> None:
    """Kill two of three brokers, fewer than a write needs, and start them again some seconds later."""
    trial.await_some_batches()
    trial.strike()
    for number in trial.chance.sample([1, 2, 3], 2):
        trial.kill_service(f"kafka-{number}")
    time.sleep(trial.chance.uniform(5, 20))
    if taken := [
        batch for batch in trial.host.watch.batches() if batch.receipt.started_at_ms > trial.struck_ms
    ]:
        raise Unmet(f"batch {taken[0].receipt.batch} was written with one broker of three")
    trial.recover()


def _service(trial: Trial, name: str, away_s: float = 0.0) -> None:
    trial.await_some_batches()
    trial.host.await_planned(_BATCH_WITHIN_S)
    time.sleep(trial.chance.random() * trial.host.watch.summary.last_batch_ms / 1000)
    trial.strike()
    trial.kill_service(name)
    time.sleep(away_s)
    trial.recover()


def _active_controller(trial: Trial) -> int:
    """The leader of the controllers' quorum, as the nodes' own files tell; a client is told any broker."""
    states = [
        json.loads(file.read_text())
        for file in (trial.root / "services" / "kafka").glob("*/data/__cluster_metadata-0/quorum-state")
    ]
    newest = max(states, key=lambda state: (int(state["leaderEpoch"]), int(state["leaderId"])))
    return int(newest["leaderId"])
