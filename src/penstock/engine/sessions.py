"""Events to sessions, by the kernel's stateful operator."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, DoubleType, FloatType, LongType, StringType

from penstock.engine.cleanse import reason
from penstock.errors import SpecError
from penstock.spec import PipelineSpec


def sessions(spark: SparkSession, events: DataFrame, spec: PipelineSpec) -> DataFrame:
    """Rows of every kind (live, final, corrected, retracted, late, rejected); see Sessions.java.

    Rejected records travel with the rest under a key of their own: a branch for them would read and decode
    the topic a second time.
    """
    judged = events.withColumn("_reason", F.expr(reason(spec)))
    good = F.col("_reason").isNull()
    ts = F.col(f"`{spec.source.event_time}`")
    created = F.col(f"`{spec.source.created}`") if spec.source.created else F.unix_millis("timestamp")
    rejected_key = F.concat(F.lit("\0rejected-"), F.col("partition").cast("string"))
    rows = judged.select(
        F.when(good, F.col(f"`{spec.sessions.key}`").cast("string")).otherwise(rejected_key).alias("key"),
        F.when(good, ts).alias("ts"),
        created.alias("created_ms"),
        "partition",
        "offset",
        F.col("_reason").alias("reason"),
        F.when(good, None).otherwise(F.col("value")).alias("raw"),
        # A rejected record's time counts as the beginning of time, so that it never moves the clock.
        F.timestamp_millis(F.when(good, ts).otherwise(F.lit(0))).alias("_at"),
        *_measure_columns(judged, spec),
    )
    # With its event-time column dropped, the operator's timers follow the watermark but no row is dropped as
    # late before the operator sees it: it decides.
    timed = rows.withWatermark("_at", f"{spec.sessions.out_of_order.ms} milliseconds").drop("_at")
    kernel = spark._jvm.penstock.kernel.Sessions  # type: ignore[union-attr]
    measures = spec.sessions.measures
    out = kernel.apply(
        timed._jdf,
        spec.sessions.gap.ms,
        spec.sessions.lateness.ms,
        [measure.name for measure in measures],
        [measure.function for measure in measures],
    )
    return DataFrame(out, spark)


def _measure_columns(events: DataFrame, spec: PipelineSpec) -> list[Column]:
    """One column for each measure but count(*), as a type that the kernel folds."""
    measured = [measure for measure in spec.sessions.measures if measure.expression is not None]
    types = events.select(
        *(F.expr(measure.expression or "").alias(measure.name) for measure in measured)
    ).schema
    columns = []
    for measure, field in zip(measured, types.fields, strict=True):
        target = _kernel_type(field.dataType)
        if target is None or (measure.function == "sum" and not isinstance(target, LongType | DoubleType)):
            problem = f"cannot take the {measure.function} of a {field.dataType.simpleString()}"
            raise SpecError("sessions.measures", [f'{measure.name} = "{measure.text}": {problem}'])
        columns.append(F.expr(measure.expression or "").cast(target).alias(measure.name))
    return columns


def _kernel_type(type_: DataType) -> DataType | None:
    if isinstance(type_, StringType | BooleanType):
        return type_
    if isinstance(type_, DoubleType | FloatType) or type_.typeName() == "decimal":
        return DoubleType()
    if type_.typeName() in ("byte", "short", "integer", "long"):
        return LongType()
    return None
