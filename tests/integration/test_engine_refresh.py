"""Reference data that changes: versions, what a replay sees, what a failed refresh does."""

from __future__ import annotations

import json
import threading
import time
from queue import Queue

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from penstock.audit.topic import read_topic
from penstock.engine.outputs import Endpoints
from penstock.engine.pipeline import Pipeline
from penstock.engine.receipt import Receipt
from penstock.engine.refresh import refreshing
from penstock.errors import SpecError
from penstock.local.services import Addresses
from penstock.sinks.topics import ensure_topics
from penstock.spec import PipelineSpec
from tests.integration.streams import click
from tests.integration.users import NewUsers, sql

# ruff: noqa: S608 - tables have names of their own
pytestmark = pytest.mark.integration


def test_a_new_version_is_used_from_the_next_batch_on_without_a_restart(new_users: NewUsers) -> None:
    users = new_users(refresh="1 hour")
    users.segments("old")

    def change(batch: int) -> None:
        if batch == 0:
            users.segments("new")
            users.look()

    users.stream.after = change
    assert users.found(["u1"], ["u1"], ["u1"])[:3] == [[("old",)], [("new",)], [("new",)]]
    first, second, third = users.used
    assert first != second == third
    assert users.said == [f"lookup users: version {second} from the next batch on"]


def test_the_same_content_is_the_same_version_in_whatever_order_or_file(new_users: NewUsers) -> None:
    users = new_users(refresh="1 hour")
    users.write(user_id=["u1", "u2"], segment=["a", None])

    def change(batch: int) -> None:
        users.write(user_id=["u2", "u1"], segment=pa.array([None, "a"]).dictionary_encode(), other=[batch, 2])
        users.look()

    users.stream.after = change
    users.found(["u1"], ["u1"])
    assert len(set(users.used)) == 1
    assert users.said == []


def test_a_batch_that_runs_again_after_a_crash_uses_the_version_it_had(new_users: NewUsers) -> None:
    users = new_users(refresh="1 hour")
    users.segments("old")
    users.found(["u1"], ["u1"])
    # While the second batch runs its table is refreshed; it crashes before it is committed.
    users.segments("new")
    users.look()
    lost = users.forget_last_commit()
    users.segments("newest")
    assert users.found(["u1"])[:2] == [[("old",)], [("newest",)]]
    old, _, again, after = users.used
    assert lost == 1
    assert old == again != after


def test_a_batch_that_ran_with_a_refreshed_version_has_it_again_after_a_crash(new_users: NewUsers) -> None:
    users = new_users(refresh="1 hour")
    users.segments("old")

    def change(batch: int) -> None:
        users.segments(f"after {batch}")
        users.look()

    users.stream.after = change
    users.found(["u1"], ["u1"], ["u1"])
    users.forget_last_commit()
    (users.stream.data.root / "users.parquet").unlink()
    assert users.found(["u1"])[0] == [("after 1",)]
    assert users.used[3] == users.used[2]


def test_old_versions_are_deleted_but_never_one_that_a_replay_needs(new_users: NewUsers) -> None:
    users = new_users(refresh="1 hour")
    users.segments("old")
    checkpoint = users.stream.data.checkpoints / users.stream.spec.name

    def change(batch: int) -> None:
        for turn in range(2):  # of which no batch uses the first
            users.segments(f"{batch} {turn}")
            users.look()
        kept = {path.stem for path in (checkpoint / "reference" / "users").glob("*.parquet")}
        assert users.used[-1] in kept
        assert len(kept) <= 4

    users.stream.after = change
    users.found(*([["u1"]] * 6))
    assert len(set(users.used)) == 6
    assert len(json.loads((checkpoint / "reference-versions.json").read_text())["users"]) == 3


def test_a_refresh_that_fails_keeps_the_old_version_and_tells_once_a_kind(new_users: NewUsers) -> None:
    users = new_users(refresh="1 hour")
    users.segments("old")
    path = users.stream.data.root / "users.parquet"

    def fail(batch: int) -> None:
        if batch == 0:
            path.unlink()
            users.look()
            users.look()
            path.write_bytes(b"no such thing")
            users.look()
            users.write(user_id=["u1", "u1"], segment=["a", "b"])
            users.look()
            users.write(user_id=["u1"], other=["a"])
            users.look()
            users.write(user_id=["u1"], segment=[[1]])
            users.look()
        else:
            users.segments("new")
            users.look()

    users.stream.after = fail
    rows = users.found(["u1"], ["u1"], ["u1"])
    assert rows[:3] == [[("old",)], [("old",)], [("new",)]]
    first = users.used[0]
    reasons = ("no such file", "not a Parquet file", "'u1' stands twice", "no such column", '"segment" was')
    assert len(users.said) == len(reasons) + 2
    for said, reason in zip(users.said, reasons, strict=False):
        assert said.startswith(f"lookup users: refresh failed, still on version {first} of ")
        assert reason in said
    assert users.said[-2:] == [
        f"lookup users: version {users.used[2]} from the next batch on",
        f"lookup users: refresh works again, version {users.used[2]}",
    ]


