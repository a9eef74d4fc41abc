"""The pipeline with one of its safeguards taken out: a scenario must notice, or it proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.faults.scenarios import SCENARIOS
from penstock.faults.scorecard import play


@dataclass(frozen=True)
class Mutation:
    """A patch (see patched.py) that takes a safeguard out, and the scenario that must notice."""

    patch: str
    scenario: str
    rounds: int
    """Enough that the scenario meets its moment."""


MUTATIONS = (
    Mutation("no-fence", "zombie", rounds=2),
    Mutation("no-position", "driver-killed-before-commit", rounds=3),
    Mutation("no-comparison", "replay-differs", rounds=1),
    Mutation("no-lock", "two-drivers", rounds=1),
    Mutation("no-count", "clickhouse-forgets", rounds=1),
    Mutation("no-transaction", "postgres-killed", rounds=4),
)


@dataclass(frozen=True)
class MutationResult:
    """Whether a mutation was noticed, and by what."""

    mutation: Mutation
    problems: tuple[str, ...]

    @property
    def caught(self) -> bool:
        return bool(self.problems)

    def to_json(self) -> dict[str, Any]:
        return {
            "mutation": self.mutation.patch,
            "scenario": self.mutation.scenario,
            "caught": self.caught,
            "problems": list(self.problems),
        }


def try_mutation(mutation: Mutation, *, seed: int, say: Callable[[str], None]) -> MutationResult:
    """Play the scenario that must notice, on the mutated pipeline."""
    result = play(
        SCENARIOS[mutation.scenario], rounds=mutation.rounds, seed=seed, say=say, patches=[mutation.patch]
    )
    return MutationResult(mutation, result.problems)
