"""A run in one sentence, by what was wrong and whether it still was at the end."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.observe.board.judgement import Judgement, Level
from penstock.report.facts import Facts
from penstock.report.finding import Finding
from penstock.report.words import clock, count, length, plural

_ENDS = {
    "running": "it runs",
    "stopped": "it was told to stop",
    "failed": "it gave up",
    "crashed": "it crashed",
    "open": "the record ends without a stop",
    "cut": "the journal goes on",
}


def judged(facts: Facts, found: Sequence[Finding]) -> Judgement:
    if facts.end == "empty":
        return Judgement("idle", "Nothing yet", "No run of this pipeline has left a journal here.")
    grave = [one for one in found if one.weight != "note"]
    still = [one for one in grave if not one.is_past]
    if still:
        worst = still[0]
        level: Level = "critical" if worst.weight == "critical" else "warning"
        return Judgement(level, worst.title, f"{worst.what}{_more(len(grave) - 1)}")
    if facts.batches.last_ms is None:
        return Judgement(
            "idle", "No batch", f"It started, and ended no batch: {_ENDS[facts.end]}.{_audited(facts)}"
        )
    if grave:
        worst = grave[0]
        headline = "Recovered" if worst.weight == "critical" else "Had trouble"
        told = f"{worst.title} at {clock(worst.from_ms)}{_until(worst)}, over by the end"
        told += _others(len(grave) - 1)
        return Judgement("warning", headline, f"{told}. {_did(facts)}{_audited(facts)}")
    return Judgement("good", "Healthy", f"{_did(facts)}{_audited(facts)}")


def _until(finding: Finding) -> str:
    if finding.times > 1:
        return f" and again, {finding.times:,} times in all"
    return "" if finding.to_ms is None else f" for {length(finding.to_ms - finding.from_ms)}"


def _others(many: int) -> str:
    return f", and {plural(many, 'more finding')}" if many else ""


def _more(many: int) -> str:
    return f" ({plural(many, 'more finding')} below.)" if many else ""


def _did(facts: Facts) -> str:
    fresh = f", visible after {length(facts.quantiles.p99)} at p99" if facts.quantiles else ""
    return (
        f"{count(facts.glance.totals.records)} events in {length(facts.took_ms)}{fresh}; {_ENDS[facts.end]}."
    )


def _audited(facts: Facts) -> str:
    audit = facts.glance.audit
    if audit is None:
        return " Not audited."
    return f" The audit found {count(audit.lost)} lost, {count(audit.duplicated)} duplicated."
