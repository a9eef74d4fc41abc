"""The command line without services: what it prints, and the status it exits with."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer
from typer.testing import CliRunner, Result

from penstock import __version__
from penstock.cli import app
from penstock.cli.common import load_spec
from penstock.paths import shipped
from penstock.spec import load, to_toml

COMMANDS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
SHIPPED = sorted(path.stem for path in shipped("pipelines").glob("*.toml"))


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No settings but a test's own, a wide terminal, and the signal handlers that pytest had."""
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def penstock(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def said(result: Result) -> str:
    """All that was printed, without colours and with every run of spaces or newlines as one space."""
    return re.sub(r"\s+", " ", click.unstyle(result.output))


def test_the_version_is_printed() -> None:
    result = penstock("--version")
    assert (result.exit_code, result.stdout) == (0, f"penstock {__version__}\n")


def test_an_unknown_command_is_named_with_the_nearest() -> None:
    result = penstock("rum")
    assert result.exit_code == 2
    assert "'rum'" in said(result)
    assert "'run'" in said(result)


def test_without_a_command_all_commands_are_listed() -> None:
    text = said(penstock())
    assert all(f" {command} " in text for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example(command: str) -> None:
    result = penstock(command, "--help")
    assert result.exit_code == 0
    text = said(result)
    assert re.search(rf"Examples?: .*penstock {command}\b", text)
    assert "Traceback" not in text


@pytest.mark.parametrize("command", ["run", "produce", "demo", "spec"])
def test_an_unknown_key_is_named_with_the_nearest(command: str) -> None:
    result = penstock(command, "clickstream", "--set", "sessions.gpa=3 seconds")
    assert result.exit_code == 2
    assert "sessions.gpa" in said(result)
    assert 'did you mean "gap"?' in said(result)


@pytest.mark.parametrize("command", ["run", "produce", "demo", "spec"])
def test_a_setting_without_an_equals_sign_is_told_what_to_write(command: str) -> None:
    result = penstock(command, "clickstream", "--set", "sessions.gap")
    assert result.exit_code == 2
    assert '"sessions.gap": expected KEY=VALUE' in said(result)


def test_a_wrong_value_is_named_with_its_key() -> None:
    result = penstock("spec", "clickstream", "--set", "sessions.gap=soon")
    assert result.exit_code == 2
    assert 'sessions.gap = "soon"' in said(result)
    assert "30 minutes" in said(result)


@pytest.mark.parametrize("command", ["run", "produce", "demo", "spec"])
def test_an_unknown_pipeline_lists_the_shipped_ones(command: str) -> None:
    result = penstock(command, "clikstream")
    assert result.exit_code == 2
    assert "clikstream" in said(result)
    assert f"(shipped: {', '.join(SHIPPED)})" in said(result)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = penstock("spec", str(tmp_path / "mine.toml"))
    assert result.exit_code == 2
    assert "mine.toml" in said(result)
    assert "no such file" in said(result)


def test_errors_go_to_the_error_stream_and_show_no_traceback() -> None:
    result = penstock("spec", "nothing")
    assert result.stdout == ""
    assert result.stderr.startswith("error: nothing: 1 problem")
    assert "Traceback" not in result.stderr


def test_an_error_with_square_brackets_is_shown_as_it_is() -> None:
    result = penstock("spec", "clickstream", "--set", "sessions.gap=[bold]soon[/bold]")
    assert result.exit_code == 2
    assert '"[bold]soon[/bold]"' in said(result)


def test_the_reference_prints_every_section() -> None:
    result = penstock("spec")
    assert result.exit_code == 0
    sections = re.findall(r"^## (.+)$", result.stdout, re.MULTILINE)
    assert sections == [
        "Pipeline",
        "[source]",
        "[cleanse]",
        "[cleanse.dedupe]",
        "[[enrich]]",
        "[sessions]",
        "[windows]",
        '[[sink]] kind = "kafka"',
        '[[sink]] kind = "clickhouse"',
        '[[sink]] kind = "postgres"',
        "[services]",
    ]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_printed_pipeline_reads_back_as_the_same(name: str, tmp_path: Path) -> None:
    result = penstock("spec", name, "--set", "trigger=7 seconds")
    assert result.exit_code == 0
    path = tmp_path / "printed.toml"
    path.write_text(result.stdout)
    again = load(path, environ={})
    assert again == load_spec(name, ["trigger=7 seconds"])
    assert again.trigger.ms == 7_000
    assert penstock("spec", str(path)).stdout.strip() == to_toml(again).strip()


def test_the_environment_is_heard_and_a_flag_beats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SESSIONS__GAP", "9 seconds")
    assert 'gap = "9 seconds"' in penstock("spec", "clickstream").stdout
    assert 'gap = "8 seconds"' in penstock("spec", "clickstream", "--set", "sessions.gap=8 seconds").stdout


@pytest.mark.parametrize("command", ["run", "produce"])
def test_a_pipeline_on_stopped_services_names_them_and_the_command_that_starts_them(command: str) -> None:
    result = penstock(command, "clickstream")
    assert result.exit_code == 1
    assert "not running: kafka" in said(result)
    assert "penstock up" in said(result)


def test_only_the_services_that_a_pipeline_needs_are_asked_for() -> None:
    result = penstock("run", "clickstream")
    assert "clickhouse" in said(result)
    assert "postgres" not in said(result)


def test_a_wrong_rate_is_refused_before_anything_is_asked() -> None:
    result = penstock("produce", "clickstream", "--rate", "fast")
    assert result.exit_code == 2
    assert '--rate: 1 problem "fast": expected a rate' in said(result)


def test_clicks_cannot_be_made_for_a_schema_with_other_fields() -> None:
    schema = load_spec("clickstream").source.ddl + ", colour string"
    result = penstock("produce", "clickstream", "--set", f"source.schema={schema}")
    assert result.exit_code == 2
    assert 'source.schema: "colour" is not a field of the generated clicks' in said(result)


def test_the_status_of_stopped_services_is_shown_and_exits_with_1(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "status.json"
    result = penstock("status", "--json", str(out))
    assert result.exit_code == 1
    services = json.loads(out.read_text())["services"]
    assert {service["name"].split("-")[0] for service in services} >= {"clickhouse", "postgres"}
    assert all(service["state"] != "running" and service["pid"] is None for service in services)


def test_stopping_what_does_not_run_is_no_error() -> None:
    result = penstock("down")
    assert (result.exit_code, said(result).strip()) == (0, "nothing was running")


def test_an_impossible_number_of_brokers_is_refused() -> None:
    result = penstock("up", "--brokers", "2")
    assert result.exit_code == 1
    assert "2 brokers" in said(result)


def test_a_data_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    result = penstock("run", "clickstream", "--data", str(tmp_path / "file"))
    assert result.exit_code == 1
    assert str(tmp_path / "file") in said(result)
    assert "--data" in said(result)
