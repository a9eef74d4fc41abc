"""How it went: where pressure started, where lag was going, skew, gaps, slow batches, what is not known."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.observe.lag.report import LagReport
from penstock.observe.lag.skew import Skew
from penstock.observe.lag.trend import Burst, Draining, Growing, Stalled
from penstock.report.facts import Facts
from penstock.report.finding import Finding, Weight
from penstock.report.words import count, length, percent, rate

_UNEVEN = 2.0
"""A partition that gets so many times its share."""
_SLOW = 5.0
"""A batch that takes so many times the usual."""
_SLOW_MIN_MS = 5_000
_PRESSED = 0.1
"""The share of the time from which on it is more than a start or a burst."""


def _pressure(facts: Facts) -> Iterator[Finding]:
    """Where pressure started, and for how much of the time, also where it never lasted for an alert."""
    load = facts.load
    if load is None or not load.pressed:
        return
    order = sorted(load.pressed.items(), key=lambda item: -item[1])
    told = ", ".join(f"at the {stage} for {percent(share)} of the time" for stage, share in order)
    stage = order[0][0]
    weight: Weight = "warning" if sum(load.pressed.values()) >= _PRESSED else "note"
    yield Finding(
        weight,
        "Where pressure started",
        f"It started {told}: records waited while the pipeline was busy. Over all, it was busy for"
        f" {percent(load.busy)}, the {stage} alone for {percent(load.stages[stage])}.",
        _STAGE_NEXT[stage],
        facts.from_ms,
        facts.to_ms,
    )


_STAGE_NEXT = {
    "source": "Reading is what takes the time: more partitions and cores read side by side.",
    "decode": "Decoding, cleansing and lookups take the time: more cores, fewer columns, simpler conditions.",
    "shuffle": "Moving data between tasks takes the time: a faster disk, or fewer columns in measures.",
    "state": "Sessions or windows take the time: more cores and state partitions, a shorter gap, fewer"
    " keys alive.",
    "sink": "Writing takes the time: a faster store, fewer rows (final instead of live), or `writers`"
    " for events.",
    "engine": "Planning and logs take the time: fewer and larger batches, by trigger or source.min_batch.",
}


def _skew(facts: Facts) -> Iterator[Finding]:
    lag = facts.lag
    if lag is None or not isinstance(lag.skew, Skew) or len(lag.partitions) < 2:
        return
    fair = 1 / len(lag.partitions)
    if lag.skew.share >= _UNEVEN * fair:
        yield Finding(
            "note",
            "Uneven partitions",
            f"Partition {lag.skew.largest} got {percent(lag.skew.share)} of what came in, where"
            f" {percent(fair)} would be even (Gini {lag.skew.gini:.2f}).",
            "One core reads a partition: spread the key, or give hot keys a suffix.",
            facts.from_ms,
            facts.to_ms,
        )


def _trend(facts: Facts) -> Iterator[Finding]:
    """Where lag was going when the record ended."""
    report = facts.lag.end if facts.lag else None
    if not isinstance(report, LagReport) or facts.end in ("stopped", "failed"):
        return
    told = f"{count(report.lag)} records waited at the end; {rate(report.in_eps)} came in and"
    told += f" {rate(report.out_eps)} were processed."
    see = "`penstock lag NAME` tells it by partition."
    match report.trend:
        case Growing(slope_eps) if not _is_known(facts, "LagGrowing"):
            what = f"{told} Lag grew by {rate(slope_eps)}."
            yield Finding("warning", "Falling behind", what, see, report.heard_at_ms, None, False)
        case Stalled(since_ms):
            yield Finding("critical", "Stalled", f"{told} No position moved.", see, since_ms, None, False)
        case Draining(done_in_s):
            what = f"{told} A backlog was being read: done in {length(done_in_s * 1000)}."
            yield Finding("note", "Catching up", what, see, report.heard_at_ms, None, False)
        case Burst(peak, since_ms):
            what = f"{told} A burst of {count(peak)} was being worked off."
            yield Finding("note", "Catching up", what, see, since_ms, None, False)
        case _:
            pass


def _is_known(facts: Facts, alert: str) -> bool:
    """Whether an alert says the same, and held until the end."""
    return any(one.name == alert and one.to_ms is None for one in facts.episodes)


def _gaps(facts: Facts) -> Iterator[Finding]:
    batches = facts.batches
    if not batches.gaps:
        return
    longest = batches.gaps[0]
    many = "once" if len(batches.gaps) == 1 else f"{len(batches.gaps)} times"
    yield Finding(
        "note",
        "Batches were long in coming",
        f"Records waited for a batch for more than usual {many}; the longest was"
        f" {length(longest.to_ms - longest.from_ms)} with up to {count(longest.records)} waiting, where"
        f" {length(batches.usual_gap_ms)} is usual.",
        "See what else happened then: a start, an outage, garbage collection, another job on the machine.",
        min(gap.from_ms for gap in batches.gaps),
        max(gap.to_ms for gap in batches.gaps),
    )


def _slowest(facts: Facts) -> Iterator[Finding]:
    batches = facts.batches
    if not batches.slowest or batches.median_ms is None:
        return
    slow = batches.slowest[0]
    if slow.total_ms < max(_SLOW_MIN_MS, _SLOW * batches.median_ms):
        return
    phase, ms = max(slow.phases.items(), key=lambda item: item[1])
    sink = f" (mostly {slow.slowest_sink}, {length(slow.slowest_sink_ms)})" if phase == "sinks" else ""
    yield Finding(
        "note",
        "A slow batch",
        f"Batch {slow.batch:,} of {slow.query} took {length(slow.total_ms)} for {count(slow.records)}"
        f" records, where"
        f" {length(batches.median_ms)} is usual; {length(ms)} of it in {phase}{sink}.",
        "The first batch after a start compiles the plan and takes seconds; the table of batches has the"
        " rest.",
        slow.at_ms - round(slow.total_ms),
        slow.at_ms,
    )


def _replays(facts: Facts) -> Iterator[Finding]:
    again = {sink.name: sink.replays for sink in facts.sinks if sink.replays}
    if again:
        told = ", ".join(f"{name} {count(many)}" for name, many in again.items())
        yield Finding(
            "note",
            "Batches came again",
            f"They were there already, compared, and not written twice: {told}.",
            "This is what exactly once means after a crash; nothing is to be done.",
            facts.from_ms,
            facts.to_ms,
        )


def _record(facts: Facts) -> Iterator[Finding]:
    record = facts.record
    if record.unread:
        yield Finding(
            "note",
            "Lines that could not be read",
            f"{count(record.unread)} of {count(record.lines)} lines of the journal: cut off by a crash, or of"
            " another version. Figures are of the others.",
            "Make the report with the version that ran.",
            facts.from_ms,
            facts.to_ms,
        )
    if facts.batches.last_ms is not None and record.samples_from_ms is None:
        yield Finding(
            "note",
            "No samples",
            "Spark's own account of batches, the state, the processes and the brokers is not kept beside this"
            " journal, or no longer: those plots are empty.",
            "Copy the whole directory of the run, not the journal alone.",
            facts.from_ms,
            facts.to_ms,
        )


HABITS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _pressure, _skew, _trend, _gaps, _slowest, _replays, _record,
)  # fmt: skip
