"""Fetching jars: the real Ivy, against a registry that is a directory."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import ToolchainError
from penstock.toolchain.jars import Jar, JarCache, locked

pytestmark = pytest.mark.integration  # needs a JDK, as Ivy does


class Registry:
    """A directory laid out as a Maven repository."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def publish(self, name: str, content: bytes) -> Jar:
        place = self.root / "org" / "example" / name / "1.0"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}-1.0.jar").write_bytes(content)
        return Jar("org.example", name, "1.0", hashlib.sha256(content).hexdigest())

    def withdraw(self, jar: Jar) -> None:
        (self.root / "org" / "example" / jar.name / "1.0" / jar.file).unlink()


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    root = tmp_path / "registry"
    root.mkdir()
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        f"""<ivysettings><settings defaultResolver="local"/><property name="ivy.checksums" value=""/>
        <resolvers><ibiblio name="local" m2compatible="true" usepoms="false" root="file://{root}/"/></resolvers>
        </ivysettings>"""
    )
    monkeypatch.setenv("PENSTOCK_IVY_SETTINGS", str(settings))
    return Registry(root)


@pytest.fixture
def cache(tmp_path: Path) -> JarCache:
    return JarCache(tmp_path / "jars")


@pytest.fixture
def said() -> list[str]:
    return []


def test_missing_jars_are_fetched_once_and_the_second_time_nothing_is_done(
    registry: Registry, cache: JarCache, said: list[str]
) -> None:
    jars = [registry.publish("one", b"first"), registry.publish("two", b"second")]
    paths = cache.ensure(jars, "test jars", said.append)
    assert [path.read_bytes() for path in paths] == [b"first", b"second"]
    assert said[0] == "fetching 2 test jars ..."
    assert re.fullmatch(r"fetched 2 test jars, 0 MB, in \d+\.\d s", said[1])
    for jar in jars:
        registry.withdraw(jar)
    assert cache.ensure(jars, "test jars", said.append) == paths
    assert len(said) == 2


def test_a_jar_with_a_wrong_checksum_is_refused_and_the_next_try_fetches_it_anew(
    registry: Registry, cache: JarCache, said: list[str]
) -> None:
    right = registry.publish("one", b"right")
    registry.publish("one", b"wrong")
    with pytest.raises(ToolchainError) as raised:
        cache.ensure([right], "test jars", said.append)
    wrong = hashlib.sha256(b"wrong").hexdigest()
    assert f"one-1.0.jar has the wrong checksum: expected {right.sha256}, got {wrong}" in raised.value.message
    assert not (cache.directory / right.file).exists()
    registry.publish("one", b"right")
    assert cache.ensure([right], "test jars", said.append)[0].read_bytes() == b"right"


def test_a_fetch_goes_on_with_what_is_missing(registry: Registry, cache: JarCache, said: list[str]) -> None:
    jars = [registry.publish(name, name.encode()) for name in ("one", "two", "three")]
    registry.withdraw(jars[1])
    with pytest.raises(ToolchainError, match=r"1 of 3 test jars are missing.*registry.*: two-1\.0\.jar\n"):
        cache.ensure(jars, "test jars", said.append)
    registry.publish("two", b"two")
    registry.withdraw(jars[0])  # it must not be asked for again
    assert [p.read_bytes() for p in cache.ensure(jars, "test jars", said.append)] == [
        b"one",
        b"two",
        b"three",
    ]
    assert "fetching 1 test jars ..." in said


def test_an_unreachable_registry_is_said_with_the_jars_that_are_missing(
    registry: Registry, cache: JarCache, said: list[str]
) -> None:
    jar = registry.publish("one", b"x")
    registry.root.rename(registry.root.with_name("gone"))
    with pytest.raises(ToolchainError, match=r"registry could not be reached: one-1\.0\.jar"):
        cache.ensure([jar], "test jars", said.append)


@pytest.mark.parametrize("damage", [lambda p: p.write_bytes(b"rotten"), lambda p: p.unlink()])
def test_a_cached_jar_that_was_damaged_is_fetched_again(
    registry: Registry, cache: JarCache, said: list[str], damage: Callable[[Path], None]
) -> None:
    jar = registry.publish("one", b"content")
    (path,) = cache.ensure([jar], "test jars", said.append)
    damage(path)
    assert cache.ensure([jar], "test jars", said.append)[0].read_bytes() == b"content"


def test_a_cached_jar_that_was_only_touched_is_read_and_kept(
    registry: Registry, cache: JarCache, said: list[str]
) -> None:
    jar = registry.publish("one", b"content")
    (path,) = cache.ensure([jar], "test jars", said.append)
    registry.withdraw(jar)
    os.utime(path, (1, 1))
    assert cache.ensure([jar], "test jars", said.append) == [path]
    assert len(said) == 2


def test_two_processes_fetch_side_by_side_and_one_of_them_does_it(
    registry: Registry, cache: JarCache
) -> None:
    jar = registry.publish("one", b"content")
    script = (
        "import sys; from pathlib import Path; from penstock.toolchain.jars import Jar, JarCache\n"
        f"JarCache(Path({str(cache.directory)!r})).ensure([{jar!r}], 'test jars', print)"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("fetched" in output for output in outputs) == 1


@pytest.mark.parametrize("group", ["spark", "kafka", "flink", "streams"])
def test_the_lock_file_names_every_jar_once_with_a_full_checksum(group: str) -> None:
    jars = locked(group)
    assert len({jar.file for jar in jars}) == len(jars) > 3
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in jars)


def test_a_jar_of_several_groups_has_one_checksum() -> None:
    seen: dict[str, Jar] = {}
    shared = set()
    for group in ("spark", "kafka", "flink", "streams"):
        for jar in locked(group):
            assert seen.setdefault(jar.file, jar) == jar
            shared |= {jar.file} if jar is not seen[jar.file] else set()
    assert {"kafka-clients-4.3.1.jar", "jackson-core-2.21.2.jar"} <= shared
