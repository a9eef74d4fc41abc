"""The kernel: Java sources compiled on first use against PySpark's own jars, and kept."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from penstock.errors import ToolchainError
from penstock.paths import cache_dir, shipped
from penstock.toolchain.jars import pyspark_jars
from penstock.toolchain.java import OLDEST, ensure_java


def ensure_kernel(say: Callable[[str], None], sources: Path | None = None) -> Path:
    """The kernel's jar, compiled when the sources or PySpark have changed since the last time."""
    root = sources or shipped("jvm")
    files = sorted(root.rglob("*.java"))
    if not files:
        raise ToolchainError(
            f"No kernel sources under {root}.", hint="Install Penstock again: the package is not complete."
        )
    jar = cache_dir() / "kernel" / f"penstock-kernel-{_digest(root, files)}.jar"
    if not jar.exists():
        say(f"compiling the kernel ({len(files)} Java files) ...")
        started = time.monotonic()
        _compile(files, jar, say)
        say(f"compiled the kernel in {time.monotonic() - started:.1f} s")
    return jar


def _digest(root: Path, files: list[Path]) -> str:
    digest = hashlib.sha256(version("pyspark").encode())
    for file in files:
        digest.update(f"\0{file.relative_to(root)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _compile(files: list[Path], jar: Path, say: Callable[[str], None]) -> None:
    jar.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=jar.parent, prefix="compile-"))
    try:
        command: list[str | Path] = [ensure_java(say).javac, "--release", str(OLDEST), "-encoding", "UTF-8"]
        command += ["-proc:none", "-nowarn", "-cp", f"{pyspark_jars()}/*", "-d", work / "classes", *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ToolchainError(
                f"The kernel does not compile:\n{done.stdout}{done.stderr}".rstrip(),
                hint="Correct the sources named above.",
            )
        _pack(work / "classes", work / "kernel.jar")
        (work / "kernel.jar").replace(jar)  # whole or not at all, also with two processes compiling
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _pack(classes: Path, jar: Path) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\r\n\r\n")
        for file in sorted(classes.rglob("*.class")):
            archive.write(file, file.relative_to(classes).as_posix())
