"""What a pipeline runs on, told with its start."""

from __future__ import annotations

import os
import platform

import psutil

from penstock import __version__

_STARTING = "starting Spark"


def starting(spark: str, java: int) -> str:
    """The note of a start: versions, cores and memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{_STARTING} ...: penstock {__version__}, Spark {spark}, Java {java},"
        f" Python {platform.python_version()}, {platform.system()} with {cores} cores and {memory:.0f} GiB"
    )


def machine_of(note: str) -> str:
    """What such a note tells; empty for other notes, and for those of a version that did not tell."""
    return note.partition(" ...: ")[2] if note.startswith(_STARTING) else ""
