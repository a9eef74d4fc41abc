"""An audit in the foreground: once, or again and again."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from penstock.audit.auditor import BUSY_SHARE, Auditor, Reconciled
from penstock.audit.exact import Audit, audit
from penstock.audit.metrics import AuditMetrics
from penstock.audit.verdict import keep, verdict
from penstock.cli.common import console, resolve_addresses, say, write_json
from penstock.engine.outputs import Endpoints
from penstock.errors import PenstockError, ServiceError, SpecError
from penstock.observe.lag.ends import TopicEnds
from penstock.observe.samples import AuditVerdict
from penstock.paths import DataDir
from penstock.spec import Duration, PipelineSpec

_SETTLING_LOOKS = 4
_SETTLING_S = 3.0
"""A pipeline that runs may be between the last record and the last result: that is waited for."""

_AWAY_S = 3.0
"""A store that does not answer is asked again after this long."""

_KEPT = {
    "all": "every batch",
    "each": "every batch, may repeat",
    "newest": "the last batch",
}


def audit_pipeline(
    spec: PipelineSpec,
    data: DataDir,
    stop: threading.Event,
    every: str | None,
    from_batch: int,
    metrics: int | None,
    json: Path | None,
) -> bool:
    """Whether the last look found nothing wrong."""
    rest_s = _interval_s(every) if every else 0.0
    addresses = resolve_addresses(spec, data)
    at = Endpoints(addresses.kafka, addresses.clickhouse, addresses.postgres)
    exposed = AuditMetrics(spec.name, metrics) if metrics else None
    with Auditor(spec, data, at, from_batch=from_batch) as auditor:
        while True:
            began = time.perf_counter()
            try:
                reconciled = auditor.look()
            except ServiceError as error:
                if not every:
                    raise
                say(f"{time.strftime('%H:%M:%S')}  {error}")
                if stop.wait(max(rest_s, _AWAY_S)):
                    raise
                continue
            if not reconciled.queries:
                raise PenstockError(
                    f"nothing to audit: {spec.name} has written no receipt in {data.runs / spec.name}",
                    hint=f"Run it first: penstock run {spec.name}; or name its data directory with --data.",
                )
            exact = _exact(spec, data, at, reconciled, stop) if not every else None
            found = verdict(reconciled, exact, round(time.time() * 1000))
            keep(found, data, spec.name)
            report = report_of(spec, reconciled, exact, found)
            write_json(json, report)
            took_s = time.perf_counter() - began
            if exposed:
                exposed.tell(report, took_s)
            if not every:
                _show(reconciled, exact, report)
                return bool(report["verdict"] == "pass")
            _tell(reconciled, report, took_s)
            if stop.wait(max(rest_s, took_s / BUSY_SHARE)):
                return bool(report["verdict"] == "pass")


def _interval_s(text: str) -> float:
    try:
        return Duration.parse(text).ms / 1000
    except ValueError as error:
        raise SpecError("--every", [f'"{text}": {error}']) from error


def _exact(
    spec: PipelineSpec, data: DataDir, at: Endpoints, reconciled: Reconciled, stop: threading.Event
) -> Audit | None:
    """Every result against the producers' record, where there is one and all of it has been read."""
    if not any((data.produced / spec.name).glob("*")):
        say("No record of what producers sent: offsets and rows are compared, single results are not.")
        return None
    ends = TopicEnds(at.kafka, spec.source.topic, spec.source.partitions).read() or {}
    reached = reconciled.queries[spec.name].reached if spec.name in reconciled.queries else {}
    if any(end > reached.get(partition, 0) for partition, end in ends.items()):
        say("The pipeline has not read all there is: single results are not compared yet.")
        return None
    for _ in range(_SETTLING_LOOKS - 1):
        outcome = audit(spec, data, at)
        if outcome.passed or stop.wait(_SETTLING_S):
            return outcome
    return audit(spec, data, at)


def report_of(
    spec: PipelineSpec, reconciled: Reconciled, exact: Audit | None, found: AuditVerdict
) -> dict[str, Any]:
    """The outcome as machines read it."""
    guarantees = {sink.name: sink.guarantee for sink in spec.sink}
    return {
        "records_lost": found.lost,
        "records_duplicated": found.duplicated,
        "records": max((query.records for query in reconciled.queries.values()), default=0),
        "batches": reconciled.batches,
        "sinks": [
            {
                "name": sink.name,
                "guarantee": guarantees[sink.name],
                "rows_said": sink.said,
                "rows_held": sink.held,
                "lost": sink.lost,
                "duplicated": sink.duplicated,
                "repeated": sink.repeated,
                "compared": _KEPT[sink.keeps],
                "exact": exact is not None and sink.name in exact.sinks and exact.sinks[sink.name].agrees,
            }
            for sink in reconciled.sinks
        ],
        "problems": list(found.problems),
        "verdict": "fail" if found.problems or found.lost or found.duplicated else "pass",
    }


def _show(reconciled: Reconciled, exact: Audit | None, report: dict[str, Any]) -> None:
    for query, covered in reconciled.queries.items():
        say(
            f"{query}: {covered.batches:,} batches of {covered.records:,} records, no hole, no overlap"
            if not covered.problems
            else f"{query}: {covered.batches:,} batches of {covered.records:,} records"
        )
    table = Table(box=None, pad_edge=False)
    for name, justify in (
        ("sink", "left"),
        ("rows said", "right"),
        ("rows held", "right"),
        ("lost", "right"),
        ("doubled", "right"),
        ("compared", "left"),
    ):
        table.add_column(name, justify=justify, style="dim" if name == "compared" else None)  # type: ignore[arg-type]
    for sink in report["sinks"]:
        compared = sink["compared"] + (", every result" if sink["exact"] else "")
        figures = (sink["rows_said"], sink["rows_held"], sink["lost"], sink["duplicated"])
        table.add_row(sink["name"], *(f"{number:,}" for number in figures), compared)
    console.print(table)
    if exact:
        say(
            f"{exact.expected:,} {exact.results_are} computed from what producers sent: "
            + ("all as they must be" if exact.passed else "not all as they must be")
        )
    for problem in report["problems"]:
        say(problem)
    say(f"lost {report['records_lost']:,}, doubled {report['records_duplicated']:,}")
    colour = "green" if report["verdict"] == "pass" else "red"
    console.print(f"[bold {colour}]{report['verdict']}[/]")


def _tell(reconciled: Reconciled, report: dict[str, Any], took_s: float) -> None:
    rows = sum(sink.held for sink in reconciled.sinks)
    say(
        f"{time.strftime('%H:%M:%S')}  {report['verdict']}  lost {report['records_lost']:,}  "
        f"doubled {report['records_duplicated']:,}  {reconciled.batches:,} batches  {rows:,} rows held  "
        f"looked for {took_s:.1f} s"
    )
    for problem in report["problems"]:
        say(f"  {problem}")
