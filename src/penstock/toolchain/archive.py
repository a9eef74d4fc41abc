"""What a JVM of Spark's loads at its start, kept so that it maps it into memory instead of reading jars.

It is the JVM's own class data sharing, recorded once by a rehearsal. With it Spark is up in 3.7 s instead of
6.9, its first query takes 2.0 s instead of 4.3, and both half the CPU (2 cores; medians, each in a new JVM).
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.toolchain.java import Java, ensure_java

_RECORDED_WITHIN_S = 300
_QUIET = "-Xlog:cds*=off,class+path=off"
"""An archive that does not fit after all is passed over, and nobody needs to know."""


def archive_options(java: Java) -> list[str]:
    """For a JVM of Spark's: to use the archive, if there is one for this JDK."""
    archive = _place(java)
    return _use(archive) if archive.exists() else []


def recording_options(archive: Path) -> list[str]:
    """For a JVM of Spark's: to write the archive when it ends."""
    return [f"-XX:ArchiveClassesAtExit={archive}", "-XX:TieredStopAtLevel=1", _QUIET]


def ensure_archive(say: Callable[[str], None]) -> Path | None:
    """The archive, recorded if there is none for this JDK. Where that fails, starts take what they took."""
    java = ensure_java(say)
    archive = _place(java)
    if archive.exists():
        return archive
    say("rehearsing a start of Spark, so that all others are quicker (about a minute) ...")
    started = time.monotonic()
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=archive.parent, prefix="recording-") as work:
            recorded = Path(work) / archive.name
            _rehearse(recorded)
            # One that was not written to its end, because a disk is full, would take a JVM down.
            _run([str(java.java), *_use(recorded), "-version"], work)
            recorded.replace(archive)  # whole or not at all, also with two processes recording
    except (OSError, subprocess.SubprocessError) as error:
        say(f"not recorded, starts take a few seconds more: {error}")
        return None
    say(f"rehearsed in {time.monotonic() - started:.1f} s")
    return archive


def _rehearse(archive: Path) -> None:
    _run([sys.executable, "-m", "penstock.testing.rehearsal", str(archive)])


def _run(command: list[str], directory: str | None = None) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=_RECORDED_WITHIN_S, cwd=directory)


def _use(archive: Path) -> list[str]:
    return [f"-XX:SharedArchiveFile={archive}", _QUIET]


def _place(java: Java) -> Path:
    """In the Python environment: it is good for no other PySpark."""
    release = java.home / "release"
    told = release.read_bytes() if release.exists() else str(java.home).encode()
    key = hashlib.sha256(told + version("pyspark").encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "penstock" / f"spark-{key}.jsa"
