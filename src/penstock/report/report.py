"""One run, read, judged, and told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from penstock.observe.board.alerts import LIMITS, Limits
from penstock.observe.board.judgement import Judgement
from penstock.report.facts import Facts
from penstock.report.finding import Finding
from penstock.report.findings import findings
from penstock.report.fold import Fold
from penstock.report.reading import RunFiles
from penstock.report.verdict import judged
from penstock.spec import PipelineSpec

DAY_MS = 86_400_000


@dataclass(frozen=True)
class Report:
    """All that a page is made of."""

    facts: Facts
    findings: tuple[Finding, ...]
    judgement: Judgement
    spec: PipelineSpec | None
    made_at_ms: int

    def to_json(self) -> dict[str, Any]:
        """As machines read it, without the plots."""
        facts = {name: value for name, value in vars(self.facts).items() if name not in ("strip", "lag")}
        lag = self.facts.lag
        return {
            "judgement": asdict(self.judgement),
            "findings": [asdict(finding) for finding in self.findings],
            "facts": {name: _plain(value) for name, value in facts.items()},
            "lag": None if lag is None else {k: _plain(v) for k, v in vars(lag).items() if k != "end"},
            "mean_eps": self.facts.mean_eps,
            "made_at_ms": self.made_at_ms,
        }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


def report(
    files: RunFiles,
    now_ms: int,
    *,
    alive: bool | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
    limits: Limits = LIMITS,
    told: Callable[[float], None] = lambda _: None,
) -> Report:
    """Read a run between two moments: by default all of it, but no more than its last day.

    `told` hears how much of it is done, from 0 to 1.
    """
    bounds = files.bounds()
    lives = alive is True and to_ms is None
    end_ms = now_ms if lives or bounds is None else bounds.last_ms
    if to_ms is not None:
        end_ms = min(end_ms, to_ms)
    begin_ms = (
        end_ms if bounds is None else max(bounds.first_ms, end_ms - DAY_MS if from_ms is None else from_ms)
    )
    begin_ms = min(begin_ms, end_ms)
    fold = Fold(files.name, files.spec, begin_ms, end_ms, limits)
    for seen in files.entries(begin_ms, end_ms):
        fold.feed(seen)
        told((seen.at_ms - begin_ms) / max(1, end_ms - begin_ms))
    facts = fold.facts(alive, end_ms, files.record(begin_ms, end_ms, bounds))
    found = findings(facts)
    return Report(facts, found, judged(facts, found), files.spec, now_ms)
