"""Events to sessions or windows, by the kernel's two stages: before the shuffle and behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, LongType

from penstock.engine.cleanse import CREATED, TS, reason
from penstock.errors import SpecError
from penstock.spec import Grouping, Measure, PipelineSpec

Layout = list[list[str]]
"""Name, operation and type of each measure: what state is written by."""


def group(
    spark: SparkSession,
    events: DataFrame,
    spec: PipelineSpec,
    layouts: Sequence[Layout],
    *,
    live: bool = True,
) -> DataFrame:
    """Rows of every kind (live, final, corrected, retracted, late, duplicate, rejected); see Spans.java.

    Rejected records travel with the rest under a key of their own: a branch for them would read and decode
    the topic a second time. Without `live`, rows of that kind are only counted.
    """
    grouping = _required_grouping(spec)
    kernel = _kernel(spark, spec, layouts)
    kernel.register()
    judged = events.withColumn("_reason", F.expr(reason(spec)))
    tick = F.col("_clock_ms").isNotNull()
    good = F.col("_reason").isNull() & ~tick
    aside = F.concat(F.lit("\0aside-"), F.col("_partition").cast("string"))
    event = F.struct(
        F.when(good, F.col(f"`{grouping.key}`").cast("string")).otherwise(aside).alias("key"),
        F.when(good, F.col(TS)).alias("ts"),
        F.col(CREATED).alias("created_ms"),
        F.col("_partition").alias("partition"),
        F.col("_offset").alias("offset"),
        _dedupe_id(spec).alias("id"),
        F.when(~tick, F.col("_reason")).alias("reason"),
        F.when(~good & ~tick, F.col("_value")).alias("raw"),
        F.col("_clock_ms").alias("tick_ms"),
        *measure_columns(judged, grouping),
    ).alias("event")
    parts = judged.select(event).select(F.expr(f"penstock.part.`{spec.name}`(event)").alias("part"))
    packets = DataFrame(kernel.pack(parts._jdf, grouping.combine), spark)
    # With its event-time column dropped, the operator's timers follow the watermark but no row is dropped as
    # late before the operator sees it: it decides. A tick only moves the clock; a rejected record does not.
    at = packets.withColumn("_at", F.timestamp_millis("newest_ms"))
    timed = at.withWatermark("_at", f"{grouping.out_of_order.ms} milliseconds").select("bucket", "parts")
    dedupe = spec.cleanse.dedupe
    within_ms = dedupe.within.ms if dedupe else 0
    told = kernel.apply(timed._jdf, grouping.lateness.ms, within_ms, live)
    rows = DataFrame(told, spark).select(F.expr(f"penstock.told.`{spec.name}`(value)").alias("_told"))
    return rows.select("_told.*")


def measure_layout(events: DataFrame, spec: PipelineSpec) -> Layout:
    """What state must hold for the spec, given the types of its expressions."""
    grouping = _required_grouping(spec)
    return [
        [measure.name, measure.function, held.simpleString()]
        for measure, held in zip(grouping.measures, _held_types(events, grouping), strict=True)
    ]


def measure_columns(events: DataFrame, grouping: Grouping) -> list[Column]:
    """The value that each measure takes of an event, as a type that the kernel holds."""
    return [
        (F.when(_value(measure).isNotNull(), F.lit(1)) if measure.function == "count" else _value(measure))
        .cast(held)
        .alias(measure.name)
        for measure, held in zip(grouping.measures, _held_types(events, grouping), strict=True)
    ]


def _value(measure: Measure) -> Column:
    return F.lit(1) if measure.expression is None else F.expr(measure.expression)


def _held_types(events: DataFrame, grouping: Grouping) -> list[DataType]:
    """What each measure is held as. Spark is asked for all at once: each question is another analysis."""
    fields = events.select(*map(_value, grouping.measures)).schema.fields
    return [
        _held_type(measure, field.dataType) for measure, field in zip(grouping.measures, fields, strict=True)
    ]


def _held_type(measure: Measure, type_: DataType) -> DataType:
    if measure.function == "count":
        return LongType()
    held = _held_as(type_)
    if held is None or (measure.function == "sum" and held.typeName() not in ("long", "double", "decimal")):
        problem = f"cannot take the {measure.function} of a {type_.simpleString()}"
        raise SpecError("measures", [f'{measure.name} = "{measure.text}": {problem}'])
    return held


def _held_as(type_: DataType) -> DataType | None:
    """What the kernel holds a value as, if it can."""
    name = type_.typeName()
    if name in ("string", "boolean", "decimal", "date", "timestamp", "long", "double"):
        return type_
    if name in ("byte", "short", "integer"):
        return LongType()
    return DoubleType() if name == "float" else None


def _dedupe_id(spec: PipelineSpec) -> Column:
    if spec.cleanse.dedupe is None:
        return F.lit(None).cast("string")
    return F.col(f"`{spec.cleanse.dedupe.on}`").cast("string")


def _required_grouping(spec: PipelineSpec) -> Grouping:
    if spec.grouping is None:
        raise SpecError(spec.name, ["has neither [sessions] nor [windows]"])
    return spec.grouping


def _kernel(spark: SparkSession, spec: PipelineSpec, layouts: Sequence[Layout]) -> Any:
    made = spark._jvm.penstock.kernel.Grouping  # type: ignore[union-attr]
    if spec.sessions is not None:
        length = spec.sessions.max_length
        bounds = spec.sessions.gap.ms, length.ms if length else 0
        return made.sessions(spec.name, int(spec.sessions.partitions), *bounds, list(layouts))
    if spec.windows is not None:
        bounds = spec.windows.size.ms, spec.windows.step.ms
        return made.windows(spec.name, int(spec.windows.partitions), *bounds, list(layouts))
    raise SpecError(spec.name, ["has neither [sessions] nor [windows]"])
