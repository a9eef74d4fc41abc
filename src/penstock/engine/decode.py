"""Bytes to columns, by the kernel."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spec import PipelineSpec, Tier

ERROR = "_error"
RECORD = ("value", "partition", "offset", "timestamp", "clock_ms")
"""The columns of a record as it came; `clock_ms` is null but for ticks (see clock.py)."""


def decode(spark: SparkSession, records: DataFrame, spec: PipelineSpec, tier: Tier) -> DataFrame:
    """Add the columns that the tier reads and `_error`, which says what is wrong and where."""
    name = f"{spec.name}-{tier}"
    used = spec.used_columns(tier)
    ddl = ", ".join(f"`{column.name}` {column.type}" for column in spec.source.columns if column.name in used)
    spark._jvm.penstock.kernel.Functions.decode(name, ddl)  # type: ignore[union-attr]
    decoded = F.expr(f"penstock.decode.`{name}`(value)").alias("_decoded")
    return records.select(*RECORD, decoded).select(*RECORD, "_decoded.*")
