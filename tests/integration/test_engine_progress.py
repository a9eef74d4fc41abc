"""What is read of Spark's batches, and how much asking it takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.progress import Progress

SLEEPS = "reflect('java.lang.Thread', 'sleep', 200L)"


@contextmanager
def running(spark: SparkSession, checkpoint: Path, column: str) -> Iterator[StreamingQuery]:
    """A query whose batches each run one job."""

    def compute(rows: DataFrame, _batch: int) -> None:
        rows.selectExpr(column).collect()

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = source.writeStream.foreachBatch(compute).option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()


def reports_of(progress: Progress, batches: int, *, every_s: float) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + 60
    while len(found) < batches and time.monotonic() < deadline:
        found += progress.new()
        time.sleep(every_s)
    return found


def test_a_batch_is_reported_with_its_stages_though_the_next_one_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running(spark, tmp_path, SLEEPS) as query:
        found = reports_of(Progress(spark, query), 12, every_s=0.15)
    told = [report["stages"] for report in found if report["stages"]]
    # What Spark has not heard of yet when it is asked is left out.
    assert len(told) >= 10
    assert all(stage["status"] == "COMPLETE" for stages in told for stage in stages)


def test_asking_takes_no_longer_the_more_batches_there_have_been(spark: SparkSession, tmp_path: Path) -> None:
    client: Any = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    send, here = client.send_command, threading.current_thread()
    calls = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        # Not those of the batches.
        calls += threading.current_thread() is here
        return send(*args, **kwargs)

    with running(spark, tmp_path, "value") as query:
        progress = Progress(spark, query)
        reports_of(progress, 40, every_s=0.01)
        with patch.object(client, "send_command", counted):
            reports = reports_of(progress, 10, every_s=0.1)
    assert calls / len(reports) < 40
