"""Sinks that several tasks write: each slot exactly once, whatever becomes of the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pyarrow as pa
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.engine.outputs import Opening
from penstock.engine.pipeline import Pipeline
from penstock.engine.writers import Answer, SlotTask, in_slots
from penstock.errors import PositionLost, StateMismatch
from penstock.local.services import Addresses
from penstock.paths import DataDir
from penstock.sinks.topics import ensure_topics
from penstock.spec import PipelineSpec
from tests.integration.payments import PARTITIONS, STORES, Payments, payments
from tests.integration.places.place import PATIENCE_S, eventually

pytestmark = pytest.mark.integration

NewPayments = Callable[..., Payments]


@pytest.fixture
def new_payments(services: Addresses, spark: SparkSession, tmp_path: Path) -> NewPayments:
    def make(*stores: str, **more: object) -> Payments:
        spec = payments(*stores, **more)  # type: ignore[arg-type]
        ensure_topics(services.kafka, {spec.source.topic: PARTITIONS})
        return Payments(spec, DataDir.at(tmp_path / spec.name), services, spark)

    return make


def once(first: int, count: int, seen: dict[tuple[str, int], int]) -> bool:
    """Whether these payments are there, each once and in one slot."""
    return sorted(id_ for id_, _ in seen) == sorted(f"p{n}" for n in range(first, first + count)) and set(
        seen.values()
    ) == {1}


def test_each_payment_is_in_every_store_once_also_when_its_batch_comes_again(
    new_payments: NewPayments,
) -> None:
    rig = new_payments(*STORES)
    rig.pay(0, 500)
    rig.send_raw([b"no json", b"{}"])
    first = rig.run_until_quiet()
    rig.pay(500, 400)
    last = rig.run_until_quiet()[-1]
    assert rig.forget_last_commit() == last.batch
    [again, *_] = rig.run_until_quiet()

    assert sum(receipt.decoded for receipt in {r.batch: r for r in rig.receipts}.values()) == 900
    assert sum(receipt.rejected for receipt in first) == 2
    assert [sink.rows for sink in first[0].sinks[:3]] == [first[0].decoded] * 3
    assert sum(events for _, events in first[0].latency_ms) == first[0].decoded
    assert all(sink.replayed for sink in again.sinks)
    assert [sink.digest for sink in again.sinks] == [sink.digest for sink in last.sinks]
    slots = rig.held("postgres")
    assert once(0, 900, slots)
    assert {slot for _, slot in slots} == {0, 1, 2}
    assert rig.held("kafka") == rig.held("clickhouse") == slots
    assert rig.all_positions() == dict.fromkeys(STORES, (again.batch,) * 3)
    found = rig.look()
    assert (found.problems, found.lost, found.duplicated) == ((), 0, 0)
    assert [sink.said for sink in found.sinks] == [900, 900, 900, 2]

    fewer = rig.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    fewer["sink"][2]["writers"] = 2
    with pytest.raises(StateMismatch, match="sink postgres-events: writers was 3, is 2"):
        Pipeline(PipelineSpec(**fewer), rig.data, rig.endpoints, rig.spark, on_receipt=print, say=print)


def test_slots_without_rows_hold_every_batch_too(new_payments: NewPayments) -> None:
    rig = new_payments(*STORES)
    rig.send_raw([b"no json"])
    [receipt, *_] = rig.run_until_quiet()
    assert (receipt.decoded, receipt.rejected) == (0, 1)
    assert rig.all_positions() == dict.fromkeys(STORES, (0, 0, 0))
    rig.pay(0, 1)
    assert rig.run_until_quiet()[-1].batch == 1
    assert rig.all_positions() == dict.fromkeys(STORES, (1, 1, 1))
    for store in STORES:
        assert once(0, 1, rig.held(store))


def test_at_least_once_a_batch_that_comes_again_is_written_again_and_loses_nothing(
    new_payments: NewPayments,
) -> None:
    rig = new_payments(*STORES, guarantee="at_least_once")
    rig.pay(0, 300)
    batch = rig.run_until_quiet()[-1].batch
    rig.forget_last_commit()
    [again, *_] = rig.run_until_quiet()
    assert again.batch == batch
    assert [sink.replayed for sink in again.sinks] == [False, False, False, True]
    assert once(0, 300, rig.held("postgres"))
    assert rig.held("kafka").keys() == rig.held("clickhouse").keys() == rig.held("postgres").keys()
    found = rig.look()
    assert (found.problems, found.lost, found.duplicated) == ((), 0, 0)


def test_when_a_store_refuses_one_slot_the_batch_comes_again_and_the_others_compare(
    new_payments: NewPayments,
) -> None:
    rig = new_payments(*STORES)
    rig.pay(0, 300)
    due = rig.run_until_quiet()[-1].batch + 1
    refusing = rig.refused_to_slot_1()
    refusing.__enter__()
    seen: list[dict[str, tuple[int, ...]]] = []

    def mend(text: str) -> None:
        if not seen and "starting again" in text:
            assert "slot 1 of 3" in text
            seen.append(rig.all_positions())
            refusing.__exit__(None, None, None)

    rig.say = mend
    rig.pay(300, 300)
    [receipt, *_] = rig.run_until_quiet()
    assert seen == [{"kafka": (due,) * 3, "clickhouse": (due, due - 1, due), "postgres": (due, due - 1, due)}]
    # The slots of Kafka had it all; of the others one had to write.
    assert [sink.replayed for sink in receipt.sinks[:3]] == [True, False, False]
    for store in STORES:
        assert once(0, 600, rig.held(store)), store
    assert rig.look().problems == ()


def test_a_slot_that_lost_its_position_stops_the_pipeline_until_the_sink_is_adopted(
    new_payments: NewPayments,
) -> None:
    rig = new_payments("postgres")
    rig.pay(0, 200)
    rig.run_until_quiet()
    rig.sql(f"DELETE FROM penstock_positions WHERE query = '{rig.spec.name}' AND slot = 1")  # noqa: S608
    rig.pay(200, 200)
    with pytest.raises(PositionLost, match=r"slot 1 of 3.*holds no position") as caught:
        rig.run_until_quiet()
    assert "--adopt postgres-events" in caught.value.hint
    rig.run_until_quiet(adopt=("postgres-events",))
    assert once(0, 400, rig.held("postgres"))
    assert rig.look().problems == ()


def workers() -> list[psutil.Process]:
    """The Python workers of this process's Spark, which a daemon forks."""
    daemons = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # gone meanwhile
            if "pyspark.daemon" in child.cmdline():
                daemons.append((child, child.ppid()))
    pids = {daemon.pid for daemon, _ in daemons}
    return [child for child, parent in daemons if parent in pids]


