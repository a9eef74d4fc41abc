"""Real-time Mode on a real broker: every partition is read, nothing is lost, repeats have the same id."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from penstock.audit.topic import read_topic
from penstock.engine.checkpoint import Checkpoint
from penstock.engine.enrich import Lookups
from penstock.engine.outputs import Endpoints
from penstock.engine.pipeline import Pipeline, build_realtime
from penstock.engine.realtime import RealtimeQuery, read_realtime
from penstock.engine.refresh import references
from penstock.errors import PenstockError
from penstock.local.services import Addresses
from penstock.paths import DataDir
from penstock.sinks.topics import ensure_topics
from penstock.spec import KafkaSink, PipelineSpec, to_toml
from tests.integration.clicks import clickstream
from tests.integration.conftest import write_small_reference
from tests.integration.streams import click

pytestmark = [pytest.mark.integration, pytest.mark.timeout(420)]

PARTITIONS = 4
WITHIN_S = 150.0
BATCH = "5 seconds"
"""The shortest that Spark takes, so that a test sees batches end."""


@dataclass
class Rig:
    """A clickstream with a realtime sink, as a process of its own: Spark has one size in a process."""

    spec: PipelineSpec
    data: DataDir
    kafka: str
    sent: set[str] = field(default_factory=set)
    _process: subprocess.Popen[bytes] | None = None
    _runs: int = 0

    @property
    def log(self) -> Path:
        return self.data.logs / f"run-{self._runs}.log"

    @property
    def checkpoint(self) -> Path:
        return self.data.checkpoints / f"{self.spec.name}-enriched"

    def start(self) -> None:
        file = self.data.root / "pipeline.toml"
        file.write_text(to_toml(self.spec))
        shorter = f"import penstock.engine.realtime as r; r.batch_length = lambda: {BATCH!r}"
        script = f"{shorter}; import penstock.cli as c; c.app()"
        command = [sys.executable, "-c", script, "run", str(file), "--data", str(self.data.root)]
        self._runs += 1
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--with-parent"], stdout=log, stderr=log, start_new_session=True
            )
        self.wait_for(lambda: "\nrunning" in self.log.read_text())

    def kill(self) -> None:
        """End Python and the JVM at once, without a word."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)

    def wait_for(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not holds():
            assert self._process is not None
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def send(self, count: int, *, flawed: int = 0) -> None:
        """Good clicks over all partitions in turn, then some that are not."""
        producer = Producer({"bootstrap.servers": self.kafka})
        first = len(self.sent)
        for number in range(first, first + count):
            id_ = f"e{number:07d}"
            self.sent.add(id_)
            value = click("u1", number, event_id=id_, ts=int(time.time() * 1000))
            producer.produce(self.spec.source.topic, value, partition=number % PARTITIONS)
            producer.poll(0)
        for number in range(flawed):
            bad = b"{" if number % 2 else click(None, number)
            producer.produce(self.spec.source.topic, bad, partition=number % PARTITIONS)
        assert producer.flush(30) == 0

    def received(self) -> list[dict[str, Any]]:
        rows = []
        for message in read_topic(self.kafka, f"{self.spec.name}-enriched"):
            row = json.loads(message.value() or b"")
            assert message.key() == row["event_id"].encode()
            rows.append(row)
        return rows

    def arrived(self) -> bool:
        return {row["event_id"] for row in self.received()} >= self.sent

    def batches(self) -> int:
        return len(list((self.checkpoint / "commits").glob("[0-9]*")))


def realtime_spec() -> PipelineSpec:
    name = f"r{uuid.uuid4().hex[:8]}"
    names = {
        "name": name,
        "source.topic": f"{name}-clicks",
        "source.partitions": str(PARTITIONS),
        "sink.sessions.topic": f"{name}-sessions",
        "sink.sessions_table.table": f"{name}_sessions",
        "sink.sessions_live.table": f"{name}_live",
        "sink.dead-letters.topic": f"{name}-dead",
    }
    sink = KafkaSink(
        name="enriched",
        topic=f"{name}-enriched",
        rows=("events",),
        guarantee="at_least_once",
        latency="realtime",
        key="event_id",
        columns=("event_id", "user_id", "price", "segment", "brand"),
    )
    described = clickstream(**names)
    return described.model_copy(update={"sink": (*described.sink, sink)})


@pytest.fixture
def spec(services: Addresses) -> PipelineSpec:
    addresses = {"kafka": services.kafka, "clickhouse": services.clickhouse, "postgres": services.postgres}
    described = realtime_spec()
    ensure_topics(services.kafka, {described.source.topic: PARTITIONS})
    return described.model_copy(update={"services": described.services.model_copy(update=addresses)})


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    data = DataDir.at(tmp_path / "data")
    write_small_reference(data)
    return data


@pytest.fixture
def rig(spec: PipelineSpec, data: DataDir, services: Addresses) -> Iterator[Rig]:
    rig = Rig(spec, data, services.kafka)
    yield rig
    rig.stop()


def test_events_of_all_partitions_leave_enriched_while_sessions_are_made_beside(rig: Rig) -> None:
    rig.start()
    rig.send(400, flawed=20)
    rig.wait_for(rig.arrived)
    rows = rig.received()
    assert Counter(row["event_id"] for row in rows) == Counter(rig.sent)
    assert rows[0] == {
        "event_id": rows[0]["event_id"],
        "user_id": "u1",
        "price": None,
        "segment": "new",
        "brand": "acme",
    }
    # Those that are not good leave by the micro-batches, once.
    rig.wait_for(lambda: len(list(read_topic(rig.kafka, f"{rig.spec.name}-dead"))) == 20)


@pytest.mark.faults
def test_after_a_kill_nothing_is_lost_and_what_comes_again_has_the_same_ids(rig: Rig) -> None:
    rig.start()
    rig.send(1_000)
    rig.wait_for(rig.arrived)
    # The position of these is kept: a batch that began after they came has ended too.
    kept, seen = set(rig.sent), rig.batches()
    rig.wait_for(lambda: rig.batches() >= seen + 2)
    sending = threading.Thread(target=rig.send, args=(2_000,))
    sending.start()
    rig.wait_for(lambda: len(rig.received()) > 1_000)
    rig.kill()
    sending.join()
    rig.send(500)
    rig.start()
    rig.wait_for(rig.arrived)
    counts = Counter(row["event_id"] for row in rig.received())
    assert counts.keys() == rig.sent
    assert all(counts[id_] == 1 for id_ in kept)
    repeated = sum(count - 1 for count in counts.values())
    print(f"{repeated} of {len(rig.sent)} events came twice")  # noqa: T201 - a figure, not a verdict
    assert repeated > 0


def test_too_few_slots_are_refused_with_the_arithmetic(
    spec: PipelineSpec, data: DataDir, services: Addresses, spark: SparkSession
) -> None:
    needed = min(PARTITIONS, os.cpu_count() or 1) + 1
    with pytest.raises(PenstockError, match=rf"needs {needed} task slots.*has 2"):
        Pipeline(spec, data, endpoints(services), spark, on_receipt=lambda _: None, say=print)


def test_a_query_whose_partitions_are_not_all_read_stops_and_says_so(
    spec: PipelineSpec, data: DataDir, services: Addresses, spark: SparkSession
) -> None:
    sink = spec.sink[-1]
    assert isinstance(sink, KafkaSink)
    checkpoint = Checkpoint(data.checkpoints / "starved", spec.source.topic)
    rows = realtime_rows_of(spark, spec, data, services, checkpoint, sink)
    ready: list[bool] = []
    query = RealtimeQuery(
        name=f"{spec.name}-starved",
        spec=spec,
        data=data,
        endpoints=endpoints(services),
        rows=rows,
        sinks=[sink],
        checkpoint=checkpoint,
        on_receipt=lambda _: None,
        on_ready=lambda: ready.append(True),
        say=print,
    )
    with pytest.raises(PenstockError, match=f"{PARTITIONS - 2} of the tasks that read .* do not run"):
        query.run(threading.Event())
    checkpoint.close()
    assert not ready


def test_a_record_is_decoded_once(
    spec: PipelineSpec,
    data: DataDir,
    services: Addresses,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = spec.sink[-1]
    assert isinstance(sink, KafkaSink)
    checkpoint = Checkpoint(data.checkpoints / "explained", spec.source.topic)
    rows = realtime_rows_of(spark, spec, data, services, checkpoint, sink)
    checkpoint.close()
    rows.explain()
    assert capsys.readouterr().out.count("penstock.kernel.Decode@") == 1


def realtime_rows_of(
    spark: SparkSession,
    spec: PipelineSpec,
    data: DataDir,
    services: Addresses,
    checkpoint: Checkpoint,
    sink: KafkaSink,
) -> DataFrame:
    lookups = Lookups(spark, references(spec, data, services.postgres, print), checkpoint, print)
    return build_realtime(spark, read_realtime(spark, spec, services.kafka, PARTITIONS), spec, lookups, sink)


def endpoints(services: Addresses) -> Endpoints:
    return Endpoints(services.kafka, services.clickhouse, services.postgres)
