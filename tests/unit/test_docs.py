"""The documents against the project: what they link to, name and show must be there and work."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from penstock.cli import app
from penstock.paths import PROJECT
from penstock.spec import PipelineSpec

DOCUMENTS = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])
ROOTS = (PROJECT, PROJECT / "src" / "penstock", PROJECT / "jvm" / "src" / "penstock" / "kernel")

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_WRONG_USAGE: Any = typer.BadParameter.__base__  # of the click inside typer, which has no public name
_OUTSIDE = ("http://", "https://", "mailto:")

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def blocks(document: Path, language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(document.read_text()) if kind == language]


def prose(document: Path) -> str:
    return _BLOCK.sub("", document.read_text())


def inline_code(document: Path) -> list[str]:
    return [str(code) for code in _INLINE.findall(prose(document))]


def anchors(document: Path) -> set[str]:
    """The headings as links name them: lower case, no punctuation, dashes for spaces."""
    headings = re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def shell_lines(document: Path) -> list[str]:
    return [line.strip() for block in blocks(document, "sh") for line in block.splitlines()]


def command_lines(document: Path) -> list[str]:
    return [line for line in shell_lines(document) if re.match(r"(\.venv/bin/)?penstock\b", line)]


def parse_command(line: str) -> None:
    """Read a command line as the program would, and run nothing."""
    words = shlex.split(line, comments=True)[1:]
    group: Any = typer.main.get_command(app)
    context = group.make_context("penstock", list(words))
    name, command, rest = group.resolve_command(context, words)
    command.make_context(name, rest, parent=context)


def test_there_are_documents_to_check() -> None:
    assert {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"} <= {
        path.name for path in DOCUMENTS
    }
    readme = PROJECT / "README.md"
    assert command_lines(readme)
    assert blocks(readme, "toml")
    assert blocks(readme, "python")


@each_document
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    missing = []
    for link in _LINK.findall(prose(document)):
        if link.startswith(_OUTSIDE):
            continue
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(link)
    assert missing == []


@each_document
def test_every_source_file_that_is_named_exists(document: Path) -> None:
    named = [code for code in inline_code(document) if re.fullmatch(r"[\w./-]+\.(py|java|toml)", code)]
    missing = [name for name in named if not any((root / name).exists() for root in ROOTS)]
    assert missing == []


@each_document
def test_every_command_line_that_is_shown_parses(document: Path) -> None:
    for line in command_lines(document):
        try:
            parse_command(line)
        except _WRONG_USAGE as error:
            pytest.fail(f"{line}: {error.format_message()}")


@each_document
def test_every_command_that_is_named_exists(document: Path) -> None:
    known = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    named = {
        words[1] for code in inline_code(document) if (words := code.split())[0] == "penstock" and words[1:]
    }
    assert named <= known


@pytest.mark.parametrize(
    "line",
    [
        "penstock rum clickstream",
        "penstock run",
        "penstock run clickstream --rate 5",
        "penstock up --brokers x",
    ],
)
def test_a_wrong_command_line_would_be_found(line: str) -> None:
    with pytest.raises(_WRONG_USAGE):
        parse_command(line)


@each_document
def test_every_make_target_that_is_named_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    named = {
        match[1]
        for line in [*shell_lines(document), *inline_code(document)]
        if (match := re.match(r"make ([a-z-]+)", line))
    }
    assert named <= targets


@each_document
def test_every_toml_block_is_a_pipeline_or_a_part_of_one(document: Path) -> None:
    whole = tomllib.loads((PROJECT / "pipelines" / "clickstream.toml").read_text())
    for block in blocks(document, "toml"):
        given = tomllib.loads(block)
        PipelineSpec(**(given if "name" in given else {**whole, **given}))


@each_document
def test_every_python_block_compiles(document: Path) -> None:
    for block in blocks(document, "python"):
        compile(block, document.name, "exec")


def test_the_readme_describes_the_same_pipeline_in_toml_and_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    [in_toml], [in_python] = (blocks(PROJECT / "README.md", language) for language in ("toml", "python"))
    names: dict[str, Any] = {}
    exec(in_python, names)  # noqa: S102  (our own document)
    assert names["spec"] == PipelineSpec(**tomllib.loads(in_toml))
    written = tomllib.loads((tmp_path / "clickstream.toml").read_text())
    assert PipelineSpec(**written) == names["spec"]
