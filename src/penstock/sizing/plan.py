"""A plan: every step of the arithmetic, from the events of a batch to the disks of the brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.sizing.batches import batches
from penstock.sizing.figures import Figures
from penstock.sizing.kafka import brokers, outage, producers, waiting
from penstock.sizing.memory import memory
from penstock.sizing.sheet import Sheet, Step
from penstock.sizing.wanted import Wanted


@dataclass(frozen=True)
class Plan:
    """What comes of it."""

    steps: Mapping[str, Sequence[Step]]
    """By subject."""
    settings: Mapping[str, str]
    """The keys of a description that follow."""
    problems: Sequence[str]
    """What cannot be held."""

    def value(self, name: str) -> float:
        return next(step.value for steps in self.steps.values() for step in steps if step.name == name)


def plan(wanted: Wanted, known: Figures) -> Plan:
    sheet = Sheet()
    made = batches(sheet, wanted, known)
    waiting(sheet, wanted, made)
    memory(sheet, wanted, known, made)
    producers(sheet, wanted, made)
    brokers(sheet, wanted)
    outage(sheet, wanted, made)
    return Plan(sheet.steps, sheet.settings, sheet.problems)
