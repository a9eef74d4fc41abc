"""Faults done to a running pipeline on purpose, and the judgement of what it made of them."""

from __future__ import annotations

from penstock.faults.mutations import MUTATIONS, Mutation, MutationResult, try_mutation
from penstock.faults.scenario import Scenario
from penstock.faults.scenarios import SCENARIOS
from penstock.faults.scorecard import Result, play, to_json

__all__ = [
    "MUTATIONS",
    "SCENARIOS",
    "Mutation",
    "MutationResult",
    "Result",
    "Scenario",
    "play",
    "to_json",
    "try_mutation",
]
