"""What a lookup of many users costs: heap of the JVM, and the time until a new version can be used.

Beside it the same rows broadcast by Spark's own join, which is what the plain profile uses.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.bench.result import Column, Result, Row
from penstock.bench.rig import Rig, open_rig
from penstock.bench.stages import reference_spec
from penstock.engine.checkpoint import Checkpoint
from penstock.engine.enrich import Lookups
from penstock.engine.reference import KEY
from penstock.engine.refresh import references
from penstock.produce.reference import write_reference
from penstock.sizing import keep as keep_figure

COLUMNS = (
    Column("what", "what"),
    Column("heap_mb", "heap, MB", 1, drawn=True),
    Column("bytes_a_row", "bytes a row", 1),
    Column("ready_s", "ready after, s", 1, drawn=True),
)


def heap_bytes(spark: SparkSession) -> int:
    """What is alive on the heap; Spark forgets what nobody holds only after a collection, so three."""
    jvm: Any = spark._jvm
    for _ in range(3):
        jvm.System.gc()
        time.sleep(0.5)
    runtime = jvm.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def measure(users: int, say: Callable[[str], None]) -> Result:
    spec = reference_spec("bench-lookup")
    spec = spec.model_copy(update={"enrich": (spec.enrich[0],)})
    with open_rig(spec, say) as rig:
        write_reference(rig.data.reference, users=users)
        before, began = heap_bytes(rig.spark), time.perf_counter()
        checkpoint = Checkpoint(rig.data.checkpoints / spec.name, spec.source.topic)
        held = Lookups(rig.spark, references(spec, rig.data, "", say), checkpoint, say)
        seconds = time.perf_counter() - began
        grown = heap_bytes(rig.spark) - before
        keep_figure("lookup_bytes", grown / users, f"penstock bench lookup --users {users}")
        rows = [_row("lookup", grown, users, seconds)]
        del held
        checkpoint.close()
        rows.append(_broadcast_join(rig, users))
    return Result(
        "lookup",
        f"{users:,} users with two columns each, ready to be looked up by tasks: what the heap grows by, and"
        " the time until the first can be found.",
        COLUMNS,
        rows,
    )


def _broadcast_join(rig: Rig, users: int) -> Row:
    """The rows as Spark's broadcast holds them, once one key has been joined with them."""
    spark = rig.spark
    rows = spark.read.parquet(str(rig.data.reference / "users.parquet")).withColumnRenamed("user_id", KEY)
    # No literal: Spark would look for it in the file, and broadcast what it found.
    one = spark.range(1).select(F.concat(F.lit("u"), F.col("id").cast("string")).alias("user_id"))
    before, began = heap_bytes(spark), time.perf_counter()
    joined = one.join(F.broadcast(rows.select(KEY, "segment", "country")), F.col("user_id") == F.col(KEY))
    joined.collect()  # its plan holds the rows; a count would have one of its own, and let go of it
    seconds = time.perf_counter() - began
    return _row("Spark's broadcast join", heap_bytes(spark) - before, users, seconds)


def _row(what: str, grown: int, users: int, seconds: float) -> Row:
    return {"what": what, "heap_mb": grown / 1e6, "bytes_a_row": grown / users, "ready_s": seconds}
