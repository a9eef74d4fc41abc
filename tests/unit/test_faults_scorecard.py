"""The scorecard without a pipeline: what scenarios there are, and what is said of them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.faults import MUTATIONS, SCENARIOS, Result, Scenario, play, to_json
from penstock.faults.patched import PATCHES
from penstock.faults.scenario import NotHere
from penstock.paths import PROJECT, shipped

each_scenario = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda scenario: scenario.name)


@each_scenario
def test_a_scenario_says_what_it_does_in_one_line(scenario: Scenario) -> None:
    assert scenario.says.endswith(".")


@each_scenario
def test_a_scenario_runs_a_shipped_pipeline_with_patches_that_exist(scenario: Scenario) -> None:
    assert (shipped("pipelines") / f"{scenario.pipeline}.toml").exists()
    assert {*scenario.run_patches, *scenario.send_patches} <= set(PATCHES)


@each_scenario
def test_a_scenario_is_in_the_document(scenario: Scenario) -> None:
    assert f"`{scenario.name}`" in (PROJECT / "docs" / "faults.md").read_text()


def test_every_mutation_has_a_patch_and_a_scenario_that_must_notice_it() -> None:
    assert {mutation.patch for mutation in MUTATIONS} == {name for name in PATCHES if name.startswith("no-")}
    assert {mutation.scenario for mutation in MUTATIONS} <= set(SCENARIOS)


def test_the_report_has_the_median_and_the_longest_recovery() -> None:
    result = Result("zombie", rounds=3, failures=0, recoveries_s=(10.0, 31.24, 12.0), hits=2)
    report = to_json(5, [result])
    [told] = report["scenarios"]
    assert report["seed"] == 5
    assert report["commit"]
    assert (told["name"], told["rounds"], told["failures"], told["hits"]) == ("zombie", 3, 0, 2)
    assert told["recovery_s"] == {"median": 12.0, "max": 31.2}


def test_a_scenario_without_recoveries_has_no_times() -> None:
    assert Result("zombie", 0, 1).to_json()["recovery_s"] == {"median": None, "max": None}


def test_what_cannot_be_done_here_is_neither_a_pass_nor_a_failure_but_said() -> None:
    said: list[str] = []

    def nowhere(_: Path) -> AbstractContextManager[None]:
        raise NotHere("no file system can be mounted")

    scenario = replace(SCENARIOS["disk-full"], within=nowhere)
    result = play(scenario, rounds=3, seed=1, say=said.append)
    assert (result.rounds, result.failures, result.skipped) == (0, 0, "no file system can be mounted")
    assert said == ["disk-full: not tried: no file system can be mounted"]


def test_only_what_any_trial_can_take_is_mixed() -> None:
    assert SCENARIOS["broker-killed"].is_plain
    assert not SCENARIOS["zombie"].is_plain  # patched
    assert not SCENARIOS["topic-recreated"].is_plain  # final
    assert not SCENARIOS["postgres-killed"].is_plain  # another pipeline
    assert not SCENARIOS["disk-full"].is_plain  # on a disk of its own


def test_trials_of_one_scenario_add_up() -> None:
    first = Result("a", 1, 0, (1.0,), None, (), 2.0)
    second = Result("a", 1, 1, (3.0,), 1, ("lost",), 5.0)
    assert first + second == Result("a", 2, 1, (1.0, 3.0), 1, ("lost",), 7.0)
    assert (first + first).hits is None
