"""Records that no producer should send, and more of them than usual."""

from __future__ import annotations

import time

import pyarrow.compute as pc

from penstock.faults import kills
from penstock.faults.scenario import Unmet
from penstock.faults.trial import RECOVERED_WITHIN_S, Trial
from penstock.observe.audit import read_receipts
from penstock.produce.ledger import read_ledgers

_BURST_TIMES = 10
_BURST_S = 8.0
_MEMORY_TIMES_MAX = 1.6


def poison(trial: Trial) -> None:
    """Send 5 % malformed records, some of nearly 1 MB, and kill the driver: each is a dead letter once."""
    kills.driver_anywhere(trial)


def duplicates(trial: Trial) -> None:
    """Send 5 % of the events twice, and kill the driver: each second copy is set aside once."""
    kills.driver_anywhere(trial)


def copies_set_aside(trial: Trial) -> list[str]:
    """Every second copy must have been called a duplicate: all came within a second of the first."""
    ledgers = read_ledgers(trial.host.data.produced / trial.spec.name)
    sent = sum(pc.sum(pc.equal(ledger.records["timing"], "repeated")).as_py() or 0 for ledger in ledgers)
    called = sum(receipt.duplicates for receipt in read_receipts(trial.host.journal))
    return [] if called == sent > 0 else [f"{sent} events were sent twice, {called} were called duplicates"]


def burst(trial: Trial) -> None:
    """Send ten times as much for some seconds: all is caught up with, in bounded memory."""
    trial.await_some_batches()
    before = _most_memory(trial, time.monotonic() + 3)
    trial.strike()
    rush = trial.sender.start(times_rate=_BURST_TIMES, seconds=_BURST_S)
    deadline_s = time.monotonic() + RECOVERED_WITHIN_S
    most = 0
    while rush.status() is None or trial.lag() > trial.sender.rate_eps:
        if time.monotonic() > deadline_s:
            raise Unmet(f"{trial.lag()} records behind {RECOVERED_WITHIN_S:.0f} s after a burst")
        most = max(most, _most_memory(trial, time.monotonic() + 0.5))
    trial.sender.programs.remove(rush)
    trial.recoveries_s.append((time.time_ns() // 1_000_000 - trial.struck_ms) / 1000)
    if most > before * _MEMORY_TIMES_MAX:
        raise Unmet(f"memory went from {before / 1e6:,.0f} MB to {most / 1e6:,.0f} MB in a burst")


def _most_memory(trial: Trial, until_s: float) -> int:
    most = 0
    while time.monotonic() < until_s:
        most = max(most, trial.host.program.memory_bytes())
        time.sleep(0.2)
    return most
