"""Rows of single events: decoded, cleansed, enriched, and nothing kept of them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.engine.cleanse import CREATED, reason
from penstock.spec import PipelineSpec

EVENT_PREFIX = "event."
"""Of the columns that the spec knows, so that no name of theirs is one of ours."""


EVENT = "event"
"""The kind of a good event's row."""


def event_rows(events: DataFrame, spec: PipelineSpec) -> DataFrame:
    """One row a record, `event` or `rejected`, with the columns that outputs.py goes by."""
    names = {name for sink in spec.sink if "events" in sink.rows for name in spec.event_columns(sink)}
    judged = events.withColumn("_reason", F.expr(reason(spec)))
    good = F.col("_reason").isNull()
    return judged.select(
        F.when(good, EVENT).otherwise("rejected").alias("kind"),
        F.lit(None).cast("string").alias("span_id"),
        F.lit(None).cast("long").alias("version"),
        F.lit(False).alias("is_final"),
        F.when(good, 1).otherwise(0).cast("long").alias("new_events"),
        F.col(CREATED).alias("oldest_created_ms"),
        F.col("_partition").alias("partition"),
        F.col("_offset").alias("offset"),
        F.col("_reason").alias("reason"),
        F.when(~good, F.col("_value")).alias("raw"),
        *(F.col(f"`{name}`").alias(f"{EVENT_PREFIX}{name}") for name in events.columns if name in names),
    )


def without_events(rows: DataFrame) -> DataFrame:
    """The rows, but of the events only how many were created when: what a receipt has to know of them."""
    is_event = F.col("kind") == EVENT
    created = rows.where(is_event).groupBy("kind", "oldest_created_ms")
    counted = created.agg(F.sum("new_events").alias("new_events"))
    return rows.where(~is_event).unionByName(counted, allowMissingColumns=True)
