"""The ordinary command line with something in it changed, as a process: nothing of this is in the program.

`python -m penstock.faults.patched PATCH[,PATCH] run clickstream ...`
"""

from __future__ import annotations

import os
import runpy
import sys
import time
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from penstock.faults.host import MARK

_COMMIT_WAITS_S = 0.5
_MALFORMED = 0.05
_REPEATED = 0.05
_OVERSIZED_EVERY = 20
_OVERSIZED_BYTES = 900_000
_AHEAD = 0.01
_AHEAD_MS = (3_600_000, 86_400_000)
_HOT = 0.8
_BUSY_PARTITIONS = 3
_SHORT_TRANSACTION_MS = 8_000


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


def no_lock() -> None:
    """Let several processes on one checkpoint."""
    from penstock.engine import checkpoint

    checkpoint._lock = lambda path: path.open("w")


def no_count() -> None:
    """Trust ClickHouse to know a batch by its token, and count nothing."""
    from penstock.sinks.clickhouse import ClickHouseSink

    def trusting(self: Any, batch: Any, *, has_position: bool) -> tuple[Any, bool]:
        return self._put(batch, self._token(batch)), has_position

    ClickHouseSink._settle = trusting  # type: ignore[method-assign]


def no_transaction() -> None:
    """Let PostgreSQL hold the position of a batch before its rows."""
    from penstock.sinks.postgres import PostgresSink
    from penstock.sinks.protocol import Written

    write = PostgresSink.write

    def in_two(self: Any, batch: Any) -> Any:
        if not self._exactly_once:
            return write(self, batch)
        if not self._opened:
            self._create(batch)
        with self._connection.transaction():
            if is_due := self._is_due(batch):
                self._mark(batch, [])
        time.sleep(_COMMIT_WAITS_S)
        if is_due:
            with self._connection.transaction():
                self._table.upsert(self._connection, batch.rows, self._max_rows)
        self._opened = True
        return Written(batch.count, batch.digest, not is_due)

    PostgresSink.write = in_two  # type: ignore[method-assign]


def unchecked() -> None:
    """Start whatever the check before a start finds: what is behind it must refuse, too."""
    running: Any = import_module("penstock.cli.running")  # by name: commands stand above this package
    running.stop_on_errors = lambda _: None


def own_spark_home() -> None:
    """Give Spark a home of links, as the workers of local-cluster write to the home that they find."""
    import pyspark

    home = Path(os.environ[MARK]).with_name("spark-home")
    home.mkdir(exist_ok=True)
    for part in Path(pyspark.__file__).parent.iterdir():
        if not (home / part.name).exists():
            (home / part.name).symlink_to(part)
    os.environ["SPARK_HOME"] = str(home)


def short_transactions() -> None:
    """Have the cluster end transactions after some seconds."""
    from penstock.sinks import kafka

    kafka.TRANSACTION_TIMEOUT_MS = _SHORT_TRANSACTION_MS


def slow_commit() -> None:
    """Wait before each commit of a transaction, so that a fault can be sure to meet one that is open."""
    from confluent_kafka import Producer

    from penstock.sinks import producer

    class Waiting(Producer):
        def commit_transaction(self, *arguments: Any) -> None:
            Path(os.environ[MARK]).touch()
            time.sleep(_COMMIT_WAITS_S)
            super().commit_transaction(*arguments)

    producer.Producer = Waiting  # type: ignore[attr-defined]


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


def clock_ahead() -> None:
    """Send events an hour or a day ahead of their time, in the place of those with an unknown type."""
    from penstock.produce import clickstream
    from penstock.produce.chunk import INVALID_FLAWS, Flaw

    # Left as it is by the encoder, so that nothing but the time is wrong with it.
    clickstream._SPOILT[Flaw.UNKNOWN_VALUE] = (b"", b"")
    encode = clickstream.ClickEncoder.encode

    def ahead(self: Any, chunk: Any) -> Any:
        messages = encode(self, chunk)
        for row in np.flatnonzero(chunk.flaw == Flaw.UNKNOWN_VALUE):
            ts_ms = int(chunk.ts_ms[row])
            there = ts_ms + _AHEAD_MS[int(chunk.seq[row]) % len(_AHEAD_MS)]
            messages[row]["value"] = messages[row]["value"].replace(b'"ts":%d' % ts_ms, b'"ts":%d' % there)
        return messages

    clickstream.ClickEncoder.encode = ahead  # type: ignore[method-assign]
    _plan_as(lambda plan: replace(plan, invalid=_AHEAD * len(INVALID_FLAWS)))


def hot_key() -> None:
    """Let one user do most of what is done."""
    from penstock.produce.clickstream import Clicks

    clicking_users = Clicks._clicking_users

    def mostly_one(self: Any, n: int) -> Any:
        return np.where(self._rng.random(n) < _HOT, self._pool[0], clicking_users(self, n))

    Clicks._clicking_users = mostly_one  # type: ignore[method-assign]


def idle_partitions() -> None:
    """Send to some partitions only; a user's events stay in one."""
    from confluent_kafka import Producer

    from penstock.produce import outbox

    class ToFew(Producer):
        def produce_batch(self, topic: str, messages: Any, **options: Any) -> int:  # type: ignore[override]
            sent = 0
            for partition in range(_BUSY_PARTITIONS):
                part = [m for m in messages if zlib.crc32(m["key"]) % _BUSY_PARTITIONS == partition]
                sent += super().produce_batch(topic, part, partition=partition, **options) if part else 0
            return sent

    outbox.Producer = ToFew  # type: ignore[attr-defined]


def _plan_as(changed: Callable[[Any], Any]) -> None:
    from penstock.produce import shipped

    plan_for = shipped.plan_for
    shipped.plan_for = lambda spec, seed: changed(plan_for(spec, seed))


PATCHES: dict[str, Callable[[], None]] = {
    "no-fence": no_fence,
    "no-position": no_position,
    "no-comparison": no_comparison,
    "no-lock": no_lock,
    "no-count": no_count,
    "no-transaction": no_transaction,
    "unchecked": unchecked,
    "own-spark-home": own_spark_home,
    "short-transactions": short_transactions,
    "slow-commit": slow_commit,
    "poison": poison,
    "repeats": repeats,
    "clock-ahead": clock_ahead,
    "hot-key": hot_key,
    "idle-partitions": idle_partitions,
}


def main() -> None:
    names, sys.argv[1:] = sys.argv[1], sys.argv[2:]
    for name in names.split(","):
        PATCHES[name]()
    runpy.run_module("penstock.cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
