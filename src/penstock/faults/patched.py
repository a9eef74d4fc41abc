"""The ordinary command line with something in it changed, as a process: nothing of this is in the program.

`python -m penstock.faults.patched PATCH[,PATCH] run clickstream ...`
"""

from __future__ import annotations

import os
import runpy
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

MARK = "FAULTS_MARK"
"""In the environment: the file that slow-commit touches whenever a transaction is about to be committed."""

_COMMIT_WAITS_S = 0.5
_MALFORMED = 0.05
_REPEATED = 0.05
_OVERSIZED_EVERY = 20
_OVERSIZED_BYTES = 900_000


def no_fence() -> None:
    """Give every writer a transactional id of its own, so that none fences another."""
    from penstock.sinks.kafka import TransactionalKafkaSink

    prepare = TransactionalKafkaSink._prepare

    def unfenced(self: Any) -> Any:
        self._transactional_id = f"{self._transactional_id}-{uuid.uuid4()}"
        return prepare(self)

    TransactionalKafkaSink._prepare = unfenced  # type: ignore[method-assign]


def no_position() -> None:
    """Take every batch for one that is due, whatever the sink holds."""
    from penstock.sinks import clickhouse, kafka, postgres

    def always(*_: object, **__: object) -> bool:
        return True

    for module in (clickhouse, kafka, postgres):
        module.must_write = always  # type: ignore[attr-defined]


def no_comparison() -> None:
    """Take a batch that comes again for the same, whatever is in it."""
    from penstock.sinks import protocol

    protocol._compare = lambda *_: None


def slow_commit() -> None:
    """Wait before each commit of a transaction, so that a fault can be sure to meet one that is open."""
    from confluent_kafka import Producer

    from penstock.sinks import kafka

    class Waiting(Producer):
        def commit_transaction(self, *arguments: Any) -> None:
            Path(os.environ[MARK]).touch()
            time.sleep(_COMMIT_WAITS_S)
            super().commit_transaction(*arguments)

    kafka.Producer = Waiting  # type: ignore[attr-defined]


def poison() -> None:
    """Send many malformed records, some of them as large as Kafka takes."""
    from penstock.produce.clickstream import ClickstreamPlan

    @dataclass(frozen=True)
    class Poisonous(ClickstreamPlan):
        def encoder(self, producer: str) -> Any:
            return _Oversizing(super().encoder(producer))

    _plan_as(lambda plan: Poisonous(**{**vars(plan), "malformed": _MALFORMED}))


class _Oversizing:
    """Makes every so many of the records that are no JSON as large as Kafka takes."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self._chance = np.random.default_rng(1)

    def encode(self, chunk: Any) -> Any:
        from penstock.produce.chunk import Flaw

        messages = self._encoder.encode(chunk)
        for row in np.flatnonzero((chunk.flaw == Flaw.NOT_JSON) & (chunk.seq % _OVERSIZED_EVERY == 0)):
            # Noise: what compresses well would be small to the broker.
            messages[row]["value"] += self._chance.bytes(_OVERSIZED_BYTES)
        return messages


def repeats() -> None:
    """Send many events a second time."""
    _plan_as(lambda plan: replace(plan, duplicate=_REPEATED))


def _plan_as(changed: Callable[[Any], Any]) -> None:
    from penstock.produce import shipped

    plan_for = shipped.plan_for
    shipped.plan_for = lambda spec, seed: changed(plan_for(spec, seed))


PATCHES: dict[str, Callable[[], None]] = {
    "no-fence": no_fence,
    "no-position": no_position,
    "no-comparison": no_comparison,
    "slow-commit": slow_commit,
    "poison": poison,
    "repeats": repeats,
}


def main() -> None:
    names, sys.argv[1:] = sys.argv[1], sys.argv[2:]
    for name in names.split(","):
        PATCHES[name]()
    runpy.run_module("penstock.cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
