"""A JDK, version 17 or newer: found where they usually are, or installed by the system's package manager."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ToolchainError
from penstock.toolchain.packages import Choices, example, install

OLDEST = 17
WHERE_JDKS_LIVE = (
    "/usr/lib/jvm/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
)
INSTALLERS: Choices = {
    "apt-get": ("install -y openjdk-17-jdk-headless", "install -y default-jdk-headless"),
    "dnf": ("install -y java-17-openjdk-devel", "install -y java-latest-openjdk-devel"),
    "apk": ("add openjdk17-jdk",),
    "brew": ("install openjdk@17",),
}


@dataclass(frozen=True)
class Java:
    """A JDK: its home, its two commands, its feature release (17, 21, ...)."""

    home: Path
    java: Path
    javac: Path
    version: int


def find_java() -> Java:
    """The first JDK of at least version 17 at $JAVA_HOME, on the PATH, or where systems keep them."""
    rejected: list[str] = []
    for home in _homes():
        version = _version(home)
        if version is None:
            continue
        java, javac = home / "bin" / "java", home / "bin" / "javac"
        if version < OLDEST:
            rejected.append(f"{home} is Java {version}")
        elif not javac.exists():
            rejected.append(f"{home} is a runtime without javac")
        else:
            return Java(home, java, javac, version)
    seen = f" ({'; '.join(rejected)})" if rejected else ""
    raise ToolchainError(
        f"No JDK {OLDEST} or newer{seen}.",
        hint=f"Install one, e.g. {example(INSTALLERS)}, or set JAVA_HOME.",
    )


def ensure_java(say: Callable[[str], None]) -> Java:
    """The JDK that is there, or one installed by the package manager when this user may."""
    try:
        return find_java()
    except ToolchainError as missing:
        if not install(f"JDK {OLDEST} or newer", INSTALLERS, say):
            raise missing
    return find_java()


def _homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if java := shutil.which("java"):
        yield Path(java).resolve().parents[1]
    for pattern in WHERE_JDKS_LIVE:
        yield from sorted(Path("/").glob(pattern.lstrip("/")))


def _version(home: Path) -> int | None:
    """The feature release, read from the `release` file every Java home has since version 9."""
    try:
        text = (home / "release").read_text()
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    return int(found[1]) if found else None
