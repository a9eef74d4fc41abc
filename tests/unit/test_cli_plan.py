"""`penstock plan`: what it takes, prints and writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.cli.common import console
from penstock.sizing import keep


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # It has the width that it found when it was made, perhaps for another test.
    monkeypatch.setattr(console, "_width", 200)


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments])


def said(result: Result) -> str:
    return re.sub(r"\s+", " ", click.unstyle(result.output))


def written(tmp_path: Path, *arguments: str) -> dict[str, float]:
    file = tmp_path / "plan.json"
    plan(*arguments, "--json", str(file))
    steps = json.loads(file.read_text())["steps"]
    return {step["name"]: step["value"] for subject in steps.values() for step in subject}


def test_every_step_is_shown_with_its_numbers() -> None:
    result = plan("--rate", "200,000", "--size", "230", "--state", "1,000,000")
    assert result.exit_code == 0
    text = said(result)
    assert "events a batch 588,235 rate x interval = 200,000/s x 2.94 s" in text
    assert "partitions 26 the larger of 2 x cores and rate / what a partition takes" in text
    assert "penstock run SPEC --set 'source.partitions=26'" in text


def test_figures_of_another_machine_are_said_to_be() -> None:
    assert "another machine: penstock bench stages" in said(plan("--rate", "1000"))
    assert "Those of another machine are a guess" in said(plan("--rate", "1000"))


def test_what_was_measured_here_is_used(tmp_path: Path) -> None:
    before = written(tmp_path, "--rate", "100k")
    keep("event_us", 34.0, "python -m penstock.bench.stages")
    assert "another machine: penstock bench stages (" not in said(plan("--rate", "100k"))
    after = written(tmp_path, "--rate", "100k")
    assert after["CPU of a batch"] == pytest.approx(10 * before["CPU of a batch"])


def test_a_cost_that_is_given_is_all_there_is(tmp_path: Path) -> None:
    steps = written(tmp_path, "--rate", "100k", "--state", "1 million", "--size", "5 kB", "--cpu", "12.5")
    assert steps["CPU per million events"] == pytest.approx(12.5)


def test_what_is_asked_for_reaches_the_plan(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    plan(
        *("--rate", "20k/s", "--size", "2 KiB", "--state", "200k", "--lookup", "220,000"),
        *("--p99", "10 seconds", "--replication", "2", "--brokers", "4", "--retention", "7 days"),
        *("--outage", "30 minutes", "--producers", "3", "--readers", "2", "--executor-cores", "8"),
        *("--partition-rate", "5k/s", "--batch-time", "200 ms", "--json", str(file)),
    )
    told = json.loads(file.read_text())
    assert told["wanted"] == {
        "rate_eps": 20_000,
        "size_bytes": 2048,
        "alive": 200_000,
        "lookup_rows": 220_000,
        "p99_s": 10,
        "replication": 2,
        "brokers": 4,
        "retention_s": 7 * 86_400,
        "outage_s": 1800,
        "producers": 3,
        "readers": 2,
        "executor_cores": 8,
        "partition_eps": 5_000,
    }
    assert told["figures"]["batch_s"]["value"] == 0.2
    assert told["problems"] == []
    assert told["settings"]["trigger"] == "5882 ms"


def test_losing_records_is_a_failure() -> None:
    result = plan("--rate", "1000", "--outage", "2 days")
    assert result.exit_code == 1
    assert "problem: an outage of 2 days loses records" in said(result)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rate", "fast"], '--rate: 1 problem "fast": expected a rate'),
        (["--rate", "0"], "--rate: 1 problem"),
        (["--rate", "1000", "--size", "huge"], "--size: 1 problem"),
        (["--rate", "1000", "--size", "0"], "--size: 1 problem"),
        (["--rate", "1000", "--state", "-5"], "--state: 1 problem"),
        (["--rate", "1000", "--p99", "3"], "--p99: 1 problem"),
        (["--rate", "1000", "--p99", "100 ms"], "cannot be had with batches"),
        (["--rate", "1000", "--retention", "0 seconds"], "retention_s = 0"),
        (["--rate", "1000", "--replication", "3", "--brokers", "2"], "2 brokers cannot hold 3 replicas"),
        (["--rate", "1000", "--cpu", "0"], "--cpu: 1 problem"),
        ([], "Missing option '--rate'"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], words: str) -> None:
    result = plan(*arguments)
    assert result.exit_code == 2
    assert words in said(result)
    assert "Traceback" not in said(result)