def test_postgresql_away_at_the_start_is_an_alarm_where_the_checkpoint_has_a_version(
    new_users: NewUsers, services: Addresses, users_table: str
) -> None:
    sql(services, f"CREATE TABLE {users_table} AS SELECT 'u1' AS user_id, 'old' AS segment")
    users = new_users(postgres=services.postgres, query=f"SELECT * FROM {users_table}", refresh="1 hour")
    assert users.found(["u1"]) == [[("old",)]]
    users.stream.postgres = "postgresql://postgres@127.0.0.1:1/postgres"
    assert users.found(["u1"]) == [[("old",)]]
    [said] = users.said
    assert "refresh failed, still on version" in said
    assert "PostgreSQL does not answer" in said
    [reference] = users.stream.tables
    assert reference.stale_since_ms is not None
    with pytest.raises(SpecError, match="query: PostgreSQL does not answer"):
        new_users(postgres=users.stream.postgres, query="SELECT 1").found(["u1"])


def test_a_query_is_refreshed_and_one_that_no_longer_works_keeps_its_version(
    new_users: NewUsers, services: Addresses, users_table: str
) -> None:
    sql(services, f"CREATE TABLE {users_table} AS SELECT 'u1' AS user_id, 'old' AS segment")
    users = new_users(postgres=services.postgres, query=f"SELECT * FROM {users_table};", refresh="1 hour")
    steps = iter(
        [
            f"UPDATE {users_table} SET segment = 'new'",
            f"ALTER TABLE {users_table} RENAME segment TO gone",
            f"DROP TABLE {users_table}",
        ]
    )

    def step(batch: int) -> None:
        if text := next(steps, None):
            sql(services, text)
        users.look()

    users.stream.after = step
    assert users.found(*([["u1"]] * 4)) == [[("old",)], [("new",)], [("new",)], [("new",)]]
    assert "no such column in the query's result" in users.said[1]
    assert "the query failed" in users.said[2]


def test_the_background_thread_finds_a_new_version_by_itself(new_users: NewUsers) -> None:
    users = new_users(refresh="50 ms")
    users.segments("old")
    found = threading.Event()

    def wait(batch: int) -> None:
        if batch == 0:
            [reference] = users.stream.tables
            reference.offer_to(lambda _: found.set())
            with refreshing(users.stream.tables):
                users.segments("new")
                assert found.wait(30)
                time.sleep(0.2)

    users.stream.after = wait
    assert users.found(["u1"], ["u1"]) == [[("old",)], [("new",)]]


def test_receipts_of_a_running_pipeline_tell_the_version_and_since_when_it_is_stale(
    services: Addresses, new_users: NewUsers
) -> None:
    users = new_users(refresh="100 ms")
    users.segments("old")
    name, stream = users.stream.spec.name, users.stream
    given = stream.spec.model_dump(by_alias=True)
    given |= {"source": {**given["source"], "topic": f"{name}-in", "partitions": 1}}
    spec = PipelineSpec(**given | {"sink": [{**given["sink"][0], "topic": f"{name}-out", "name": name}]})
    ensure_topics(services.kafka, {spec.source.topic: 1})
    producer = Producer({"bootstrap.servers": services.kafka})
    receipts: Queue[Receipt] = Queue()

    def next_receipt() -> Receipt:
        """Of the batch that takes one more click."""
        producer.produce(spec.source.topic, click("u1", 0, ts=time.time_ns() // 1_000_000))
        producer.flush()
        return receipts.get(timeout=60)

    endpoints = Endpoints(services.kafka, services.clickhouse, services.postgres)
    pipeline = Pipeline(
        spec, stream.data, endpoints, stream.spark, on_receipt=receipts.put, say=users.said.append
    )
    stop = threading.Event()
    running = threading.Thread(target=pipeline.run, args=(stop,))
    running.start()
    try:
        first = next_receipt()
        users.segments("new")
        users.wait_for("from the next batch on")
        second = next_receipt()
        (stream.data.root / "users.parquet").unlink()
        users.wait_for("refresh failed")
        third = next_receipt()
    finally:
        stop.set()
        running.join()
        pipeline.close()
    assert first.versions["users"] != second.versions["users"] == third.versions["users"]
    assert first.stale_since_ms == second.stale_since_ms == {}
    assert third.stale_since_ms["users"] <= third.started_at_ms + third.total_ms
    segments = [json.loads(m.value() or b"")["segment"] for m in read_topic(services.kafka, f"{name}-out")]
    assert segments == ["old", "new", "new"]
    assert Receipt.from_json(json.loads(json.dumps(third.to_json()))) == third
