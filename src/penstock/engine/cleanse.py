"""Events made clean, and why a record is set aside: null for a good one."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.engine.decode import ERROR
from penstock.spec import PipelineSpec, Tier

TIMESTAMP_MS = "unix_millis(_timestamp)"
"""When the broker took the record. It, not the wall clock, bounds the future, so that a replay agrees."""

TS, CREATED = "_ts", "_created_ms"
"""The event's time and its record's, in epoch milliseconds, whatever type they came in."""


def clean(events: DataFrame, spec: PipelineSpec, tier: Tier) -> DataFrame:
    """Events with the columns that the spec makes or normalises, and with their times in milliseconds."""
    used = spec.used_columns(tier)
    made = {name: F.expr(text) for name, text in spec.cleanse.set.items() if name in used}
    kept = [made.pop(name).alias(name) if name in made else F.col(f"`{name}`") for name in events.columns]
    events = events.select(*kept, *(column.alias(name) for name, column in made.items()))
    created = spec.source.created
    return events.withColumns(
        {
            TS: _millis(events, spec.source.event_time),
            CREATED: _millis(events, created) if created else F.expr(TIMESTAMP_MS),
        }
    )


def _millis(events: DataFrame, name: str) -> Column:
    column = F.col(f"`{name}`")
    return F.unix_millis(column) if events.schema[name].dataType.typeName() == "timestamp" else column


def judged(events: DataFrame, spec: PipelineSpec) -> DataFrame:
    """Events with the reason to set each aside, for a filter.

    Spark moves a filter below the columns that it reads, and decodes a record anew for each of them: 11 times
    for the clickstream. It moves none below a column that it takes for random.
    """
    return events.withColumn("_reason", F.when(F.spark_partition_id() >= 0, F.expr(reason(spec))))


def reason(spec: PipelineSpec) -> str:
    """The first rule that a record breaks, in words, as one SQL expression."""
    rules = [f"WHEN {ERROR} IS NOT NULL THEN concat('malformed: ', {ERROR})"]
    rules += [f"WHEN `{name}` IS NULL THEN 'required: {name} is missing'" for name in _required(spec)]
    name, future, past = spec.source.event_time, spec.cleanse.future, spec.cleanse.past
    rules.append(
        f"WHEN {TS} > {TIMESTAMP_MS} + {future.ms} THEN "
        f"concat('future: {name} is ', {TS} - {TIMESTAMP_MS}, ' ms ahead of the broker, {future.ms} allowed')"
    )
    if past is not None:
        rules.append(
            f"WHEN {TS} < {TIMESTAMP_MS} - {past.ms} THEN "
            f"concat('past: {name} is ', {TIMESTAMP_MS} - {TS}, ' ms behind the broker, {past.ms} allowed')"
        )
    rules += [
        f"WHEN NOT coalesce(({condition}), false) THEN 'condition: {rule} does not hold'"
        for rule, condition in spec.cleanse.where.items()
    ]
    return f"CASE {' '.join(rules)} END"


def _required(spec: PipelineSpec) -> list[str]:
    """What the spec requires, and what no session or window can be without."""
    always = [spec.source.event_time, *([spec.grouping.key] if spec.grouping else [])]
    return list(dict.fromkeys((*spec.cleanse.require, *always)))
