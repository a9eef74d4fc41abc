"""What each guarantee costs, as measured by the pipeline itself."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.preflight.facts import Facts
from penstock.preflight.finding import Finding, ok
from penstock.preflight.words import counted, time_text


def price(facts: Facts) -> Iterator[Finding]:
    for sink in facts.spec.sink:
        about = f"sink {sink.name}"
        cost = facts.journal.costs.get(sink.name)
        if cost is None:
            yield ok(about, f"{sink.guarantee}: not measured yet")
        else:
            yield ok(
                about,
                f"{sink.guarantee} takes {time_text(cost.write_ms)} a batch, {cost.share:.0%} of it"
                f" (median of the last {counted(cost.batches, 'write')})",
            )
