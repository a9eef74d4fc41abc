"""Findings as a person and a start meet them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.cli.checking import as_json, show, stop_on_errors
from penstock.errors import CheckFailed
from penstock.preflight.finding import error, note, ok, warning
from tests.unit.preflight_facts import DAY_MS, FACTS, KAFKA, with_checkpoint, with_kafka, with_topic

FINDINGS = [
    error("disk", "is full", why="Batches fail.", fix="Free some."),
    ok("kafka", "1 broker"),
    warning("spark", "idle cores", why="They wait.", fix="Use them."),
    note("sink s", "is read by r", fix="Ask them."),
]


@pytest.mark.parametrize(
    "arguments", [["clickstream"], ["clickstream", "--set", "sessions.gpa=3 seconds"], ["no"]]
)
def test_what_cannot_be_looked_at_exits_with_2(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    result = CliRunner().invoke(app, ["check", *arguments])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")


def test_what_asks_for_something_stands_last_with_its_reason_and_its_cure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show("visits", FINDINGS)
    assert capsys.readouterr().out.splitlines() == [
        "ok       kafka: 1 broker",
        "note     sink s: is read by r",
        "         fix: Ask them.",
        "warning  spark: idle cores",
        "         why: They wait.",
        "         fix: Use them.",
        "error    disk: is full",
        "         why: Batches fail.",
        "         fix: Free some.",
        "visits: 1 error, 1 warning, 1 note",
    ]


def test_the_outcome_as_json_has_all_findings_and_their_counts() -> None:
    told = as_json("visits", FINDINGS, 1)
    assert (told["pipeline"], told["status"]) == ("visits", 1)
    assert told["counts"] == {"error": 1, "warning": 1, "note": 1, "ok": 1}
    assert [finding["about"] for finding in told["findings"]] == ["disk", "kafka", "spark", "sink s"]


def test_a_start_with_nothing_in_its_way_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    stop_on_errors(FACTS)
    assert capsys.readouterr().out == ""


def test_a_start_says_its_risks_in_a_line_each_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    stop_on_errors(with_kafka(offsets_retention_ms=7 * DAY_MS))
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("warning: positions: the cluster forgets them 7 days after")


def test_a_start_is_stopped_by_every_error_at_once_in_the_words_of_the_check() -> None:
    facts = replace(with_checkpoint(locked=True), disk_free_bytes=1)
    with pytest.raises(CheckFailed) as failed:
        stop_on_errors(facts)
    assert "another process runs on" in failed.value.message
    assert "0 MB are free under /data" in failed.value.message
    assert failed.value.message.count("  fix: ") == 2


def test_a_start_that_saves_records_is_not_stopped_by_their_danger(
    capsys: pytest.CaptureFixture[str],
) -> None:
    facts = with_topic("clicks", settings={"retention_ms": 7 * DAY_MS})
    topics = facts.kafka.topics  # type: ignore[union-attr]
    stop_on_errors(replace(facts, kafka=replace(KAFKA, topics=topics, gone_in_an_hour={0: 95, 1: 95})))
    assert "error: source clicks: 10 records" in capsys.readouterr().out
