"""What was wrong, when, by how much, and what to do next: rules over the facts of a run."""

from __future__ import annotations

from penstock.report.facts import Facts
from penstock.report.finding import WEIGHTS, Finding
from penstock.report.habits import HABITS
from penstock.report.troubles import TROUBLES


def findings(facts: Facts) -> tuple[Finding, ...]:
    """The gravest first, then the oldest; what is of the whole time behind what has a time of its own."""
    found = [finding for rule in (*TROUBLES, *HABITS) for finding in rule(facts)]
    whole = (facts.from_ms, facts.to_ms)
    return tuple(
        sorted(
            found,
            key=lambda one: (WEIGHTS.index(one.weight), (one.from_ms, one.to_ms) == whole, one.from_ms),
        )
    )
