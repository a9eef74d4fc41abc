"""Findings for a person, and what a start makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, get_args

from penstock.cli.common import console, say
from penstock.errors import CheckFailed
from penstock.preflight import Facts, Finding, judge
from penstock.preflight.finding import Severity

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""The gravest first."""
_COLOURS: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "note": "cyan", "ok": "green"}


def show(pipeline: str, findings: Sequence[Finding]) -> None:
    """All findings, what is well first, so that what asks for something stands last and is seen."""
    for severity in reversed(SEVERITIES):
        for finding in (found for found in findings if found.severity == severity):
            first, *rest = finding.text().splitlines()
            console.print(f"[{_COLOURS[severity]}]{severity:<8}[/] ", end="")
            for number, line in enumerate([first, *rest]):
                say(line if number == 0 else f"         {line.strip()}")
    say(f"{pipeline}: {_summary(findings)}")


def _summary(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.severity for finding in findings)
    words = [f"{counts[s]} {s}{'' if counts[s] == 1 else 's'}" for s in SEVERITIES if s != "ok" and counts[s]]
    return ", ".join(words) or "nothing stands in the way"


def as_json(pipeline: str, findings: Sequence[Finding], status: int) -> dict[str, Any]:
    return {
        "pipeline": pipeline,
        "status": status,
        "counts": {s: sum(1 for finding in findings if finding.severity == s) for s in SEVERITIES},
        "findings": [asdict(finding) for finding in findings],
    }


def stop_on_errors(facts: Facts) -> None:
    """Say the warnings in a line each; raise where a start would lose, double or fail."""
    findings = judge(facts)
    for finding in findings:
        if finding.severity == "warning" or (finding.severity == "error" and not finding.stops):
            say(f"{finding.severity}: {finding.line}")
    stopping = [finding for finding in findings if finding.stops]
    if stopping:
        raise CheckFailed(
            "\n".join(finding.text() for finding in stopping),
            hint="Nothing was started. All that there is to say: penstock check SPEC",
        )
