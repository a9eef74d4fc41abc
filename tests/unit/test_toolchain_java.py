"""Finding a JDK."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.errors import ToolchainError
from penstock.toolchain import java


def make_home(where: Path, version: str, *, javac: bool = True) -> Path:
    (where / "bin").mkdir(parents=True)
    (where / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    for name in ["java", *(["javac"] if javac else [])]:
        (where / "bin" / name).write_text("#!/bin/sh\n")
        (where / "bin" / name).chmod(0o755)
    return where


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java: nothing on the PATH, nothing where JDKs live."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "WHERE_JDKS_LIVE", (str(tmp_path / "jvm" / "*"),))
    return tmp_path


def test_without_a_jdk_the_error_says_what_to_install() -> None:
    with pytest.raises(ToolchainError, match="No JDK 17 or newer") as raised:
        java.find_java()
    assert (
        "Install one, e.g. apt-get install -y openjdk-17-jdk-headless, or set JAVA_HOME" in raised.value.hint
    )


def test_without_a_package_manager_nothing_is_installed() -> None:
    said: list[str] = []
    with pytest.raises(ToolchainError, match="No JDK 17 or newer"):
        java.ensure_java(said.append)
    assert said == []


def test_java_home_comes_first(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_home(bare_machine / "jvm" / "other", "21.0.1")
    chosen = make_home(bare_machine / "chosen", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    found = java.find_java()
    assert (found.home, found.version, found.javac) == (chosen, 17, chosen / "bin" / "javac")


def test_a_runtime_without_javac_and_an_old_jdk_are_passed_over(bare_machine: Path) -> None:
    make_home(bare_machine / "jvm" / "a-jre", "21.0.1", javac=False)
    make_home(bare_machine / "jvm" / "b-old", "1.8.0_392")
    good = make_home(bare_machine / "jvm" / "c-good", "25")
    assert java.find_java().home == good


def test_a_runtime_without_javac_alone_is_named_in_the_error(bare_machine: Path) -> None:
    make_home(bare_machine / "jvm" / "jre", "21.0.1", javac=False)
    make_home(bare_machine / "jvm" / "old", "1.8.0_392")
    with pytest.raises(ToolchainError, match=r"jre is a runtime without javac; .*old is Java 8"):
        java.find_java()


def test_a_java_on_the_path_is_followed_to_its_home(bare_machine: Path) -> None:
    home = make_home(bare_machine / "elsewhere", "17.0.1")
    (bare_machine / "empty" / "java").symlink_to(home / "bin" / "java")
    assert java.find_java().home == home


def test_a_jdk_is_installed_by_the_package_manager_when_this_user_may(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package manager is a script that knows only the second package, as on a newer distribution."""
    apt = bare_machine / "empty" / "apt-get"
    home = bare_machine / "jvm" / "installed"
    apt.write_text(
        f"""#!/bin/sh
echo "$@" >> {bare_machine}/asked
case "$*" in
  update) ;;
  *default-jdk*) /bin/mkdir -p {home}/bin; echo 'JAVA_VERSION="21"' > {home}/release; : > {home}/bin/javac ;;
  *) exit 100 ;;
esac
"""
    )
    apt.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    said: list[str] = []
    assert java.ensure_java(said.append).version == 21
    assert (bare_machine / "asked").read_text().splitlines() == [
        "update",
        "install -y openjdk-17-jdk-headless",
        "install -y default-jdk-headless",
    ]
    assert len(said) == 1
    assert "apt-get" in said[0]
