"""A clickstream with topics and tables of its own, run in this process until nothing happens any more."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.audit.exact import Audit, audit
from penstock.engine.outputs import Endpoints
from penstock.engine.pipeline import READY, Pipeline
from penstock.engine.receipt import Receipt
from penstock.local.services import Addresses
from penstock.observe.journal import Batch, JournalWriter
from penstock.observe.latency import Latency
from penstock.paths import DataDir, shipped
from penstock.produce.clickstream import ClickstreamPlan
from penstock.produce.ledger import next_producer_id
from penstock.produce.producer import produce, send_clock_event
from penstock.produce.reference import write_reference
from penstock.sinks.topics import ensure_topics
from penstock.spec import PipelineSpec, load

PLAN = ClickstreamPlan(users=2_000, products=500, delayed_max_ms=20_000, late_min_ms=66_000, late=0.01)
SHORT = {"sessions.gap": "10 seconds", "sessions.lateness": "20 seconds", "sessions.partitions": "2"}
QUIET_S = 3.0
_QUIET_MAX_S = 30.0
"""A test that runs a pipeline three times must be over within five minutes."""
STARTED_WITHIN_S = 120.0


def clickstream(engine: str = "kernel", **overrides: str) -> PipelineSpec:
    """The shipped clickstream with a gap short enough to see sessions end."""
    return load(shipped("pipelines") / "clickstream.toml", overrides={**SHORT, "engine": engine, **overrides})


@dataclass
class Rig:
    """A clickstream with topics and tables of its own, and a producer for it."""

    spec: PipelineSpec
    data: DataDir
    addresses: Addresses
    spark: SparkSession
    receipts: list[Receipt] = field(default_factory=list)
    say: Callable[[str], None] = print

    def send(self, seconds: float = 3.0, rate_eps: float = 1_500) -> None:
        ledgers = self.data.produced / self.spec.name
        produce(
            PLAN,
            bootstrap=self.addresses.kafka,
            topic=self.spec.source.topic,
            rate_eps=rate_eps,
            seconds=seconds,
            ledger_dir=ledgers,
            producer_id=next_producer_id(ledgers),
            stop=threading.Event(),
            on_stats=lambda _: None,
        )

    def move_clock(self) -> None:
        send_clock_event(
            PLAN,
            bootstrap=self.addresses.kafka,
            topic=self.spec.source.topic,
            ts_ms=time.time_ns() // 1_000_000 + 15_000,
            ledger_dir=self.data.produced / self.spec.name,
        )

    def state_keys(self) -> int:
        state = self.spark.read.format("statestore").option("stateVarName", "spans")
        return state.load(str(self.data.checkpoints / self.spec.name)).count()

    def run_until_quiet(self, quiet_s: float = QUIET_S, **how: Any) -> list[Receipt]:
        """Run until nothing has happened for a while; the receipts of this run."""
        journal = JournalWriter(self.data.runs / self.spec.name / "journal.jsonl")
        stop, last = threading.Event(), [time.monotonic() + STARTED_WITHIN_S]
        before, quiet = len(self.receipts), [quiet_s]

        def keep(receipt: Receipt) -> None:
            self.receipts.append(receipt)
            journal.write(Batch(0, receipt, Latency.of(receipt.latency_ms)))
            last[0] = time.monotonic()
            # On a busy machine a batch can take longer than it is usually quiet between two.
            quiet[0] = max(quiet_s, min(3 * receipt.total_ms / 1000, _QUIET_MAX_S))

        def say(text: str) -> None:
            self.say(text)
            if text == READY:
                last[0] = time.monotonic()

        def watch() -> None:
            while not stop.wait(0.2):
                if time.monotonic() - last[0] > quiet[0]:
                    stop.set()

        pipeline = Pipeline(self.spec, self.data, self.endpoints, self.spark, on_receipt=keep, say=say, **how)
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            pipeline.run(stop)
        finally:
            stop.set()
            watcher.join()
            pipeline.close()
            journal.close()
        return self.receipts[before:]

    @property
    def endpoints(self) -> Endpoints:
        return Endpoints(self.addresses.kafka, self.addresses.clickhouse, self.addresses.postgres)

    def audit(self) -> Audit:
        return audit(self.spec, self.data, self.endpoints)

    def forget_last_commit(self) -> int:
        """Put the checkpoint back to where a crash between the sinks and the commit log leaves it."""
        commits = self.data.checkpoints / self.spec.name / "commits"
        last = max(int(path.name) for path in commits.glob("[0-9]*"))
        (commits / str(last)).unlink()
        return last


NewRig = Callable[..., Rig]


def rigs(services: Addresses, spark: SparkSession, directory: Path) -> NewRig:
    """What makes rigs in a directory."""

    def make(**overrides: str) -> Rig:
        name = f"c{uuid.uuid4().hex[:8]}"
        names = {
            "name": name,
            "source.topic": f"{name}-clicks",
            "source.partitions": "4",
            "sink.sessions.topic": f"{name}-sessions",
            "sink.sessions_table.table": f"{name}_sessions",
            "sink.sessions_live.table": f"{name}_live",
            "sink.dead-letters.topic": f"{name}-dead",
        }
        spec = clickstream(**names, **overrides)
        data = DataDir.at(directory / name)
        write_reference(data.reference, users=PLAN.users, products=PLAN.products)
        ensure_topics(services.kafka, {spec.source.topic: spec.source.partitions})
        return Rig(spec, data, services, spark)

    return make
