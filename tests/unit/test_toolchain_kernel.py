"""Compiling the kernel, with a small one."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from penstock.errors import ToolchainError
from penstock.toolchain import ensure_kernel

pytestmark = pytest.mark.integration  # needs a JDK and PySpark's jars

SOURCE = """package example;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
public abstract class Small implements ScalarFunction<Integer> { }
"""


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "jvm" / "src" / "example" / "Small.java"
    file.parent.mkdir(parents=True)
    file.write_text(SOURCE)
    return tmp_path / "jvm"


def test_sources_become_a_jar_once(sources: Path) -> None:
    said: list[str] = []
    jar = ensure_kernel([], said.append, sources)
    assert "example/Small.class" in zipfile.ZipFile(jar).namelist()
    assert len(said) == 2
    assert ensure_kernel([], said.append, sources) == jar
    assert len(said) == 2


def test_changed_sources_become_another_jar(sources: Path) -> None:
    first = ensure_kernel([], lambda _: None, sources)
    (sources / "src" / "example" / "Small.java").write_text(SOURCE + "// changed\n")
    assert ensure_kernel([], lambda _: None, sources) != first


def test_a_compile_error_is_shown_and_leaves_no_jar(sources: Path) -> None:
    (sources / "src" / "example" / "Small.java").write_text(SOURCE.replace("ScalarFunction<", "Nothing<"))
    with pytest.raises(ToolchainError, match=r"Small\.java:3: error: cannot find symbol"):
        ensure_kernel([], lambda _: None, sources)
    assert list((sources.parent / "cache").rglob("*.jar")) == []
    assert list((sources.parent / "cache").rglob("compile-*")) == []


def test_no_sources_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="No kernel sources"):
        ensure_kernel([], lambda _: None, tmp_path)
