"""What broke: audits, crashes, outages, failed batches, and alerts over the time of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby, pairwise

from penstock.report.advice import NEXT, TITLES
from penstock.report.facts import Episode, Facts, Life
from penstock.report.finding import Finding, Weight
from penstock.report.words import clock, count, length, plural

_COLD_MS = 60_000
"""So long after a start results may be late because the JVM compiles what it runs, and so long it takes."""
_PROBLEMS_MAX = 5


def _audit(facts: Facts) -> Iterator[Finding]:
    audit = facts.glance.audit
    if audit is None:
        return
    for name, many, what in (
        ("RecordsLost", audit.lost, "lost"),
        ("RecordsDuplicated", audit.duplicated, "duplicated"),
    ):
        if many:
            where = [
                f"{sink.name} {count(getattr(sink, what))}" for sink in audit.sinks if getattr(sink, what)
            ]
            told = f"; by sink: {', '.join(where)}" if where else ""
            yield Finding(
                "critical",
                TITLES[name],
                f"The audit of {count(audit.batches)} batches found {count(many)} {what}{told}.",
                NEXT[name],
                audit.at_ms,
                None,
                False,
            )
    if audit.problems:
        told = "; ".join(audit.problems[:_PROBLEMS_MAX])
        yield Finding(
            "warning", "The audit has more to say", f"{told}.", NEXT["RecordsLost"], audit.at_ms, None, False
        )


def _crashes(facts: Facts) -> Iterator[Finding]:
    """What it came back from is one finding, and what it did not is another."""
    over = [(life, after) for life, after in pairwise(facts.lives) if life.how == "crashed"]
    if over:
        downs = [(life.end_ms or 0, after.first_batch_ms or facts.to_ms) for life, after in over]
        last, well_ms = over[-1][1], over[-1][1].first_batch_ms
        told = _several(downs) if len(over) > 1 else f"{_heard(over[0][0])}; {_recovered(*over[0])}."
        is_past = well_ms is not None or last is not facts.lives[-1]
        yield Finding("critical", "Crashed", told, _AFTER_CRASH, downs[0][0], well_ms, is_past, len(over))
    if facts.lives and facts.lives[-1].how == "crashed":
        told, end_ms = f"{_heard(facts.lives[-1])}. Its process is gone.", facts.lives[-1].end_ms or 0
        yield Finding("critical", "Crashed", told, _AFTER_CRASH, end_ms, None, False)


_AFTER_CRASH = (
    "The log of Spark and the system's (out of memory, killed) tell why. The checkpoint holds: the batch"
    " under way comes again, and `penstock audit NAME` counts that nothing was lost or doubled."
)


def _heard(life: Life) -> str:
    return f"It was not told to stop, and was last heard at {clock(life.end_ms or 0)}"


def _recovered(life: Life, after: Life) -> str:
    if life.end_ms is None or after.start_ms is None or after.first_batch_ms is None:
        return "it was started again, and ended no batch"
    return (
        f"started again after {length(after.start_ms - life.end_ms)}, and the first batch was held by every"
        f" sink {length(after.first_batch_ms - life.end_ms)} after the crash"
    )


def _several(downs: list[tuple[int, int]]) -> str:
    lengths = [to_ms - from_ms for from_ms, to_ms in downs]
    longest = lengths.index(max(lengths))
    return (
        f"{len(downs)} times, {length(sum(lengths))} without a batch in all; the longest was"
        f" {length(lengths[longest])} at {clock(downs[longest][0])}. It came back each time."
    )


def _open_end(facts: Facts) -> Iterator[Finding]:
    if facts.end == "open":
        yield Finding(
            "note",
            "No end",
            "The record ends without a stop: the pipeline crashed, or this is a copy that was made while"
            " it ran.",
            "Ask where it ran: `penstock web` tells whether it lives.",
            facts.to_ms,
            None,
            False,
        )


def _outages(facts: Facts) -> Iterator[Finding]:
    for what in dict.fromkeys(outage.what for outage in facts.outages):
        several = [outage for outage in facts.outages if outage.what == what]
        first, last = several[0], several[-1]
        told = f"{what} did not answer"
        if last.back_ms is None:
            told += f" since {clock(last.from_ms)}"
        elif len(several) > 1:
            told += f": {_several([(one.from_ms, one.batch_ms or one.back_ms or 0) for one in several])}"
        else:
            told += f" for {length(last.back_ms - last.from_ms)}"
        if last.batch_ms is not None and len(several) == 1:
            held = f"the next batch was held by every sink {length(last.batch_ms - last.from_ms)}"
            told += f"; {held} after it was missed"
        yield Finding(
            "critical",
            f"{what} away",
            f"{told.removesuffix('.')}. The pipeline waited, and loses nothing by that.",
            "Find out in the service's own log why it was away.",
            first.from_ms,
            last.batch_ms or last.back_ms,
            last.back_ms is not None,
            len(several),
        )


def _failures(facts: Facts) -> Iterator[Finding]:
    if not facts.failures:
        return
    first, last = facts.failures[0], facts.failures[-1]
    many = len(facts.failures) + facts.failures_left_out
    over = last.batch_ms is not None
    again = f"; the last one was through {length(last.batch_ms - last.at_ms)} later" if last.batch_ms else ""
    yield Finding(
        "warning",
        "Batches failed",
        f"{plural(many, 'batch', 'batches')} failed and came again{again}. The last reason:"
        f" {last.text.partition(': ')[2] or last.text}",
        NEXT["BatchesFailing"],
        first.at_ms,
        last.batch_ms,
        over,
        many,
    )


def _episodes(facts: Facts) -> Iterator[Finding]:
    """Alerts of one name are one finding: how often, how long, and the worst of them."""
    wanted = [one for one in facts.episodes if not _explained(one, facts)]
    named = sorted(wanted, key=lambda one: one.name)
    for name, several in groupby(named, key=lambda one: one.name):
        yield _episode(name, list(several), facts)


def _episode(name: str, several: list[Episode], facts: Facts) -> Finding:
    ended = [one.to_ms if one.to_ms is not None else facts.to_ms for one in several]
    held = [max(0, end - one.from_ms) for one, end in zip(several, ended, strict=True)]
    worst = min(several, key=lambda one: (one.severity, -held[several.index(one)]))
    still = any(one.to_ms is None for one in several)
    reason = worst.reason if worst.reason.startswith("p9") else worst.reason[:1].upper() + worst.reason[1:]
    what = f"{reason} (at {clock(worst.worst_ms)})."
    if len(several) > 1:
        what = f"{len(several)} times, {length(sum(held))} in all. The worst: {what}"
    cold = name == "LatencyObjectiveMissed" and all(
        _is_cold(one.from_ms, end, facts) for one, end in zip(several, ended, strict=True)
    )
    next_ = "A cold JVM after a start: it passes by itself." if cold else NEXT.get(name, "")
    if cold:
        what += " It began with a start."
    weight: Weight = "note" if cold and not facts.is_late else worst.severity
    end_ms = None if still else max(ended)
    title, times = TITLES.get(name, name), len(several)
    return Finding(weight, title, what, next_, several[0].from_ms, end_ms, not still, times)


def _explained(episode: Episode, facts: Facts) -> bool:
    """Whether a crash or a service that was away tells it all."""
    if episode.name not in ("PipelineSilent", "TopicUnseen"):
        return False
    downs = [(life.end_ms, after.first_batch_ms) for life, after in pairwise(facts.lives)]
    downs += [(outage.from_ms, outage.batch_ms) for outage in facts.outages]
    if facts.lives and facts.lives[-1].how in ("crashed", "open", "stopped", "failed"):
        downs.append((facts.lives[-1].end_ms, None))
    began_ms, slack_ms = episode.from_ms, 20_000
    return any(
        down_ms is not None and down_ms - slack_ms <= began_ms <= (up_ms or facts.to_ms) + slack_ms
        for down_ms, up_ms in downs
    )


def _is_cold(from_ms: int, to_ms: int, facts: Facts) -> bool:
    starts = [life.first_batch_ms for life in facts.lives if life.first_batch_ms and life.start_ms]
    return any(abs(from_ms - start) <= _COLD_MS and to_ms - start <= 2 * _COLD_MS for start in starts)


TROUBLES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _audit, _crashes, _open_end, _outages, _failures, _episodes,
)  # fmt: skip
