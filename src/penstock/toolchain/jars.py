"""The jars named in jars.lock.toml: fetched once by the Ivy inside PySpark, checked by checksum, kept."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import ToolchainError
from penstock.paths import cache_dir
from penstock.toolchain.java import Java, ensure_java

LOCK = Path(__file__).with_name("jars.lock.toml")
FETCH_TIMEOUT_S = 900
Stamp = list[str | int]  # the checksum that was right, and size and time of change from that moment

# Without POMs and Ivy's own checksum files a jar costs one request instead of about four; the lock file
# already says all that a POM would, and our SHA-256 is stronger than the registry's SHA-1.
IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="registry"/>
  <property name="ivy.checksums" value=""/>
  <resolvers>
    <ibiblio name="registry" m2compatible="true" usepoms="false"/>
  </resolvers>
</ivysettings>
"""


@dataclass(frozen=True)
class Jar:
    """One line of the lock file."""

    org: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


def pyspark_jars() -> Path:
    """The directory of jars inside PySpark: Spark itself, Ivy, and the classpath of the kernel."""
    spec = find_spec("pyspark")  # not imported: that takes half a second, and only its place is wanted
    if spec is None or spec.origin is None:
        raise ToolchainError("PySpark is not installed.", hint="Install Penstock again.")
    return Path(spec.origin).parent / "jars"


def locked(group: str) -> list[Jar]:
    """The jars of a group ("spark", "kafka", "monitor", "flink", "streams"), as the lock file names them."""
    return [Jar(**entry) for entry in tomllib.loads(LOCK.read_text())[group]]


def ensure_jars(group: str, say: Callable[[str], None]) -> list[Path]:
    """The jars of a group, on disk and with the right content; what is missing is fetched."""
    return JarCache(cache_dir() / "jars").ensure(locked(group), f"{group} jars", say)


class JarCache:
    """A directory of jars.

    Invariant: a jar is renamed into the directory only after its checksum was right. `verified.json` holds
    size and time of change from that moment, so that a later start reads no jar (47 of them, 44 MB), and a
    jar that was changed since is read and judged again.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._stamps = directory / "verified.json"
        self._ivy = directory / "ivy"

    def ensure(self, jars: list[Jar], what: str, say: Callable[[str], None]) -> list[Path]:
        paths = [self.directory / jar.file for jar in jars]
        if not self._missing(jars):
            return paths
        with self._only_one_process():
            missing = self._missing(jars)
            if missing:
                self._fetch(missing, what, say)
        return paths

    def _missing(self, jars: list[Jar]) -> list[Jar]:
        stamps = self._read_stamps()
        return [jar for jar in jars if not self._is_stamped(jar, stamps) and not self._accept(jar)]

    def _is_stamped(self, jar: Jar, stamps: dict[str, Stamp]) -> bool:
        path = self.directory / jar.file
        return path.exists() and stamps.get(jar.file) == _stamp(jar, path)

    def _accept(self, jar: Jar) -> bool:
        """Read a jar that is there without a valid stamp: stamp it when right, delete it when not."""
        path = self.directory / jar.file
        if not path.exists():
            return False
        if _sha256(path) != jar.sha256:
            path.unlink(missing_ok=True)
            return False
        self._add_stamp(jar)
        return True

    def _read_stamps(self) -> dict[str, Stamp]:
        try:
            stamps: dict[str, Stamp] = json.loads(self._stamps.read_text())
        except (OSError, ValueError):
            return {}
        return stamps

    def _add_stamp(self, jar: Jar) -> None:
        stamps = {**self._read_stamps(), jar.file: _stamp(jar, self.directory / jar.file)}
        fresh = self._stamps.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(stamps, indent=1))
        fresh.replace(self._stamps)

    @contextmanager
    def _only_one_process(self) -> Iterator[None]:
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _fetch(self, jars: list[Jar], what: str, say: Callable[[str], None]) -> None:
        say(f"fetching {len(jars)} {what} ...")
        started = time.monotonic()
        self._ivy.mkdir(parents=True, exist_ok=True)
        output = self._run_ivy(jars, ensure_java(say))
        fetched = sum((self.directory / jar.file).stat().st_size for jar in jars if self._move(jar))
        if missing := [jar for jar in jars if not (self.directory / jar.file).exists()]:
            names = ", ".join(jar.file for jar in missing)
            raise ToolchainError(
                f"{len(missing)} of {len(jars)} {what} are missing, "
                f"and the package registry could not be reached: {names}",
                hint="Check the network, or name a mirror in an Ivy settings file (PENSTOCK_IVY_SETTINGS), "
                f"and try again: what has arrived is kept.\n{_last_lines(output)}".rstrip(),
            )
        # Ivy's own cache is what an interrupted fetch goes on from, and of no use afterwards.
        shutil.rmtree(self._ivy, ignore_errors=True)
        say(f"fetched {len(jars)} {what}, {fetched / 1e6:.0f} MB, in {time.monotonic() - started:.1f} s")

    def _move(self, jar: Jar) -> bool:
        """Judge a fetched jar and put it in its place; False when it has not arrived."""
        path = self._ivy / "cache" / jar.org / jar.name / "jars" / jar.file
        if not path.exists():
            return False
        got = _sha256(path)
        if got != jar.sha256:
            shutil.rmtree(self._ivy, ignore_errors=True)  # or Ivy would serve the same bytes again
            raise ToolchainError(
                f"{jar.file} has the wrong checksum: expected {jar.sha256}, got {got}. It was deleted.",
                hint="Try again; if it stays wrong, the registry serves another file than the one tested.",
            )
        path.replace(self.directory / jar.file)
        self._add_stamp(jar)
        return True

    def _run_ivy(self, jars: list[Jar], java: Java) -> str:
        settings = os.environ.get("PENSTOCK_IVY_SETTINGS")
        if not settings:
            settings = str(self._ivy / "ivysettings.xml")
            Path(settings).write_text(IVY_SETTINGS)
        wanted = self._ivy / "ivy.xml"
        wanted.write_text(_ivy_module(jars))
        ivy = next(pyspark_jars().glob("ivy-*.jar"))
        command: list[str | Path] = [java.java, f"-Divy.default.ivy.user.dir={self._ivy}", "-jar", ivy]
        # No -retrieve: Ivy skips it when a single jar is missing, while its cache has all that arrived.
        command += ["-settings", settings, "-ivy", wanted, "-confs", "fetch", "-types", "jar"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=FETCH_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as slow:
            return f"no answer within {slow.timeout:.0f} s"
        return done.stdout + done.stderr


def _ivy_module(jars: list[Jar]) -> str:
    dependencies = "\n".join(
        f'<dependency org="{jar.org}" name="{jar.name}" rev="{jar.version}"'
        ' conf="fetch->default" transitive="false" force="true"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="penstock" module="jars"/>\n'
        f'<configurations><conf name="fetch"/></configurations>\n'
        f"<dependencies>\n{dependencies}\n</dependencies></ivy-module>\n"
    )


def _stamp(jar: Jar, path: Path) -> Stamp:
    stat = path.stat()
    return [jar.sha256, stat.st_size, stat.st_mtime_ns]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _last_lines(output: str) -> str:
    lines = [line for line in output.splitlines() if "ERROR" in line or "WARN" in line or "Exception" in line]
    return "\n".join(lines[-5:])
