"""What a scenario is: one kind of fault, and what it is done to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.faults.trial import Trial


class Unmet(Exception):
    """Something that a scenario calls for did not happen: the pipeline has failed it."""


class NotHere(Exception):
    """What a scenario needs is not allowed on this machine."""


@dataclass(frozen=True)
class Scenario:
    """One kind of fault. `round` does it once to a trial that runs, and returns when all is well again."""

    name: str
    round: Callable[[Trial], None]
    pipeline: str = "clickstream"
    brokers: int = 1
    settings: tuple[str, ...] = ()
    """Of the pipeline's spec, beside those that all trials have."""
    run_options: tuple[str, ...] = ()
    """Of `penstock run`."""
    run_patches: tuple[str, ...] = ()
    send_patches: tuple[str, ...] = ()
    within: Callable[[Path], AbstractContextManager[None]] = lambda _: nullcontext()
    """Something of its own that a trial is done in, given its directory: a network, a disk."""
    verdict: Callable[[Trial], list[str]] = lambda _: []
    """Problems that neither the audit nor the readers see, in the end."""
    is_final: bool = False
    """Nothing goes on after it: every round is a trial of its own."""

    @property
    def is_plain(self) -> bool:
        """Whether it can be done to any trial of the default pipeline that has three brokers."""
        return self == Scenario(self.name, self.round, brokers=self.brokers)

    @property
    def says(self) -> str:
        """What it does, in one line."""
        return (self.round.__doc__ or "").strip().splitlines()[0]
