"""Java sources compiled on first use, and kept."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.errors import ToolchainError
from penstock.paths import cache_dir
from penstock.toolchain.java import OLDEST, ensure_java


def ensure_compiled(
    what: str, roots: Sequence[Path], classpath: str, version: str, say: Callable[[str], None]
) -> Path:
    """A jar of all sources under the roots, compiled when they or the version of the classpath changed."""
    files = {root: sorted(root.rglob("*.java")) for root in roots}
    if missing := [root for root, found in files.items() if not found]:
        raise ToolchainError(
            f"No {what} sources under {missing[0]}.",
            hint="Install Penstock again: the package is not complete.",
        )
    jar = cache_dir() / what / f"penstock-{what}-{_digest(files, version)}.jar"
    if not jar.exists():
        sources = [file for found in files.values() for file in found]
        say(f"compiling the {what} ({len(sources)} Java files) ...")
        started = time.monotonic()
        _compile(what, sources, classpath, jar, say)
        say(f"compiled the {what} in {time.monotonic() - started:.1f} s")
    return jar


def _digest(files: dict[Path, list[Path]], version: str) -> str:
    digest = hashlib.sha256(version.encode())
    for root, found in files.items():
        for file in found:
            digest.update(f"\0{file.relative_to(root)}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _compile(what: str, sources: list[Path], classpath: str, jar: Path, say: Callable[[str], None]) -> None:
    jar.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=jar.parent, prefix="compile-"))
    try:
        command: list[str | Path] = [ensure_java(say).javac, "--release", str(OLDEST), "-encoding", "UTF-8"]
        command += ["-proc:none", "-nowarn", "-cp", classpath, "-d", work / "classes", *sources]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ToolchainError(
                f"The {what} does not compile:\n{done.stdout}{done.stderr}".rstrip(),
                hint="Correct the sources named above.",
            )
        _pack(work / "classes", work / "packed.jar")
        (work / "packed.jar").replace(jar)  # whole or not at all, also with two processes compiling
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _pack(classes: Path, jar: Path) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\r\n\r\n")
        for file in sorted(classes.rglob("*.class")):
            archive.write(file, file.relative_to(classes).as_posix())
