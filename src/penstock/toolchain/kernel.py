"""The kernel: Java sources compiled on first use against the jars of Spark, and kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from penstock.paths import shipped
from penstock.toolchain.compiled import ensure_compiled
from penstock.toolchain.jars import pyspark_jars


def ensure_kernel(jars: Sequence[Path], say: Callable[[str], None], sources: Path | None = None) -> Path:
    """The kernel's jar, compiled when the sources or PySpark have changed since the last time.

    `jars` are those that Spark has beside its own: the Kafka connector.
    """
    root = sources or shipped("jvm")
    classpath = [f"{pyspark_jars()}/*", *map(str, jars)]
    versions = [version("pyspark"), *(jar.name for jar in jars)]
    return ensure_compiled("kernel", [root], os.pathsep.join(classpath), " ".join(versions), say)
