"""The shipped pipelines as a person sees them: `penstock demo NAME`, on real services, audited."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest

from penstock.audit.exact import Audit, audit
from penstock.audit.topic import read_topic
from penstock.engine.outputs import Endpoints
from penstock.local.services import Addresses, Services
from penstock.paths import DataDir, shipped
from penstock.spec import load

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


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
        timeout=500,
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


@contextmanager
def services(data: Path) -> Iterator[Addresses]:
    """The services of a demo that is over."""
    running = Services(DataDir.at(data), tie_to_parent=True, only=["kafka", "postgres"])
    try:
        yield running.start()
    finally:
        running.stop()


def audit_again(name: str, data: Path, at: Addresses, **overrides: str) -> Audit:
    settings = {key.replace("__", "."): value for key, value in overrides.items()}
    spec = load(shipped("pipelines") / f"{name}.toml", overrides=settings)
    return audit(spec, DataDir.at(data), Endpoints(at.kafka, at.clickhouse, at.postgres))


def test_payments_are_upserted_one_row_for_each_transaction(data: Path) -> None:
    report, printed = demo("transactions", data)
    check(report, "transactions", "transactions")
    assert report["transactions"]["expected"] < report["decoded"]  # repeats and captures share a row
    assert report["late"] == 0
    assert "transactions expected" in printed
    assert "in PostgreSQL" in printed
    assert "sessions" not in printed

    with services(data) as at, psycopg.connect(at.postgres, autocommit=True) as store:
        assert audit_again("transactions", data, at).passed
        letters = [dict(letter.headers() or []) for letter in read_topic(at.kafka, "payments-refused")]
        reasons = b"\n".join(bytes(headers["penstock.reason"]) for headers in letters)  # type: ignore[arg-type]
        for reason in (
            b"malformed: payment.amount: expected decimal(12,2), got string",
            b"required: transaction_id is missing",
            b"condition: known_currency does not hold",
            b"condition: amount_positive does not hold",
        ):
            assert reason in reasons
        store.execute("UPDATE transactions SET state = 'authorised' WHERE transaction_id = "
                      "(SELECT max(transaction_id) FROM transactions WHERE state = 'captured')")  # fmt: skip
        store.execute("UPDATE transactions SET amount = amount + 0.01 WHERE transaction_id = 'p1-7'")
        store.execute("DELETE FROM transactions WHERE transaction_id IN ('p1-8', 'p1-9')")
        store.execute("UPDATE transactions SET transaction_id = 'p1-nobody' WHERE transaction_id = 'p1-10'")
        spoilt = audit_again("transactions", data, at)
    found = spoilt.sinks["transactions"]
    assert (found.lost, found.duplicated, found.wrong) == (3, 1, 2)
    assert (spoilt.lost, spoilt.duplicated, spoilt.passed) == (3, 1, False)
    assert "transactions: 3 records lost, 1 duplicated, 2 rows with a wrong value" in spoilt.problems


SHORT = {"windows__size": "10 seconds", "windows__lateness": "20 seconds"}


def test_windows_of_behaviour_are_right_live_and_for_good(data: Path) -> None:
    report, printed = demo("behaviour", data)
    check(report, "windows", "activity")
    assert set(report["sinks"]) == {"activity", "activity_live", "actions-aside"}
    assert report["sinks"]["activity_live"]["held"] > report["windows"]["expected"]  # the clock's own is open
    assert "Windows of this demo are 10 seconds long" in printed
    assert "windows expected" in printed

    with services(data) as at, psycopg.connect(at.postgres, autocommit=True) as store:
        assert audit_again("behaviour", data, at, **SHORT).passed
        hot = store.execute("SELECT window_id, events FROM activity ORDER BY events DESC LIMIT 1").fetchone()
        assert hot is not None
        store.execute("DELETE FROM activity WHERE window_id = %s", [hot[0]])
        store.execute("UPDATE activity_live SET pages = pages + 1 WHERE window_id = %s", [hot[0]])
        spoilt = audit_again("behaviour", data, at, **SHORT)
    assert hot[0].startswith("u0000000@")  # the user who does most
    assert (spoilt.lost, spoilt.duplicated) == (hot[1], 0)
    assert spoilt.sinks["activity_live"].wrong == 1
    assert f"  {hot[0]}: missing" in spoilt.problems
