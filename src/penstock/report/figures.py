"""The numbers that are asked for first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.report.facts import Facts
from penstock.report.words import NONE, count, day, length, percent, plural, prose, rate, short, text


@dataclass(frozen=True)
class Figure:
    """A number, what it is, and what belongs to it."""

    name: str
    value: str
    small: str
    mark: str = ""


def figures(facts: Facts) -> str:
    shown = [*_flow(facts), *_audit(facts), *_trouble(facts)]
    items = "".join(
        f'<div><dt>{text(one.name)}</dt><dd class="big" data-mark="{one.mark}">{prose(one.value)}</dd>'
        f'<dd class="small">{prose(one.small)}</dd></div>'
        for one in shown
    )
    return f'<dl class="figures">{items}</dl>'


def _flow(facts: Facts) -> Iterator[Figure]:
    totals, q, lag = facts.glance.totals, facts.quantiles, facts.lag
    yield Figure("Events", short(totals.records), f"in {count(totals.batches)} batches")
    came_eps = lag.added * 1000 / lag.looked_ms if lag and lag.looked_ms else None
    most = f"most {rate(facts.peak_eps)} over 10 s · {rate(came_eps)} came in"
    yield Figure("Throughput", rate(facts.mean_eps), most)
    if q is None:
        yield Figure("Latency p99", NONE, "needs source.created")
    else:
        late = "warning" if facts.is_late else ""
        others = f"p50 {length(q.p50)} · p99.9 {length(q.p999)} · max {length(q.max)}"
        yield Figure("Latency p99", length(q.p99), others, late)
    slowest = facts.batches.slowest[0].total_ms if facts.batches.slowest else None
    yield Figure("Usual batch", length(facts.batches.median_ms), f"the slowest {length(slowest)}")
    if lag is None:
        yield Figure("Most that waited", NONE, "the topic was not seen")
    else:
        old = f"the oldest {length(lag.age_max_ms)} · behind for {length(lag.behind_ms)} in all"
        yield Figure("Most that waited", short(lag.records_max), old)


def _audit(facts: Facts) -> Iterator[Figure]:
    audit = facts.glance.audit
    for name, what in (("Lost", "lost"), ("Duplicated", "duplicated")):
        if audit is None:
            yield Figure(name, NONE, "not audited")
        else:
            many = getattr(audit, what)
            told = f"audited at {day(audit.at_ms)}, {plural(audit.batches, 'batch', 'batches')}"
            yield Figure(name, count(many), told, "critical" if many else "good")


def _trouble(facts: Facts) -> Iterator[Figure]:
    totals = facts.glance.totals
    aside = totals.rejected + totals.late + totals.refused
    kinds = {
        "rejected": totals.rejected,
        "late": totals.late,
        "refused": totals.refused,
        "repeated": totals.duplicates,
    }
    shares = [
        f"{name} {short(many)} ({_share(many, totals.records)})" for name, many in kinds.items() if many
    ]
    yield Figure("Dead letters", _share(aside, totals.records), " · ".join(shares) or "none")
    failures = len(facts.failures) + facts.failures_left_out
    replays = plural(sum(sink.replays for sink in facts.sinks), "replay")
    yield Figure("Failed batches", count(failures), f"{replays} recognised", "warning" if failures else "")
    crashes, outages = len(facts.crashes), len(facts.outages)
    told = f"{plural(crashes, 'crash', 'crashes')} · {plural(outages, 'outage')}"
    yield Figure("Restarts", count(facts.restarts), told, "critical" if crashes else "")


def _share(many: int, records: int) -> str:
    return percent(many / records, 2) if records else NONE
