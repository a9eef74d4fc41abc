"""How the engine's JVM starts."""

from __future__ import annotations

import subprocess

import pytest
from pyspark.sql import SparkSession

from penstock.toolchain import ensure_java

pytestmark = pytest.mark.integration

SHARED = "java.cls.sharedLoadedClasses"


def test_classes_that_were_recorded_are_mapped_and_not_read_again(spark: SparkSession) -> None:
    if "-XX:SharedArchiveFile=" not in str(spark.conf.get("spark.driver.extraJavaOptions")):
        pytest.skip("nothing is recorded: run `penstock prepare` before")
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    command = [str(ensure_java(print).home / "bin" / "jcmd"), str(jvm), "PerfCounter.print"]
    counters = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    [shared] = [line.partition("=")[2] for line in counters if line.startswith(SHARED)]
    # Of the JDK's own there are some 1,300, always.
    assert int(shared) > 5_000
