"""Records that no producer should send, and more of them than usual."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow.compute as pc

from penstock.audit.exact import read_receipts
from penstock.audit.topic import read_topic
from penstock.faults import kills
from penstock.faults.program import until
from penstock.faults.scenario import Unmet
from penstock.faults.trial import RECOVERED_WITHIN_S, Trial
from penstock.produce.ledger import read_ledgers

_BURST_TIMES = 10
_BURST_S = 8.0
_CALM_S = 3.0
_MEMORY_MAX_BYTES = 3_200_000_000
"""Spark's heap may grow to 2 GB, and does when it is busy: 2.6 GB with Python and all else were seen."""


def poison(trial: Trial) -> None:
    """Send 5 % malformed records, some of nearly 1 MB, and kill the driver: each is a dead letter once."""
    kills.driver_anywhere(trial)


def duplicates(trial: Trial) -> None:
    """Send 5 % of the events twice, and kill the driver: each second copy is set aside once."""
    kills.driver_anywhere(trial)


def copies_set_aside(trial: Trial) -> list[str]:
    """Every second copy must have been called a duplicate: all came within a second of the first."""
    sent = _sent(trial, "timing", "repeated")
    called = sum(receipt.duplicates for receipt in read_receipts(trial.host.journal))
    return [] if called == sent > 0 else [f"{sent} events were sent twice, {called} were called duplicates"]


def clock_ahead(trial: Trial) -> None:
    """Send 1 % of the events an hour or a day ahead, and kill the driver: no session closes early."""
    kills.driver_anywhere(trial)


def future_refused(trial: Trial) -> list[str]:
    """Every event that was ahead must have been refused for that, and for nothing else."""
    sent = _sent(trial, "flaw", "unknown_value")
    reasons = [
        dict(letter.headers() or [])["penstock.reason"]
        for letter in read_topic(trial.at.kafka, "dead-letters")
    ]
    refused = sum(isinstance(reason, bytes) and reason.startswith(b"future: ") for reason in reasons)
    return [] if refused == sent > 0 else [f"{sent} events were ahead of their time, {refused} were refused"]


def _sent(trial: Trial, column: str, value: str) -> int:
    """How many records with some property the ledgers know of."""
    ledgers = read_ledgers(trial.host.data.produced / trial.spec.name)
    return sum(pc.sum(pc.equal(ledger.records[column], value)).as_py() or 0 for ledger in ledgers)


def idle_partition(trial: Trial) -> None:
    """Send to three of eight partitions, then to none: what is open closes all the same."""
    trial.await_some_batches()
    summary = trial.host.watch.summary
    closed_before = summary.closed
    trial.strike()
    _await(
        trial, lambda: summary.closed > closed_before, "no session closed while some partitions are silent"
    )
    if summary.lag is None or sum(end > 0 for end in summary.lag.ends.values()) > len(summary.lag.ends) / 2:
        raise Unmet("there are events in all partitions")
    trial.sender.program.freeze()
    _await(trial, lambda: summary.sessions_open == 0, "sessions stay open while all partitions are silent")
    trial.sender.program.thaw()
    trial.recover()


def _await(trial: Trial, what: Callable[[], bool], otherwise: str) -> None:
    deadline_s = time.monotonic() + RECOVERED_WITHIN_S
    while not what():
        trial.host.watch.batches()
        if not until(deadline_s):
            raise Unmet(f"{otherwise}, for {RECOVERED_WITHIN_S:.0f} s")


def hot_key(trial: Trial) -> None:
    """Send ten times as much, 80 % of it by one user: all is caught up with, in bounded memory."""
    burst(trial)


def burst(trial: Trial) -> None:
    """Send ten times as much for some seconds: all is caught up with, in bounded memory."""
    trial.await_some_batches()
    # On a busy machine batches are long, and some seconds of records always wait for the next.
    calm = max(_CALM_S * trial.sender.rate_eps, 2 * trial.lag())
    trial.strike()
    rush = trial.sender.start(times_rate=_BURST_TIMES, seconds=_BURST_S)
    deadline_s = time.monotonic() + RECOVERED_WITHIN_S
    most = 0
    while rush.status() is None or trial.lag() > calm:
        if time.monotonic() > deadline_s:
            raise Unmet(f"{trial.lag()} records behind {RECOVERED_WITHIN_S:.0f} s after a burst")
        most = max(most, _most_memory(trial, time.monotonic() + 0.5))
    trial.sender.programs.remove(rush)
    trial.recoveries_s.append((time.time_ns() // 1_000_000 - trial.struck_ms) / 1000)
    trial.chose = f"{most / 1e9:.1f} GB of memory at most"
    if most > _MEMORY_MAX_BYTES:
        raise Unmet(f"memory went to {most / 1e9:.1f} GB in a burst")


def _most_memory(trial: Trial, until_s: float) -> int:
    most = 0
    while time.monotonic() < until_s:
        most = max(most, trial.host.program.memory_bytes())
        time.sleep(0.2)
    return most