def is_connected(worker: psutil.Process, port: int) -> bool:
    with suppress(psutil.Error):
        return any(one.raddr and one.raddr.port == port for one in worker.net_connections("tcp"))
    return False


@contextmanager
def nobody_acknowledges(rig: Payments) -> Iterator[Callable[[], bool]]:
    """The topic wants two replicas in sync and has one: transactions stay open."""

    def need(replicas: int) -> None:
        change = ConfigEntry(
            "min.insync.replicas", str(replicas), incremental_operation=AlterConfigOpType.SET
        )
        topic = ConfigResource(ConfigResource.Type.TOPIC, rig.table, incremental_configs=[change])
        admin = AdminClient({"bootstrap.servers": rig.addresses.kafka})
        [done] = admin.incremental_alter_configs([topic]).values()
        done.result()

    def writing() -> bool:
        port = int(rig.addresses.kafka.rpartition(":")[2])
        return any(is_connected(worker, port) for worker in workers())

    need(2)
    try:
        yield writing
    finally:
        need(1)


@contextmanager
def table_is_locked(rig: Payments) -> Iterator[Callable[[], bool]]:
    """Transactions stop before the first row of theirs is in the table."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'relation'"
    with psycopg.connect(rig.addresses.postgres) as blocker:
        blocker.execute(f"LOCK TABLE {rig.table} IN SHARE MODE".encode())
        yield lambda: bool(rig.sql(waiting))


HELD_UP = {"kafka": nobody_acknowledges, "postgres": table_is_locked}


@pytest.mark.faults
@pytest.mark.parametrize("store", HELD_UP)
def test_workers_that_are_killed_while_they_write_leave_nothing_twice(
    new_payments: NewPayments, store: str
) -> None:
    rig = new_payments(store)
    rig.pay(0, 200)
    rig.run_until_quiet()
    failed = threading.Event()
    # A topic that is held up by too few replicas is a Kafka that is away.
    rig.say = lambda text: failed.set() if "starting again" in text or "away" in text else None

    def kill() -> None:
        with HELD_UP[store](rig) as writing:
            rig.pay(200, 200)
            eventually(writing)
            for worker in workers():
                with suppress(psutil.NoSuchProcess):
                    worker.kill()
            assert failed.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        rig.run_until_quiet(quiet_s=10)
        killing.result()
    assert once(0, 400, rig.held(store))
    assert rig.look().problems == ()


def slot_task(rig: Payments, batch: int) -> tuple[SlotTask, pa.RecordBatch]:
    """The task of a sink's batch, and one payment for slot 1."""
    columns = {name: pa.string() for name in ("kind", "span_id", "event.id", "event.payer")}
    columns |= {name: pa.int64() for name in ("version", "offset", "event.ts")}
    columns |= {name: pa.int32() for name in ("partition", "event.amount", "slot")}
    row = {"kind": "event", "partition": 0, "offset": batch, "event.id": f"p{batch}", "slot": 1}
    [sink, _] = rig.spec.sink
    schema = pa.schema(columns)
    opening = Opening(rig.spec, rig.spec.name, sink, rig.endpoints, set_aside=False)
    task = SlotTask(opening, batch, adopt=False, schema=schema)
    return task, pa.RecordBatch.from_pylist([row], schema)


