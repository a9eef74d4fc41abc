"""Reference data beside each event, by the kernel's lookup."""

from __future__ import annotations

from pathlib import Path

from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import SpecError, first_line
from penstock.paths import DataDir
from penstock.spec import Enrich, PipelineSpec


def enrich(spark: SparkSession, events: DataFrame, spec: PipelineSpec, data: DataDir) -> DataFrame:
    """Add the columns that each lookup takes; null where the key is unknown."""
    for table in spec.enrich:
        _register(spark, table, reference(spark, table, data))
        found = F.expr(f"penstock.lookup.`{table.name}`(CAST(`{table.on}` AS string))").alias("_found")
        taken = [F.col(f"_found.`{name}`").alias(name) for name in table.take]
        columns = [F.col(f"`{name}`") for name in events.columns]
        events = events.select(*columns, found).select(*columns, *taken)
    return events


def reference(spark: SparkSession, table: Enrich, data: DataDir) -> DataFrame:
    """The key, as text, and the columns taken of a reference table."""
    path = data.root / Path(table.path or "")
    where = f"enrich {table.name}"
    if not path.exists():
        raise SpecError(where, [f'path = "{table.path}": no such file ({path})'])
    try:
        rows = spark.read.parquet(str(path))
    except AnalysisException as error:
        raise SpecError(
            where, [f'path = "{table.path}": not a Parquet file: {error.getCondition()}']
        ) from error
    missing = [name for name in (table.on, *table.take) if name not in rows.columns]
    if missing:
        known = ", ".join(rows.columns)
        raise SpecError(
            where, [f'"{name}": no such column in {path.name} (known: {known})' for name in missing]
        )
    return rows.select(
        F.col(f"`{table.on}`").cast("string").alias("_key"), *(f"`{name}`" for name in table.take)
    )


def _register(spark: SparkSession, table: Enrich, rows: DataFrame) -> None:
    try:
        spark._jvm.penstock.kernel.Functions.lookup(table.name, rows._jdf)  # type: ignore[union-attr]
    except IllegalArgumentException as error:
        raise SpecError(f"enrich {table.name}", [f'path = "{table.path}": {first_line(error)}']) from error
