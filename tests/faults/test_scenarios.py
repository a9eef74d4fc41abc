"""`penstock faults` as a test: the same scenarios, the same code.

`make test` tries a sample of them, `make faults` all by the command, and `make faults ROUNDS=20` each at 20
moments.
"""

from __future__ import annotations

import os

import pytest

from penstock.faults import MUTATIONS, SCENARIOS, Mutation, play, try_mutation
from penstock.toolchain import ensure_jars, ensure_java, ensure_kernel

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3_600)]

ROUNDS = int(os.environ.get("FAULT_ROUNDS", "1"))
SEED = 7
SAMPLE = {"driver-killed-before-commit", "postgres-killed"}


def say(text: str) -> None:
    print(text)  # noqa: T201  (pytest shows it for a test that failed)


@pytest.fixture(autouse=True, scope="module")
def _toolchain() -> None:
    ensure_java(say)
    ensure_jars("kafka", say)
    ensure_kernel(ensure_jars("spark", say), say)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.sample] if name in SAMPLE else []) for name in SCENARIOS]
)
def test_a_fault_loses_doubles_and_takes_back_nothing(name: str) -> None:
    result = play(SCENARIOS[name], rounds=ROUNDS, seed=SEED, say=say)
    if result.skipped:
        pytest.skip(result.skipped)
    assert result.problems == ()
    assert result.rounds == ROUNDS


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.patch)
def test_a_safeguard_that_is_taken_out_is_noticed(mutation: Mutation) -> None:
    assert try_mutation(mutation, seed=SEED, say=say).caught
