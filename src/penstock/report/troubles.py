"""What broke: audits, crashes, outages, failed batches, and alerts over the time of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

from penstock.report.advice import NEXT, TITLES
from penstock.report.facts import Episode, Facts, Life
from penstock.report.finding import Finding, Weight
from penstock.report.words import clock, count, length, plural

_COLD_MS = 60_000
"""So long after a start results are late because the JVM compiles what it runs."""
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
    for life, after in zip(facts.lives, [*facts.lives[1:], None], strict=True):
        if life.how != "crashed" or life.end_ms is None:
            continue
        heard = f"It was not told to stop, and was last heard at {clock(life.end_ms)}"
        if after is None:
            yield Finding(
                "critical",
                "Crashed",
                f"{heard}. Its process is gone.",
                _AFTER_CRASH,
                life.end_ms,
                None,
                False,
            )
            continue
        well_ms = after.first_batch_ms
        yield Finding(
            "critical",
            "Crashed",
            f"{heard}; {_recovered(life.end_ms, after)}.",
            _AFTER_CRASH,
            life.end_ms,
            well_ms,
            well_ms is not None,
        )


_AFTER_CRASH = (
    "The log of Spark and the system's (out of memory, killed) tell why. The checkpoint holds: the batch"
    " under way"
    " comes again, and `penstock audit NAME` counts that nothing was lost or doubled."
)


def _recovered(down_ms: int, life: Life) -> str:
    if life.start_ms is None or life.first_batch_ms is None:
        return "it was started again, and ended no batch"
    return (
        f"started again after {length(life.start_ms - down_ms)}, and the first batch was held by every sink"
        f" {length(life.first_batch_ms - down_ms)} after the crash"
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
    for outage in facts.outages:
        over = outage.back_ms is not None
        what = f"{outage.what} did not answer"
        if outage.back_ms is not None:
            what += f" for {length(outage.back_ms - outage.from_ms)}"
        if outage.batch_ms is not None:
            recovered_ms = outage.batch_ms - outage.from_ms
            what += f"; the next batch was held by every sink {length(recovered_ms)} after it was missed"
        yield Finding(
            "critical",
            f"{outage.what} away",
            f"{what}. The pipeline waited and loses nothing by that.",
            "Find out in the service's own log why it was away.",
            outage.from_ms,
            outage.batch_ms or outage.back_ms,
            over,
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
    cold = name == "LatencyObjectiveMissed" and all(_is_cold(one, facts) for one in several)
    next_ = "A cold JVM after a start: it passes by itself." if cold else NEXT.get(name, "")
    if cold:
        what += " It began with a start."
    weight: Weight = "note" if cold and not still else worst.severity
    end_ms = None if still else max(ended)
    return Finding(weight, TITLES.get(name, name), what, next_, several[0].from_ms, end_ms, not still)


def _explained(episode: Episode, facts: Facts) -> bool:
    """Whether a crash or a service that was away tells it all."""
    if episode.name not in ("PipelineSilent", "TopicUnseen"):
        return False
    downs = [(life.end_ms, after.first_batch_ms) for life, after in _deaths(facts)]
    downs += [(outage.from_ms, outage.batch_ms) for outage in facts.outages]
    if facts.lives and facts.lives[-1].how in ("crashed", "open", "stopped"):
        downs.append((facts.lives[-1].end_ms, None))
    began_ms, slack_ms = episode.from_ms, 20_000
    return any(
        down_ms is not None and down_ms - slack_ms <= began_ms <= (up_ms or facts.to_ms) + slack_ms
        for down_ms, up_ms in downs
    )


def _deaths(facts: Facts) -> list[tuple[Life, Life]]:
    return [(one, after) for one, after in zip(facts.lives, facts.lives[1:], strict=False) if one.end_ms]


def _is_cold(episode: Episode, facts: Facts) -> bool:
    starts = [life.first_batch_ms for life in facts.lives if life.first_batch_ms and life.start_ms]
    return any(start - _COLD_MS <= episode.from_ms <= start + _COLD_MS for start in starts)


TROUBLES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _audit, _crashes, _open_end, _outages, _failures, _episodes,
)  # fmt: skip
