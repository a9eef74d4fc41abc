"""Recording what Spark loads: once, and never in the way of a start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.toolchain import Java, archive, archive_options, ensure_archive, ensure_java
from penstock.toolchain.archive import recording_options

pytestmark = pytest.mark.integration  # needs a JDK


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return []


def java(home: Path) -> Java:
    return Java(home, home / "bin" / "java", home / "bin" / "javac", 17)


def record(file: Path) -> None:
    """An archive of what a JVM loads to say its version."""
    command = [str(ensure_java(print).java), *recording_options(file), "-version"]
    subprocess.run(command, check=True, capture_output=True)


def test_it_is_recorded_once_and_used_from_then_on(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = ensure_java(said.append)
    assert archive_options(found) == []
    monkeypatch.setattr(archive, "_rehearse", record)
    recorded = ensure_archive(said.append)
    assert len(said) == 2
    assert recorded
    assert recorded.exists()
    assert f"-XX:SharedArchiveFile={recorded}" in archive_options(found)
    assert ensure_archive(said.append) == recorded
    assert len(said) == 2


def test_another_jdk_has_another_one(
    said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_rehearse", record)
    assert ensure_archive(said.append)
    assert archive_options(java(tmp_path / "elsewhere")) == []


def test_one_that_takes_a_jvm_down_is_not_kept(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def half(file: Path) -> None:
        record(file)
        file.chmod(0o600)
        with file.open("r+b") as whole:
            whole.truncate(file.stat().st_size // 2)

    monkeypatch.setattr(archive, "_rehearse", half)
    assert ensure_archive(said.append) is None
    assert archive_options(ensure_java(said.append)) == []


def test_a_rehearsal_that_fails_is_told_of_and_leaves_nothing(
    said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: Path) -> None:
        file.write_bytes(b"half")
        raise subprocess.CalledProcessError(1, "rehearsal")

    monkeypatch.setattr(archive, "_rehearse", fail)
    assert ensure_archive(said.append) is None
    assert said[-1].startswith("not recorded, starts take a few seconds more: ")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
