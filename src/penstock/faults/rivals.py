"""Two pipelines that both take themselves for the one."""

from __future__ import annotations

import time

from penstock.engine.pipeline import READY
from penstock.faults.host import Host
from penstock.faults.scenario import Unmet
from penstock.faults.trial import STARTED_WITHIN_S, Trial

_FENCED = ("a newer writer has taken over", "another writer is ahead")
_IN_USE = "another process runs on the checkpoint"
_TRANSACTION_WITHIN_S = 60.0
_ENDS_WITHIN_S = 120.0


def second_on_checkpoint(trial: Trial) -> None:
    """Start a second driver on the same checkpoint: it must refuse, and the first go on."""
    trial.await_some_batches()
    first = trial.host.program
    trial.strike()
    second = trial.host.start()
    try:
        trial.await_refusal(second, _IN_USE)
    finally:
        second.kill()
        trial.host.goes_on_with(first)
    trial.strike()
    trial.recover()


def second_on_copy(trial: Trial) -> None:
    """Start a second driver on a copy of the checkpoint: one of them must stop, and nothing be doubled."""
    trial.await_some_batches()
    first = trial.host
    second = _copied(trial)
    trial.strike()
    second.start()
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
    trial.host = trial.another_host()
    trial.host.start()
    trial.await_note(trial.host, READY)
    time.sleep(trial.chance.uniform(0, 5))
    frozen.watch.batches()
    frozen.program.thaw()
    trial.await_refusal(frozen.program, *_FENCED, within_s=_ENDS_WITHIN_S)
    if late := frozen.watch.batches():
        raise Unmet(f"a fenced pipeline wrote batch {late[0].receipt.batch}")
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
        if time.monotonic() > deadline_s:
            raise Unmet("two pipelines run side by side, and neither was fenced")
        time.sleep(0.1)
    # The one that won may have fenced itself out by then: both are looked at a little later.
    time.sleep(5)
    for host in (first, second):
        if host.program.status() is not None:
            trial.await_refusal(host.program, *_FENCED)
    trial.hit(first.program.status() is None or second.program.status() is None)
    if first.program.status() is not None and second.program.status() is None:
        trial.host = second
    elif first.program.status() is not None:
        first.start()
    trial.recover()
