"""Two pipelines that both take themselves for the one."""

from __future__ import annotations

import time

from penstock.engine.pipeline import READY
from penstock.faults.host import Host
from penstock.faults.program import Program, until
from penstock.faults.scenario import Unmet
from penstock.faults.trial import STARTED_WITHIN_S, Trial

FENCED = ("a newer writer has taken over", "another writer is ahead")
_OVERTAKEN = (*FENCED, "another driver has batch")
_IN_USE = ("another process runs on",)
_TRANSACTION_WITHIN_S = 60.0
_SUCCESSOR_WITHIN_S = 60.0
"""Less than a transaction may be open, or the broker ends the zombie's before the zombie can."""
_ENDS_WITHIN_S = 120.0


def second_on_checkpoint(trial: Trial) -> None:
    """Start a second driver on the same checkpoint: it must refuse, and the first go on."""
    trial.await_some_batches()
    first = trial.host.program
    # Refused by the check before a start, and behind it by the lock itself.
    for patches in ((), ("unchecked",)):
        second = trial.host.start(patches=patches)
        trial.host.goes_on_with(first)
        try:
            _await_refused(trial, second)
        finally:
            second.kill()
    trial.strike()
    trial.recover()


def _await_refused(trial: Trial, second: Program) -> None:
    deadline_s = time.monotonic() + STARTED_WITHIN_S
    while second.status() is None:
        if READY in second.said() or not until(deadline_s):
            raise Unmet("a second driver runs on a checkpoint that is in use")
    trial.check_refusal(second, second.status(), _IN_USE)


def second_on_copy(trial: Trial) -> None:
    """Start a second driver on a copy of the checkpoint: one of them must stop, and nothing be doubled."""
    trial.await_some_batches()
    first = trial.host
    second = _copied(trial)
    trial.strike()
    # The check before a start would see that the first one is ahead, and there would be no race.
    second.start(patches=["unchecked"])
    _one_stops(trial, first, second)


def second_on_idle_copy(trial: Trial) -> None:
    """Start a second driver on a copy while nothing comes, so that both are ready for the same batch."""
    trial.await_some_batches()
    trial.sender.program.freeze()
    trial.await_drained()
    first = trial.host
    second = _copied(trial)
    second.start()
    trial.await_note(second, READY)
    trial.strike()
    trial.sender.program.thaw()
    _one_stops(trial, first, second)


def zombie(trial: Trial) -> None:
    """Freeze a driver inside a transaction, start a successor elsewhere, thaw: it must write nothing more."""
    trial.await_some_batches()
    frozen = trial.host
    inside = trial.chance.random() < 0.75 and frozen.await_transaction(_TRANSACTION_WITHIN_S)
    time.sleep(trial.chance.uniform(0, 0.2))
    frozen.program.freeze()
    trial.strike()
    trial.hit(inside)
    trial.host = successor = trial.another_host()
    successor.start()
    try:
        trial.await_note(successor, READY, _SUCCESSOR_WITHIN_S)
    except Unmet:
        # The machine is too busy: nobody has taken over yet. It is two drivers, one of them slow to start.
        frozen.program.thaw()
        _one_stops(trial, frozen, successor)
        return
    frozen.watch.batches()
    frozen.program.thaw()
    trial.check_refusal(frozen.program, frozen.program.await_end(_ENDS_WITHIN_S), FENCED)
    # Frozen elsewhere, it may have had its acknowledgement on the way.
    if inside and (late := frozen.watch.batches()):
        raise Unmet(f"a driver that was frozen inside batch {late[0].receipt.batch} wrote it afterwards")
    trial.recover()


def _copied(trial: Trial) -> Host:
    """Another host, with a copy that was made between two instructions of the first."""
    trial.host.program.freeze()
    second = trial.another_host()
    trial.host.program.thaw()
    return second


def _one_stops(trial: Trial, first: Host, second: Host) -> None:
    """Wait until one of the two is fenced; the other one goes on, or the first again when both were."""
    deadline_s = time.monotonic() + STARTED_WITHIN_S
    while first.program.status() is None and second.program.status() is None:
        if not until(deadline_s):
            raise Unmet("two pipelines run side by side, and neither was fenced")
    other = second if first.program.status() is not None else first
    stopped_ms = time.time_ns() // 1_000_000
    while other.program.status() is None and not _has_batch_since(other, stopped_ms):
        if not until(deadline_s):
            raise Unmet("one pipeline was fenced, and the other one does nothing")
    for host in (first, second):
        if host.program.status() is not None:
            trial.check_refusal(host.program, host.program.status(), _OVERTAKEN)
    both = other.program.status() is not None
    trial.hit(not both)
    trial.host = first if both else other
    if both:
        first.start()
    trial.recover()


def _has_batch_since(host: Host, moment_ms: int) -> bool:
    return any(batch.receipt.started_at_ms > moment_ms for batch in host.watch.batches())
