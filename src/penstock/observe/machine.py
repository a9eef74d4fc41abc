"""What a pipeline runs on, as one note of its journal."""

from __future__ import annotations

import os
import platform
import re

import psutil
import pyspark

from penstock import __version__

_BEGINS = re.compile(r"penstock \d")


def machine(java: int) -> str:
    """Versions, cores and memory of this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"penstock {__version__}, Spark {pyspark.__version__}, Java {java},"
        f" Python {platform.python_version()}, {platform.system()} with {cores} cores and {memory:.0f} GiB"
    )


def is_machine(note: str) -> bool:
    """Whether a note tells of a machine."""
    return _BEGINS.match(note) is not None
