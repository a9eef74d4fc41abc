"""Bytes to columns, by the kernel."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spec import PipelineSpec, Tier

ERROR = "_error"
RECORD = {name: f"_{name}" for name in ("value", "partition", "offset", "timestamp", "clock_ms")}
"""The columns of a record as it came, and what they are called beside those of the schema, which start with
a letter. The last is null but for ticks (see clock.py)."""


def decode(spark: SparkSession, records: DataFrame, spec: PipelineSpec, tier: Tier) -> DataFrame:
    """Add the columns that the tier reads and `_error`, which says what is wrong and where."""
    name = f"{spec.name}-{tier}"
    used = spec.used_columns(tier)
    ddl = ", ".join(f"`{column.name}` {column.type}" for column in spec.source.columns if column.name in used)
    passed = [column.name for column in spec.source.columns if column.name not in used]
    functions = spark._jvm.penstock.kernel.Functions  # type: ignore[union-attr]
    functions.decode(name, ddl, passed, spec.source.epoch)
    decoded = F.expr(f"penstock.decode.`{name}`(value)")
    return beside_record(records, decoded)


def beside_record(records: DataFrame, decoded: Column) -> DataFrame:
    """A record's own columns, then the fields of what was decoded from it."""
    own = [F.col(name).alias(alias) for name, alias in RECORD.items()]
    return records.select(*own, decoded.alias("_decoded")).select(*RECORD.values(), "_decoded.*")
