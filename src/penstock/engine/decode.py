"""Bytes to columns, by the kernel."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spec import PipelineSpec

ERROR = "_error"


def decode(spark: SparkSession, records: DataFrame, spec: PipelineSpec) -> DataFrame:
    """Add the columns that the pipeline uses and `_error`, which says what is wrong and where."""
    name = _function_name(spec.name)
    used = set(spec.used_columns())
    ddl = ", ".join(f"`{column.name}` {column.type}" for column in spec.source.columns if column.name in used)
    spark._jvm.penstock.kernel.Functions.decode(name, ddl, spec.source.epoch)  # type: ignore[union-attr]
    decoded = F.expr(f"penstock.decode.{name}(value)").alias("_decoded")
    return records.select("*", decoded).select("value", "partition", "offset", "timestamp", "_decoded.*")


def _function_name(name: str) -> str:
    return f"`{name}`" if not name.isidentifier() else name
