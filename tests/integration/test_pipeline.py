"""The whole pipeline on a real broker and a real ClickHouse: what goes in comes out once."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from penstock.engine.outputs import Endpoints
from penstock.engine.pipeline import Pipeline
from penstock.engine.receipt import Receipt
from penstock.engine.source import check_source
from penstock.errors import PositionLost, SourceError, SpecError
from penstock.local.services import Addresses
from penstock.observe.audit import Audit, audit
from penstock.observe.journal import Batch, JournalWriter
from penstock.observe.latency import Latency
from penstock.observe.topic import read_topic
from penstock.paths import DataDir
from penstock.produce.clickstream import ClickstreamPlan
from penstock.produce.ledger import next_producer_id
from penstock.produce.producer import produce, send_clock_event
from penstock.produce.reference import write_reference
from penstock.sinks.kafka import ensure_topics
from penstock.spec import PipelineSpec, Windows
from tests.integration.conftest import clickstream

pytestmark = pytest.mark.integration

PLAN = ClickstreamPlan(users=2_000, products=500, delayed_max_ms=20_000, late_min_ms=66_000, late=0.01)
QUIET_S = 3.0


@dataclass
class Rig:
    """A clickstream with topics and tables of its own, and a producer for it."""

    spec: PipelineSpec
    data: DataDir
    addresses: Addresses
    spark: SparkSession
    receipts: list[Receipt] = field(default_factory=list)

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

    def run_until_quiet(self, adopt: tuple[str, ...] = (), quiet_s: float = QUIET_S) -> list[Receipt]:
        """Run until nothing has happened for a while; the receipts of this run."""
        journal = JournalWriter(self.data.runs / self.spec.name / "journal.jsonl")
        stop, last = threading.Event(), [time.monotonic() + 30]
        before = len(self.receipts)

        def keep(receipt: Receipt) -> None:
            self.receipts.append(receipt)
            journal.write(Batch(0, receipt, Latency.of(receipt.latency_ms)))
            last[0] = time.monotonic()

        def watch() -> None:
            while not stop.wait(0.2):
                if time.monotonic() - last[0] > quiet_s:
                    stop.set()

        pipeline = Pipeline(
            self.spec, self.data, self.endpoints, self.spark, on_receipt=keep, say=print, adopt=adopt
        )
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


@pytest.fixture
def new_rig(services: Addresses, spark: SparkSession, tmp_path: Path) -> NewRig:
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
        data = DataDir.at(tmp_path / name)
        write_reference(data.reference, users=PLAN.users, products=PLAN.products)
        ensure_topics(services.kafka, {spec.source.topic: spec.source.partitions})
        return Rig(spec, data, services, spark)

    return make


def test_what_is_sent_comes_out_once_and_equals_the_oracle_over_two_runs(new_rig: NewRig) -> None:
    rig = new_rig()
    rig.send()
    rig.run_until_quiet()
    rig.send()
    rig.move_clock()
    rig.run_until_quiet()
    outcome = rig.audit()
    assert outcome.problems == ()
    assert outcome.sent == outcome.decoded + outcome.rejected == 9_001
    assert outcome.expected > 100
    assert min(outcome.late, outcome.rejected) > 10

    letters = list(read_topic(rig.addresses.kafka, f"{rig.spec.name}-dead"))
    assert len(letters) == outcome.late + outcome.rejected
    headers: list[dict[str, Any]] = [dict(letter.headers() or []) for letter in letters]
    origins = {(h["penstock.topic"], h["penstock.partition"], h["penstock.offset"]) for h in headers}
    assert len(origins) == len(letters)
    originals = {
        (str(m.partition()).encode(), str(m.offset()).encode()): m.value()
        for m in read_topic(rig.addresses.kafka, rig.spec.source.topic)
    }
    for letter, header in zip(letters, headers, strict=True):
        assert letter.value() == originals[header["penstock.partition"], header["penstock.offset"]]


def test_sessions_of_a_silent_topic_close_by_themselves(new_rig: NewRig) -> None:
    rig = new_rig(
        **{"sessions.gap": "2 seconds", "sessions.lateness": "1 second", "sessions.idle": "2 seconds"}
    )
    rig.send(seconds=1.0, rate_eps=200)
    receipts = rig.run_until_quiet(quiet_s=12.0)
    opened, closed = (sum(getattr(r, name) - r.merged for r in receipts) for name in ("opened", "closed"))
    assert closed >= opened > 100
    assert rig.state_keys() == 0


def test_windows_of_a_silent_topic_close_by_themselves(new_rig: NewRig) -> None:
    rig = new_rig()
    times = {"size": "4 seconds", "slide": "2 seconds", "lateness": "1 second", "idle": "2 seconds"}
    windows = Windows.model_validate({"key": "user_id", "measures": {"events": "count(*)"}, **times})
    rig.spec = rig.spec.model_copy(update={"sessions": None, "windows": windows})
    rig.send(seconds=1.0, rate_eps=200)
    receipts = rig.run_until_quiet(quiet_s=12.0)
    opened, closed = (sum(getattr(r, name) for r in receipts) for name in ("opened", "closed"))
    assert closed >= opened > 200
    assert rig.state_keys() == 0


def test_a_batch_whose_commit_was_lost_is_compared_not_written_again(new_rig: NewRig) -> None:
    rig = new_rig()
    rig.send()
    rig.move_clock()
    rig.run_until_quiet()
    lost = rig.forget_last_commit()
    [again, *_] = rig.run_until_quiet()
    assert again.batch == lost
    assert [sink.name for sink in again.sinks if not sink.replayed] == [f"{rig.spec.name}_live"]
    assert rig.audit().problems == ()


def test_a_sink_that_lost_its_position_stops_the_pipeline_until_it_is_adopted(new_rig: NewRig) -> None:
    rig = new_rig()
    rig.send()
    rig.run_until_quiet()
    admin = AdminClient({"bootstrap.servers": rig.addresses.kafka})
    sink = f"{rig.spec.name}-sessions"
    for deleted in admin.delete_consumer_groups([f"penstock-{rig.spec.name}-{sink}"]).values():
        deleted.result()
    rig.send()
    rig.move_clock()
    with pytest.raises(PositionLost, match=f"--adopt {sink}"):
        rig.run_until_quiet()
    rig.run_until_quiet(adopt=(sink,))
    assert rig.audit().problems == ()


def test_a_topic_that_is_missing_or_has_other_partitions_is_named(new_rig: NewRig) -> None:
    rig = new_rig()
    with pytest.raises(SourceError, match="4 partitions, the spec says 3"):
        check_source(
            clickstream(**{"source.topic": rig.spec.source.topic, "source.partitions": "3"}),
            rig.addresses.kafka,
        )
    with pytest.raises(SourceError, match="topic nowhere does not exist"):
        check_source(clickstream(**{"source.topic": "nowhere"}), rig.addresses.kafka)


def test_reference_data_that_is_missing_doubled_or_lacks_a_column_is_a_spec_error(new_rig: NewRig) -> None:
    rig = new_rig()
    users = rig.data.reference / "users.parquet"
    for table, problem in (
        (
            pa.table({"user_id": ["u1", "u1"], "segment": ["a", "b"], "country": ["x", "y"]}),
            "'u1' stands twice",
        ),
        (pa.table({"user_id": ["u1"], "segment": ["a"]}), '"country": no such column in users.parquet'),
        (None, "no such file"),
    ):
        users.unlink(missing_ok=True)
        if table is not None:
            pq.write_table(table, users)
        with pytest.raises(SpecError, match=problem):
            Pipeline(rig.spec, rig.data, rig.endpoints, rig.spark, on_receipt=print, say=print)