def test_a_second_attempt_at_a_slot_ends_the_first_and_a_third_finds_what_the_second_left(
    new_payments: NewPayments,
) -> None:
    rig = new_payments("postgres")
    task, payment = slot_task(rig, batch=0)
    assert task.run(1, [payment]) == Answer(1, 1, task.run(1, [payment]).digest)
    task, payment = slot_task(rig, batch=1)
    with ThreadPoolExecutor(2) as pool:
        with table_is_locked(rig) as writing:
            first = pool.submit(task.run, 1, [payment])
            eventually(writing)
            second = pool.submit(task.run, 1, [payment])
            assert first.result(PATIENCE_S).error == "SinkError"
        written = second.result(PATIENCE_S)
    assert (written.error, written.rows, written.replayed) == ("", 1, False)
    assert task.run(1, [payment]) == replace(written, replayed=True)
    assert once(0, 2, rig.held("postgres"))
    assert rig.positions("postgres") == (-1, 1, -1)


KEYS = st.lists(st.one_of(st.none(), st.text(max_size=4)), max_size=12)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=KEYS, writers=st.integers(2, 6))
def test_a_key_has_one_slot_and_every_slot_a_partition(
    spark: SparkSession, keys: list[str | None], writers: int
) -> None:
    spec = payments("postgres", writers=writers)
    columns = "kind string, span_id string, version long, partition int, offset long"
    events = ", ".join(f"`event.{name}` {type_}" for name, type_ in (
        ("id", "string"), ("payer", "string"), ("amount", "int"), ("ts", "long")))  # fmt: skip
    rows = [("event", None, None, 0, n, key, None, None, None) for n, key in enumerate(keys)]
    rows += [("rejected", None, None, 0, 99, "x", None, None, None)]
    frame = spark.createDataFrame(rows, f"{columns}, {events}")
    placed = in_slots(frame, spec.sink[0], spec).withColumn("at", F.spark_partition_id())
    assert placed.rdd.getNumPartitions() == writers
    found = placed.collect()
    assert sorted(row["offset"] for row in found) == list(range(len(keys)))
    assert all(row["at"] == row["slot"] for row in found)
    assert len({(row["event.id"], row["slot"]) for row in found}) == len(set(keys))
