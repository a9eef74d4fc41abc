"""The twin of the kernel in pure PySpark: from_json, broadcast joins, session_window and window.

It gives final rows only, drops late and malformed records unseen, and is there to check the kernel against,
to be compared with in benchmarks, and for clusters that take no jars of their own.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.cleanse import TS, clean, judged
from penstock.engine.decode import ERROR, beside_record
from penstock.engine.enrich import join
from penstock.errors import SpecError
from penstock.paths import DataDir
from penstock.spec import Measure, PipelineSpec, Tier


def plain_events(
    spark: SparkSession, records: DataFrame, spec: PipelineSpec, data: DataDir, tier: Tier, postgres: str
) -> DataFrame:
    """Decoded, cleansed and enriched events."""
    if spec.source.epoch == "ms" and any("timestamp" in column.type for column in spec.source.columns):
        raise SpecError(
            spec.name,
            ['source.epoch = "ms": engine = plain takes a number for seconds, where it is a timestamp'],
        )
    schema = f"{spec.source.ddl}, _corrupt string"
    options = {"columnNameOfCorruptRecord": "_corrupt", "mode": "PERMISSIVE"}
    # Null for what is no UTF-8: from_json would put other characters in its place, and take it.
    text = F.try_validate_utf8(F.col("value").cast("string"))
    events = beside_record(records, F.from_json(text, schema, options))
    # from_json gives null fields, not an error, for what is no JSON object at all.
    events = clean(events.withColumn(ERROR, F.col("_corrupt")), spec, tier)
    return join(spark, events, spec, data, postgres)


def plain_groups(events: DataFrame, spec: PipelineSpec) -> DataFrame:
    """Final rows of sessions or windows, with the columns of the kernel's."""
    grouping = spec.grouping
    if grouping is None or spec.cleanse.dedupe is not None:
        raise SpecError(spec.name, ["engine = plain has no dedupe"])
    if spec.sessions is not None and spec.sessions.max_length is not None:
        raise SpecError(spec.name, ["engine = plain has no sessions.max_length"])
    tick = F.col("_clock_ms").isNotNull()
    good = judged(events, spec).where(F.col("_reason").isNull() | tick)
    at = F.timestamp_millis(F.when(tick, F.col("_clock_ms")).otherwise(F.col(TS)))
    span, start_ms, end_ms = _span(spec)
    grouped = (
        good.withColumn("_at", at)
        .withWatermark("_at", f"{grouping.out_of_order.ms} milliseconds")
        .where("_clock_ms IS NULL")
        .groupBy(F.col(f"`{grouping.key}`").cast("string").alias("key"), span.alias("_span"))
        .agg(
            *(column for measure in grouping.measures for column in _aggregates(measure)),
            F.count("*").alias("new_events"),
        )
    )
    return grouped.select(
        F.lit("final").alias("kind"),
        F.concat("key", F.lit("@"), start_ms.cast("string")).alias("span_id"),
        "key",
        start_ms.alias("start_ms"),
        end_ms.alias("end_ms"),
        F.lit(1).cast("long").alias("version"),
        F.lit(True).alias("is_final"),
        "new_events",
        *(F.lit(None).cast(type_).alias(name) for name, type_ in _ABSENT.items()),
        *(name for measure in grouping.measures for name in measure.columns),
    )


def _span(spec: PipelineSpec) -> tuple[Column, Column, Column]:
    """What events are grouped by beside their key, and the start and end of it."""
    start, end = (F.unix_millis(F.col(f"_span.{bound}")) for bound in ("start", "end"))
    if spec.sessions is not None:
        gap_ms = spec.sessions.gap.ms
        # A session's window ends a gap after its last event.
        return F.session_window("_at", f"{gap_ms} milliseconds"), start, end - gap_ms
    if spec.windows is not None:
        size, step = f"{spec.windows.size.ms} milliseconds", f"{spec.windows.step.ms} milliseconds"
        return F.window("_at", size, step), start, end
    raise SpecError(spec.name, ["has neither [sessions] nor [windows]"])


_ABSENT = {
    "oldest_created_ms": "long",
    "partition": "int",
    "offset": "long",
    "ts": "long",
    "reason": "string",
    "raw": "binary",
}


def _aggregates(measure: Measure) -> list[Column]:
    if measure.expression is None:
        return [F.count("*").alias(measure.name)]
    value = F.expr(measure.expression)
    # Nulls are passed over, ties go by partition and offset: as the kernel does.
    place = F.when(value.isNotNull(), F.struct(TS, "_partition", "_offset"))
    match measure.function:
        case "count":
            column = F.count(value)
        case "sum":
            # Null where it overflows, and from then on; F.sum would fail on that record at each new start.
            column = F.try_sum(value)
        case "min":
            column = F.min(value)
        case "max":
            column = F.max(value)
        case "first":
            column = F.min_by(value, place)
        case "last":
            column = F.max_by(value, place)
        case "distinct":
            exact = F.size(F.collect_set(value)).cast("long")
            return [exact.alias(measure.name), F.lit(True).alias(f"{measure.name}_exact")]
    return [column.alias(measure.name)]
