"""What an audit found in a few numbers, kept beside the samples of the pipeline for those who watch it."""

from __future__ import annotations

from penstock.audit.auditor import Reconciled
from penstock.audit.exact import Audit
from penstock.observe.run import sample_file
from penstock.observe.samplefile import append
from penstock.observe.samples import AuditVerdict, SinkVerdict
from penstock.paths import DataDir


def verdict(reconciled: Reconciled, exact: Audit | None, now_ms: int) -> AuditVerdict:
    """Lost and duplicated at the place where most are."""
    return AuditVerdict(
        at_ms=now_ms,
        lost=max(reconciled.lost, exact.lost if exact else 0),
        duplicated=max(reconciled.duplicated, exact.duplicated if exact else 0),
        batches=reconciled.batches,
        sinks=tuple(SinkVerdict(sink.name, sink.lost, sink.duplicated) for sink in reconciled.sinks),
        problems=(*reconciled.problems, *(exact.problems if exact else ())),
    )


def keep(found: AuditVerdict, data: DataDir, pipeline: str) -> None:
    append(sample_file(data.runs / pipeline), found)
