"""What the test of a pipeline can do to the engine: have batches come again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.errors import ReplayDiffers
from penstock.paths import DataDir
from penstock.spec import PipelineSpec
from penstock.testing.stream import EngineRun

pytestmark = pytest.mark.integration

MINUTE = 60_000


class Sums(EngineRun):
    """A pipeline, and the batches in the order in which they came."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        described: dict[str, Any] = {
            "name": "sums",
            "source": {
                "topic": "t",
                "schema": "user string, ts long, x long",
                "key": "user",
                "event_time": "ts",
            },
            "sessions": {"key": "user", "gap": "1 hour", "partitions": 2, "measures": {"total": "sum(x)"}},
            "sink": [{"kind": "kafka", "topic": "out"}],
        }
        super().__init__(spark, PipelineSpec(**described), DataDir.at(directory))
        self.came: list[int] = []
        self.after = self.came.append

    def click(self, minute: int) -> bytes:
        return b'{"user": "ann", "ts": %d, "x": 1}' % (minute * MINUTE)


def test_a_batch_that_dies_comes_again_on_the_state_before_it_and_is_told_of_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Sums(spark, tmp_path)
    rows = stream.run([[stream.click(minute)] for minute in range(3)], replay={0, 2})
    assert stream.came == [0, 0, 1, 2, 2, 3]
    assert [[(row["total"], row["version"]) for row in batch] for batch in rows] == [
        [(1, 1)],
        [(2, 2)],
        [(3, 3)],
        [],
    ]


def test_a_batch_whose_commit_is_lost_is_the_first_of_the_next_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Sums(spark, tmp_path)
    *_, last = stream.run([[stream.click(9)], [stream.click(0)]])
    stream.lose_commit()
    again, *rows = stream.run([[stream.click(1)], [stream.click(2)]], replay={1})
    assert again == last
    assert [row["total"] for batch in rows for row in batch if row["kind"] == "live"] == [3, 4]
    assert stream.came == [0, 1, 1, 2, 3, 3]


def test_rows_that_are_not_the_same_again_are_named(spark: SparkSession, tmp_path: Path) -> None:
    stream, source = Sums(spark, tmp_path), DataDir.at(tmp_path) / "source"

    def change(batch: int) -> None:
        if batch == 1:
            shutil.copy(source / "00000.parquet", source / "00001.parquet")

    stream.after = change
    with pytest.raises(
        ReplayDiffers, match=r"batch 1 came again .* live ann@0 version 2: end_ms is 0, expected 60000"
    ):
        stream.run([[stream.click(0)], [stream.click(1)]], replay={1})


def test_an_error_that_nobody_asked_for_is_raised(spark: SparkSession, tmp_path: Path) -> None:
    stream = Sums(spark, tmp_path)

    def fail(batch: int) -> None:
        raise RuntimeError(f"batch {batch} is too much")

    stream.after = fail
    with pytest.raises(Exception, match="batch 0 is too much"):
        stream.run([[stream.click(0)], [stream.click(1)]], replay={1})


def test_a_batch_that_there_is_not_cannot_come_again(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"replay has \[2\], but the 1 batches count from 0"):
        Sums(spark, tmp_path).run([[]], replay={0, 2})
