"""What a plan is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.errors import PenstockError

_MAY_BE_0 = ("alive", "lookup_rows", "outage_s")


@dataclass(frozen=True)
class Wanted:
    """What comes in, what is kept, and what is asked of it."""

    rate_eps: float
    size_bytes: float
    alive: int = 0
    """Sessions or windows that are open at once."""
    lookup_rows: int = 0
    p99_s: float = 5.0
    """From an event's creation to its row in a sink."""
    replication: int = 3
    brokers: int = 3
    retention_s: float = 86_400.0
    outage_s: float = 3_600.0
    producers: int = 1
    readers: int = 1
    """Groups that read the topic, this pipeline among them."""
    executor_cores: int = 4
    partition_eps: float | None = None
    """What one partition takes, where something else than the task that reads it is the bound."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None:
                continue
            if not math.isfinite(value) or value < 0 or (value == 0 and name not in _MAY_BE_0):
                least = "of at least" if name in _MAY_BE_0 else "above"
                raise PenstockError(f"{name} = {value:g}: expected a number {least} 0")
        if self.replication > self.brokers:
            raise PenstockError(
                f"{self.brokers} brokers cannot hold {self.replication} replicas of a record",
                hint="Name more brokers (--brokers), or fewer replicas (--replication).",
            )
