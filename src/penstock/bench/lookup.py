"""What a lookup of many users costs: heap of the JVM, and the time until a new version can be used.

    python -m penstock.bench.lookup --users 1000000

Beside it the same rows broadcast by Spark's own join, which is what the plain profile uses.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.bench.rig import Rig, open_rig
from penstock.bench.stages import reference_spec
from penstock.engine.checkpoint import Checkpoint
from penstock.engine.enrich import Lookups
from penstock.engine.reference import KEY
from penstock.engine.refresh import references
from penstock.produce.reference import write_reference
from penstock.sizing import keep


def heap_bytes(spark: SparkSession) -> int:
    """What is alive on the heap; Spark forgets what nobody holds only after a collection, so three."""
    jvm: Any = spark._jvm
    for _ in range(3):
        jvm.System.gc()
        time.sleep(0.5)
    runtime = jvm.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--users", type=int, default=1_000_000)
    given = options.parse_args()
    spec = reference_spec("bench-lookup")
    spec = spec.model_copy(update={"enrich": (spec.enrich[0],)})
    with open_rig(spec, print) as rig:
        write_reference(rig.data.reference, users=given.users)
        size = (rig.data.reference / "users.parquet").stat().st_size
        print(f"{given.users:,} users, {size / 1e6:.1f} MB of Parquet")
        before, began = heap_bytes(rig.spark), time.perf_counter()
        checkpoint = Checkpoint(rig.data.checkpoints / spec.name, spec.source.topic)
        held = Lookups(rig.spark, references(spec, rig.data, "", print), checkpoint, print)
        seconds = time.perf_counter() - began
        grown = heap_bytes(rig.spark) - before
        _report("lookup", grown, given.users, seconds)
        keep("lookup_bytes", grown / given.users, f"python -m penstock.bench.lookup --users {given.users}")
        del held
        checkpoint.close()
        _broadcast_join(rig, given.users)


def _broadcast_join(rig: Rig, users: int) -> None:
    """The rows as Spark's broadcast holds them, once one key has been joined with them."""
    spark = rig.spark
    rows = spark.read.parquet(str(rig.data.reference / "users.parquet")).withColumnRenamed("user_id", KEY)
    # No literal: Spark would look for it in the file, and broadcast what it found.
    one = spark.range(1).select(F.concat(F.lit("u"), F.col("id").cast("string")).alias("user_id"))
    before, began = heap_bytes(spark), time.perf_counter()
    joined = one.join(F.broadcast(rows.select(KEY, "segment", "country")), F.col("user_id") == F.col(KEY))
    joined.collect()  # its plan holds the rows; a count would have one of its own, and let go of it
    seconds = time.perf_counter() - began
    _report("Spark's broadcast join", heap_bytes(spark) - before, users, seconds)


def _report(what: str, grown: int, users: int, seconds: float) -> None:
    print(
        f"{what:24} {grown / 1e6:7.1f} MB of heap  {grown / users:6.1f} bytes a row  ready in {seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
