"""The outcome of an audit, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from penstock.audit.exact import Audit
from penstock.cli.common import console, say
from penstock.cli.view import STORES, seen_in
from penstock.spec import PipelineSpec, Sink


def result_sinks(spec: PipelineSpec, outcome: Audit) -> list[Sink]:
    """The sinks that were compared and hold what is there to stay."""
    return [s for s in spec.sink if s.name in outcome.sinks and {"final", "events"} & set(s.rows)]


def show_verdict(spec: PipelineSpec, outcome: Audit, report: Mapping[str, Any]) -> None:
    table = Table(title="audit", title_justify="left", box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column(style="dim")
    for label, number, remark in _counts(spec, outcome):
        table.add_row(label, f"{number:,}", remark)
    where = seen_in(spec)
    for label, figures in (("latency", report["latency_ms"]), ("  once warm", report["latency_warm_ms"])):
        if figures is not None:
            ends = f"p99 {figures['p99']:,} ms, max {figures['max']:,} ms"
            table.add_row(label, f"p50 {figures['p50']:,} ms", f"{ends}; from creation to visible in {where}")
    console.print(table)
    for problem in outcome.problems:
        say(problem)
    colour = "green" if outcome.passed else "red"
    console.print(f"[bold {colour}]{report['verdict']}[/]")


def _counts(spec: PipelineSpec, outcome: Audit) -> Iterator[tuple[str, int, str]]:
    yield "sent", outcome.sent, "records that Kafka acknowledged, in all runs on this data directory"
    total = outcome.decoded + outcome.rejected
    yield "decoded", outcome.decoded, f"and {outcome.rejected:,} rejected, which makes {total:,}"
    if spec.grouping is not None:
        yield (
            "late",
            outcome.late,
            f"decoded, but too old for the {outcome.results_are}: in the dead letters",
        )
    yield f"{outcome.results_are} expected", outcome.expected, "computed from the producers' own record"
    for sink in result_sinks(spec, outcome):
        yield f"  in {STORES[sink.kind]}", outcome.sinks[sink.name].held, _remark(sink)
    yield "lost", outcome.lost, "records"
    yield "duplicated", outcome.duplicated, "records"


def _remark(sink: Sink) -> str:
    if "events" in sink.rows:
        return f"in {sink.target}, by {sink.key}"
    return f"final, in {sink.target}" + (", read committed" if sink.kind == "kafka" else "")
