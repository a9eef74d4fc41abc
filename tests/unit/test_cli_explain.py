"""`penstock explain`, and the page made of the same settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.cli.common import console
from penstock.paths import PROJECT
from penstock.tuning import UNTUNED, areas, settings
from penstock.tuning.document import document


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(UNTUNED, raising=False)
    # It has the width that it found when it was made, perhaps for another test.
    monkeypatch.setattr(console, "_width", 250)


def explain(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["explain", *arguments])


def rows(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_all_settings_are_listed_by_area() -> None:
    result = explain()
    assert result.exit_code == 0
    names = [line.split()[0] for line in rows(result) if line]
    headings = [name.rstrip(":") for name in names if name.rstrip(":") in areas() and name.endswith(":")]
    assert headings == list(areas())
    for setting in settings():
        assert names.count(setting.name) == sum(one.name == setting.name for one in settings())


def test_an_area_is_listed_alone() -> None:
    result = explain("state")
    listed = [line for line in rows(result) if line.startswith("minDeltasForSnapshot")]
    assert listed == ["minDeltasForSnapshot 10 50 yes"]
    assert "producer:" not in result.stdout


def test_one_setting_is_explained_in_full() -> None:
    told = rows(explain("sink.reconnect.backoff.ms"))
    assert told == [
        "setting sink.reconnect.backoff.ms",
        "of the producers of Kafka sinks (librdkafka 2.16)",
        "default 100",
        "ours 10",
        "why A new producer waits this long before its connections, and exactly once takes a new one for each"
        " batch.",
        "effect a start takes 60 ms with 100, 20 ms with 10",
        "measured by commit b409a8a",
        f"{UNTUNED} can turn it back",
    ]


def test_what_a_system_calls_a_setting_is_told_where_it_is_longer() -> None:
    told = rows(explain("state.minDeltasForSnapshot"))
    assert "called spark.sql.streaming.stateStore.minDeltasForSnapshot" in told


def test_a_setting_of_correctness_is_said_to_be_one() -> None:
    assert "about correctness: never turned off" in rows(explain("producer.acks"))


def test_what_is_turned_back_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNTUNED, "sink.compression.type")
    assert f"turned back by {UNTUNED}: sink.compression.type" in rows(explain())
    assert f"turned back to the default by {UNTUNED}" in rows(explain("sink.compression.type"))


@pytest.mark.parametrize(
    ("wrong", "near"), [("sink.compresion.type", "sink.compression.type"), ("stat", "state"), ("acs", "acks")]
)
def test_an_unknown_name_is_answered_with_the_nearest(wrong: str, near: str) -> None:
    result = explain(wrong)
    assert result.exit_code == 2
    assert f'did you mean "{near}"?' in result.stderr


def test_a_name_of_several_areas_is_answered_with_all_of_them() -> None:
    result = explain("acks")
    assert result.exit_code == 2
    assert "producer.acks, sink.acks" in result.stderr


def test_the_same_as_json(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    assert explain("--json", str(file)).exit_code == 0
    told = json.loads(file.read_text())["settings"]
    assert [one["id"] for one in told] == [setting.id for setting in settings()]
    explain("producer.acks", "--json", str(file))
    [one] = json.loads(file.read_text())["settings"]
    assert (one["default"], one["ours"], one["correctness"], one["untuned"]) == ("all", "all", True, False)


def test_the_page_is_what_the_settings_make_of_it() -> None:
    again = "python -m penstock.tuning.document > docs/tuning.md"
    assert (PROJECT / "docs" / "tuning.md").read_text() == document(), again
