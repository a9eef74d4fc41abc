"""The twin of the kernel in pure PySpark: from_json, broadcast joins, session_window.

It gives final rows only, drops late and malformed records unseen, and is there to check the kernel against,
to be compared with in benchmarks, and for clusters that take no jars of their own.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.cleanse import reason
from penstock.engine.decode import ERROR
from penstock.engine.enrich import reference
from penstock.paths import DataDir
from penstock.spec import Measure, PipelineSpec


def plain_sessions(spark: SparkSession, records: DataFrame, spec: PipelineSpec, data: DataDir) -> DataFrame:
    """Final rows, with the columns of the kernel's."""
    schema = f"{spec.source.ddl}, _corrupt string"
    options = {"columnNameOfCorruptRecord": "_corrupt", "mode": "PERMISSIVE"}
    text = F.col("value").cast("string")
    events = records.select("*", F.from_json(text, schema, options).alias("_decoded")).select(
        "partition", "offset", "timestamp", "_decoded.*"
    )
    # from_json gives null fields, not an error, for what is no JSON object at all.
    events = events.withColumn(ERROR, F.col("_corrupt"))
    for table in spec.enrich:
        rows = reference(spark, table, data)
        joined = F.col(f"`{table.on}`").cast("string") == F.col("_key")
        events = events.join(F.broadcast(rows), joined, "left").drop("_key")
    events = events.where(f"({reason(spec)}) IS NULL")
    ts = F.timestamp_millis(F.col(f"`{spec.source.event_time}`"))
    gap_ms = spec.sessions.gap.ms
    grouped = (
        events.withColumn("_at", ts)
        .withWatermark("_at", f"{spec.sessions.out_of_order.ms} milliseconds")
        .groupBy(
            F.col(f"`{spec.sessions.key}`").cast("string").alias("key"),
            F.session_window("_at", f"{gap_ms} milliseconds").alias("_window"),
        )
        .agg(
            *(_aggregate(measure, spec) for measure in spec.sessions.measures),
            F.count("*").alias("new_events"),
        )
    )
    start_ms = F.unix_millis(F.col("_window.start"))
    # A window ends a gap after its last event.
    end_ms = F.unix_millis(F.col("_window.end")) - gap_ms
    return grouped.select(
        F.lit("final").alias("kind"),
        F.concat("key", F.lit("@"), start_ms.cast("string")).alias("session_id"),
        "key",
        start_ms.alias("start_ms"),
        end_ms.alias("end_ms"),
        F.lit(1).cast("long").alias("version"),
        F.lit(True).alias("is_final"),
        "new_events",
        *(F.lit(None).cast(type_).alias(name) for name, type_ in _ABSENT.items()),
        *(F.col(measure.name) for measure in spec.sessions.measures),
    )


_ABSENT = {
    "oldest_created_ms": "long",
    "partition": "int",
    "offset": "long",
    "ts": "long",
    "reason": "string",
    "raw": "binary",
}


def _aggregate(measure: Measure, spec: PipelineSpec) -> Column:
    if measure.expression is None:
        return F.count("*").alias(measure.name)
    value = F.expr(measure.expression)
    # Nulls are passed over, ties go by partition and offset: as the kernel does.
    place = F.when(value.isNotNull(), F.struct(f"`{spec.source.event_time}`", "partition", "offset"))
    match measure.function:
        case "count":
            column = F.count(value)
        case "sum":
            column = F.sum(value)
        case "min":
            column = F.min(value)
        case "max":
            column = F.max(value)
        case "first":
            column = F.min_by(value, place)
        case "last":
            column = F.max_by(value, place)
    return column.alias(measure.name)
