"""Why a record is set aside, as one SQL expression: null for a good one."""

from __future__ import annotations

from penstock.engine.decode import ERROR
from penstock.spec import PipelineSpec

TIMESTAMP_MS = "unix_millis(timestamp)"
"""When the broker took the record. It, not the wall clock, bounds the future, so that a replay agrees."""


def reason(spec: PipelineSpec) -> str:
    """The first rule that a record breaks, in words."""
    rules = [f"WHEN {ERROR} IS NOT NULL THEN concat('malformed: ', {ERROR})"]
    rules += [f"WHEN `{name}` IS NULL THEN 'required: {name} is missing'" for name in _required(spec)]
    ts, future_ms = spec.source.event_time, spec.cleanse.future.ms
    rules.append(
        f"WHEN `{ts}` > {TIMESTAMP_MS} + {future_ms} THEN "
        f"concat('future: {ts} is ', `{ts}` - {TIMESTAMP_MS}, ' ms ahead of the broker, {future_ms} allowed')"
    )
    if spec.cleanse.where is not None:
        rules.append(
            f"WHEN NOT coalesce(({spec.cleanse.where}), false) THEN 'condition: where does not hold'"
        )
    return f"CASE {' '.join(rules)} END"


def _required(spec: PipelineSpec) -> list[str]:
    """What the spec requires, and what no session can be without."""
    always = (spec.sessions.key, spec.source.event_time)
    return list(dict.fromkeys((*spec.cleanse.require, *always)))
