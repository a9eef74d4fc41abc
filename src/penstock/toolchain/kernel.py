"""The kernel: Java sources compiled on first use against PySpark's own jars, and kept."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from penstock.paths import shipped
from penstock.toolchain.compiled import ensure_compiled
from penstock.toolchain.jars import pyspark_jars


def ensure_kernel(say: Callable[[str], None], sources: Path | None = None) -> Path:
    """The kernel's jar, compiled when the sources or PySpark have changed since the last time."""
    root = sources or shipped("jvm")
    return ensure_compiled("kernel", [root], f"{pyspark_jars()}/*", version("pyspark"), say)
