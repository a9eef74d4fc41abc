"""The shipped pipelines as a person sees them: `penstock demo NAME`, on real services, audited."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


@pytest.fixture
def data() -> Iterator[Path]:
    """Not in pytest's temporary directory: another pytest that starts closes it for PostgreSQL's own user."""
    with TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def demo(name: str, data: Path, *options: str) -> tuple[dict[str, Any], str]:
    """The report, and what was printed."""
    command = [sys.executable, "-m", "penstock.cli", "demo", name, "--data", str(data), *options]
    done = subprocess.run(
        [*command, "--seconds", "15", "--rate", "1500", "--json", str(data / "report.json")],
        capture_output=True,
        text=True,
        check=False,
        timeout=350,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads((data / "report.json").read_text())
    return report, done.stdout


def check(report: dict[str, Any], results: str, *sinks: str) -> None:
    assert (report["verdict"], report["problems"]) == ("pass", [])
    assert (report["lost"], report["duplicated"], report["lag_end"]) == (0, 0, 0)
    assert report["sent"] == report["decoded"] + report["rejected"] > 20_000
    assert report["rejected"] > 50
    assert report[results]["expected"] > 1_000
    assert report[results] == dict.fromkeys(["expected", *sinks], report[results]["expected"])
    for sink in report["sinks"].values():
        assert sink["expected"] == sink["held"] > 0


def test_payments_are_upserted_one_row_for_each_transaction(data: Path) -> None:
    report, printed = demo("transactions", data)
    check(report, "transactions", "transactions")
    assert report["transactions"]["expected"] < report["decoded"]  # repeats and captures share a row
    assert report["late"] == 0
    assert "transactions expected" in printed
    assert "in PostgreSQL" in printed
    assert "sessions" not in printed


def test_windows_of_behaviour_are_right_live_and_for_good(data: Path) -> None:
    report, printed = demo("behaviour", data)
    check(report, "windows", "activity")
    assert set(report["sinks"]) == {"activity", "activity_live", "actions-aside"}
    assert report["sinks"]["activity_live"]["held"] > report["windows"]["expected"]  # the clock's own is open
    assert "Windows of this demo are 10 seconds long" in printed
    assert "windows expected" in printed


def test_a_second_demo_goes_on_and_both_are_audited(data: Path) -> None:
    first, _ = demo("behaviour", data, "--seed", "1")
    second, _ = demo("behaviour", data, "--seed", "2")
    check(second, "windows", "activity")
    assert second["sent"] > first["sent"]
