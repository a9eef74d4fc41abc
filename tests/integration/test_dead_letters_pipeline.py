"""Dead letters through the whole pipeline: set aside, mended, put back, and taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.audit.topic import read_topic
from penstock.cli import app
from penstock.deadletters.letter import letter_of
from penstock.spec import to_toml
from tests.integration.clicks import NewRig, Rig

pytestmark = pytest.mark.integration


def dead_letters(rig: Rig, tmp_path: Path, command: str, *arguments: str) -> dict[str, Any]:
    spec, out = tmp_path / "spec.toml", tmp_path / "out.json"
    services = rig.spec.services.model_copy(update={"kafka": rig.addresses.kafka})
    spec.write_text(to_toml(rig.spec.model_copy(update={"services": services})))
    words = ["dead-letters", command, str(spec), *arguments, "--json", str(out), "--data", str(rig.data.root)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(out.read_text())
    return report


def test_records_are_taken_when_they_are_replayed_after_the_spec_was_mended(
    new_rig: NewRig,
    tmp_path: Path,
) -> None:
    rig = new_rig()
    rig.send()
    rig.run_until_quiet()
    rig.send()
    rig.move_clock()
    rig.run_until_quiet()
    listed = dead_letters(rig, tmp_path, "list", "--limit", "1")
    rejected = sum(receipt.rejected for receipt in rig.receipts)
    late = sum(receipt.late for receipt in rig.receipts)
    assert listed["total"] == rejected + late
    negative = "price_not_negative"
    [wrong] = [group["count"] for group in listed["groups"] if negative in group["reason"]]
    assert wrong > 0

    # Late ones first, which are late again: the audit counts them as replayed, neither lost nor duplicated.
    assert dead_letters(rig, tmp_path, "replay", "--kind", "late", "--yes")["replayed"] == late
    again = rig.run_until_quiet()
    assert sum(receipt.late for receipt in again) == late > 0
    outcome = rig.audit()
    assert (outcome.lost, outcome.duplicated, outcome.problems) == (0, 0, ())

    dump = rig.spec.model_dump(by_alias=True)
    mended = {**dump["cleanse"], "where": {**dump["cleanse"]["where"], negative: "true"}}
    rig.spec = type(rig.spec)(**{**dump, "cleanse": mended})
    replayed = dead_letters(rig, tmp_path, "replay", "--reason", negative, "--yes")
    assert (replayed["selected"], replayed["replayed"], replayed["without_key"]) == (wrong, wrong, 0)
    taken = rig.run_until_quiet()
    assert sum(receipt.decoded for receipt in taken) == wrong
    assert sum(receipt.rejected for receipt in taken) == 0
    letters = [letter_of(m) for m in read_topic(rig.addresses.kafka, f"{rig.spec.name}-dead")]
    assert sum(letter is not None and negative in letter.reason for letter in letters) == wrong
