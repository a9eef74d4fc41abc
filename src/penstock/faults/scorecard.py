"""Scenarios played and judged: the scorecard."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from penstock import __version__
from penstock.errors import PenstockError
from penstock.faults.scenario import NotHere, Scenario, Unmet
from penstock.faults.trial import Trial
from penstock.paths import PROJECT

Say = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """How a scenario went."""

    name: str
    rounds: int
    """Those that were done."""
    failures: int
    """Trials that did not pass; all rounds of a scenario are one trial, where it can go on after each."""
    recoveries_s: tuple[float, ...] = ()
    hits: int | None = None
    """Rounds in which the fault met the moment it was meant for; None where any moment is as good."""
    problems: tuple[str, ...] = ()
    seconds: float = 0.0
    skipped: str = ""
    """Why it could not be tried on this machine."""

    def __add__(self, other: Result) -> Result:
        hits = None if self.hits is None and other.hits is None else (self.hits or 0) + (other.hits or 0)
        return Result(
            self.name,
            self.rounds + other.rounds,
            self.failures + other.failures,
            self.recoveries_s + other.recoveries_s,
            hits,
            self.problems + other.problems,
            self.seconds + other.seconds,
            self.skipped or other.skipped,
        )

    def to_json(self) -> dict[str, Any]:
        times = self.recoveries_s
        return {
            "name": self.name,
            "rounds": self.rounds,
            "failures": self.failures,
            "recovery_s": {
                "median": round(statistics.median(times), 1) if times else None,
                "max": round(max(times), 1) if times else None,
            },
            "hits": self.hits,
            "seconds": round(self.seconds, 1),
            "problems": list(self.problems),
            "skipped": self.skipped or None,
        }


def play(scenario: Scenario, *, rounds: int, seed: int, say: Say, patches: Sequence[str] = ()) -> Result:
    """Do the fault so many times, to one pipeline that goes on where it can."""
    if not scenario.is_final:
        return _try(scenario, rounds, seed, say, patches)
    result = Result(scenario.name, 0, 0)
    for number in range(rounds):
        result += _try(scenario, 1, seed + number, say, patches)
    return result


def _try(scenario: Scenario, rounds: int, seed: int, say: Say, patches: Sequence[str]) -> Result:
    root = Path(mkdtemp(prefix=f"penstock-{scenario.name}-"))
    try:
        with scenario.within(root):
            result = _tried(scenario, rounds, seed, root, say, patches)
    except NotHere as reason:
        say(f"{scenario.name}: not tried: {reason}")
        result = Result(scenario.name, 0, 0, skipped=str(reason))
    if not result.problems:
        shutil.rmtree(root, ignore_errors=True)
    return result


def _tried(
    scenario: Scenario, rounds: int, seed: int, root: Path, say: Say, patches: Sequence[str]
) -> Result:
    began = time.monotonic()
    trial = Trial(scenario, seed, root, patches)
    done, problems = 0, list[str]()
    try:
        trial.start()
        for number in range(1, rounds + 1):
            scenario.round(trial)
            done = number
            say(f"{scenario.name}: round {number} of {rounds}{_told(trial)}")
        problems = trial.judge_held() if scenario.is_final else trial.judge()
    except (Unmet, PenstockError) as error:
        problems = [str(error)]
    finally:
        trial.close()
    if problems:
        replay = f"penstock faults {scenario.name} --rounds {rounds} --seed {seed}"
        problems.append(
            f"after {done} of {rounds} rounds{_told(trial)}; again with: {replay}; all that was kept: {root}"
        )
    for problem in problems:
        say(problem)
    return Result(
        scenario.name,
        done,
        int(bool(problems)),
        tuple(trial.recoveries_s),
        trial.hits,
        tuple(problems),
        time.monotonic() - began,
    )


def _told(trial: Trial) -> str:
    chose = f" ({trial.chose})" if trial.chose else ""
    recovered = f", recovered in {trial.recoveries_s[-1]:.1f} s" if trial.recoveries_s else ""
    return chose + recovered + (f", {trial.hits} hits" if trial.hits is not None else "")


def to_json(seed: int, results: Sequence[Result]) -> dict[str, Any]:
    return {"seed": seed, "commit": commit(), "scenarios": [result.to_json() for result in results]}


def commit() -> str:
    """What was tried: the commit of a checkout, with a + when it was changed; the version elsewhere."""
    described = subprocess.run(
        ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return described.stdout.strip() if described.returncode == 0 else __version__
