"""Reference data beside events: values, versions, what a replay sees, what a failed refresh does."""

from __future__ import annotations

import gzip
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from queue import Queue
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from penstock.engine.checkpoint import Checkpoint
from penstock.engine.enrich import Lookups
from penstock.engine.outputs import Endpoints
from penstock.engine.pipeline import Pipeline
from penstock.engine.receipt import Receipt
from penstock.engine.refresh import references, refreshing
from penstock.errors import SpecError
from penstock.local.services import Addresses
from penstock.observe.topic import read_topic
from penstock.paths import DataDir
from penstock.sinks.kafka import ensure_topics
from penstock.spec import Enrich, PipelineSpec
from penstock.testing.stream import EngineRun
from tests.integration.streams import click

# ruff: noqa: S608 - tables have names of their own
pytestmark = pytest.mark.integration

NewUsers = Callable[..., "Users"]
ALL_TYPES = {
    "text": pa.array(['naïve, "quoted"', "", None]),
    "whole": pa.array([-1, 2**31 - 1, None], pa.int32()),
    "large": pa.array([2**62, -5, None], pa.int64()),
    "real": pa.array([0.1, -0.0, None], pa.float64()),
    "truth": pa.array([True, False, None]),
    "exact": pa.array([Decimal("12345678901234567890.12"), Decimal("-0.01"), None], pa.decimal128(30, 2)),
    "day": pa.array([date(1969, 12, 31), date(2026, 2, 28), None]),
    "moment": pa.array(
        [datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), datetime(1960, 1, 1, tzinfo=UTC), None],
        pa.timestamp("us", "UTC"),
    ),
}


class Users:
    """A stream of clicks with one lookup on `user_id`, and its reference data."""

    def __init__(
        self, spark: SparkSession, data: DataDir, postgres: str, engine: str, enrich: Enrich
    ) -> None:
        described: dict[str, Any] = {
            "name": f"enriched-{uuid.uuid4().hex[:6]}",
            "engine": engine,
            "source": {
                "topic": "t",
                "schema": "event_id string, user_id string, ts long",
                "key": "user_id",
                "event_time": "ts",
            },
            "enrich": [enrich],
            "sink": [{"kind": "kafka", "topic": "out", "rows": "events", "key": "event_id"}],
        }
        spec = PipelineSpec(**described)
        self.said: list[str] = []
        self.enrich = enrich
        self.stream = EngineRun(spark, spec, data, postgres=postgres, say=self.said.append)

    def write(self, **columns: Any) -> None:
        path = self.stream.data.root / str(self.enrich.path)
        pq.write_table(pa.table(columns), path.with_suffix(".new"))
        path.with_suffix(".new").rename(path)

    def segments(self, *segments: str) -> None:
        """Users u1, u2 ... of these segments."""
        self.write(user_id=[f"u{i + 1}" for i in range(len(segments))], segment=list(segments))

    def look(self) -> None:
        [table] = self.stream.tables
        table.look()

    def found(self, *batches: Sequence[str | None]) -> list[list[tuple[Any, ...]]]:
        """The columns taken, for each user of each batch."""
        clicks = [[click(user, i) for i, user in enumerate(batch)] for batch in batches]
        names = [f"event.{name}" for name in self.enrich.take]
        return [[tuple(row[name] for name in names) for row in rows] for rows in self.stream.run(clicks)]

    def wait_for(self, text: str) -> None:
        """Wait until something like this is said."""
        deadline = time.monotonic() + 60
        while not any(text in said for said in self.said):
            assert time.monotonic() < deadline, f"never said {text!r}: {self.said}"
            time.sleep(0.02)

    def forget_last_commit(self) -> int:
        """Put the checkpoint back to where a crash before the commit leaves it."""
        commits = self.stream.data.checkpoints / self.stream.spec.name / "commits"
        last = max(int(path.name) for path in commits.glob("[0-9]*"))
        (commits / str(last)).unlink()
        return last

    @property
    def used(self) -> list[str]:
        return [versions["users"] for versions in self.stream.versions]


@pytest.fixture
def new_users(spark: SparkSession, tmp_path: Path) -> NewUsers:
    def make(engine: str = "kernel", postgres: str = "", **given: Any) -> Users:
        if "query" not in given:
            given = {"path": "users.parquet", **given}
        enrich = Enrich(**{"name": "users", "on": "user_id", "take": ["segment"], **given})
        return Users(spark, DataDir.at(tmp_path / engine), postgres, engine, enrich)

    return make


@pytest.fixture
def table(services: Addresses) -> Iterator[str]:
    """A name for a table of the test's own."""
    name = f"users_{uuid.uuid4().hex[:8]}"
    yield name
    sql(services, f"DROP TABLE IF EXISTS {name}")


def sql(services: Addresses, text: str) -> None:
    with psycopg.connect(services.postgres, autocommit=True) as connection:
        connection.execute(text.encode())


@pytest.mark.parametrize("engine", ["kernel", "plain"])
def test_every_type_is_found_by_its_key_and_an_unknown_or_null_key_gives_the_defaults(
    new_users: NewUsers, engine: str
) -> None:
    defaults: dict[str, Any] = {
        "text": "?",
        "whole": 7,
        "large": 8,
        "real": 1,
        "truth": True,
        "exact": "3.14",
        "day": "2026-01-01",
        "moment": "2026-01-01T00:00:00+01:00",
    }
    users = new_users(engine, take=list(ALL_TYPES), default=defaults)
    users.write(user_id=["u1", "u2", "u3"], **ALL_TYPES)
    [rows] = users.found(["u1", "u2", "u3", "nobody", None])
    as_written = list(zip(*(column.to_pylist() for column in ALL_TYPES.values()), strict=True))
    moment = datetime(2025, 12, 31, 23, tzinfo=UTC)
    unknown = ("?", 7, 8, 1.0, True, Decimal("3.14"), date(2026, 1, 1), moment)
    assert rows == [*as_written, unknown, unknown]


def test_without_defaults_an_unknown_key_gives_nulls(new_users: NewUsers) -> None:
    users = new_users(take=["segment", "age"])
    users.write(user_id=["u1", None], segment=["new", "of nobody"], age=[30, 31])
    assert users.found(["u1", "u2", None]) == [[("new", 30), (None, None), (None, None)]]


def test_several_columns_of_one_lookup_cost_one_probe(new_users: NewUsers) -> None:
    users = new_users(take=["segment", "country", "age"])
    users.write(user_id=["u1"], segment=["a"], country=["b"], age=[1])
    checkpoint = Checkpoint(users.stream.data.checkpoints / users.stream.spec.name, "t")
    tables = references(users.stream.spec, users.stream.data, "", print)
    spark = users.stream.spark
    lookups = Lookups(spark, tables, checkpoint, print)
    checkpoint.close()
    events = spark.range(3).selectExpr("concat('u', id) AS user_id").repartition(1)
    enriched = lookups.enrich(events)
    plan = enriched._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count(".invoke(") == 1
    assert sorted(enriched.collect(), key=str)[1].asDict() == {
        "user_id": "u1",
        "segment": "a",
        "country": "b",
        "age": 1,
    }


def test_keys_that_are_numbers_in_the_reference_data_match_as_text(new_users: NewUsers) -> None:
    users = new_users()
    users.write(user_id=pa.array([7, 8], pa.int64()), segment=["seven", "eight"])
    assert users.found(["7", "007"]) == [[("seven",), (None,)]]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_csv_file_has_its_types_guessed_but_keys_stay_text_and_na_is_namibia(
    new_users: NewUsers, suffix: str
) -> None:
    take = ["country", "age", "score", "active", "since", "seen"]
    users = new_users(path=f"users{suffix}", take=take)
    text = (
        "user_id,country,age,score,active,since,seen\n"
        "007,NA,30,0.5,true,2026-01-01,2026-01-01T10:00:00\n"
        '8,"",,,,,\n'
    )
    content = gzip.compress(text.encode()) if suffix == ".csv.gz" else text.encode()
    (users.stream.data.root / f"users{suffix}").write_bytes(content)
    seen = datetime(2026, 1, 1, 10, tzinfo=UTC)
    [rows] = users.found(["007", "8", "7"])
    assert rows == [
        ("NA", 30, 0.5, True, date(2026, 1, 1), seen),
        ("", None, None, None, None, None),
        (None, None, None, None, None, None),
    ]


@pytest.mark.parametrize("engine", ["kernel", "plain"])
def test_a_query_gives_the_types_of_postgresql(
    new_users: NewUsers, services: Addresses, table: str, engine: str
) -> None:
    sql(
        services,
        f"CREATE TABLE {table} (user_id text, text varchar(9), whole int, large bigint, real float8,"
        " truth bool, exact numeric(30, 2), day date, moment timestamptz, plain timestamp, id uuid)",
    )
    one = "00000000-0000-0000-0000-000000000001"
    sql(
        services,
        f"INSERT INTO {table} VALUES ('u1', 'a,\"\n', -1, 4611686018427387904, 0.1, true,"
        " 12345678901234567890.12, '1969-12-31', '2026-01-02 03:04:05.678901+01', '2026-01-02 03:04:05.5',"
        f" '{one}'), ('u2', '', 1, 1, 'NaN', false, 0, '2026-01-01', '2026-01-01', '2026-01-01', '{one}')",
    )
    sql(services, f"INSERT INTO {table} (user_id) VALUES ('u3')")
    take = [*ALL_TYPES, "plain", "id"]
    users = new_users(engine, services.postgres, query=f"SELECT * FROM {table} -- all", take=take)
    [[first, second, third]] = users.found(["u1", "u2", "u3"])
    assert first == (
        'a,"\n',
        -1,
        2**62,
        0.1,
        True,
        Decimal("12345678901234567890.12"),
        date(1969, 12, 31),
        datetime(2026, 1, 2, 2, 4, 5, 678901, UTC),
        datetime(2026, 1, 2, 3, 4, 5, 500000, UTC),
        one,
    )
    assert second[0] == ""
    assert second[3] != second[3]
    assert third == (None,) * len(take)


@pytest.mark.parametrize("engine", ["kernel", "plain"])
@pytest.mark.parametrize(
    ("columns", "given", "problem"),
    [
        ({"user_id": ["u1", "u1"], "segment": ["a", "b"]}, {}, "'u1' stands twice"),
        ({"user_id": ["u1"], "other": ["a"]}, {}, '"segment": no such column in users.parquet'),
        ({"user_id": [1.5], "segment": ["a"]}, {}, '"user_id" is double: a key is'),
        ({"user_id": ["u1"], "segment": [["a"]]}, {}, '"segment" is list.*cannot hold'),
        (
            {"user_id": ["u1"], "segment": ["a"]},
            {"default": {"segment": 3}},
            r"default.segment = 3: .*string",
        ),
        (
            {"user_id": ["u1"], "segment": [1]},
            {"default": {"segment": True}},
            r"default.segment = True: .*int64",
        ),
        ({"user_id": ["u1"], "segment": [1]}, {"default": {"segment": 2**63}}, "default.segment"),
        ({"user_id": ["u1"], "segment": [date(2026, 1, 1)]}, {"default": {"segment": "soon"}}, "date32"),
        (None, {}, "no such file"),
    ],
)
def test_reference_data_that_cannot_be_used_is_a_spec_error_that_names_the_lookup_and_the_key(
    new_users: NewUsers, engine: str, columns: dict[str, Any] | None, given: dict[str, Any], problem: str
) -> None:
    users = new_users(engine, **given)
    if columns is not None:
        users.write(**columns)
    with pytest.raises(SpecError, match=problem) as raised:
        users.found(["u1"])
    assert "enrich users" in str(raised.value)


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
    new_users: NewUsers, services: Addresses, table: str
) -> None:
    sql(services, f"CREATE TABLE {table} AS SELECT 'u1' AS user_id, 'old' AS segment")
    users = new_users(postgres=services.postgres, query=f"SELECT * FROM {table}", refresh="1 hour")
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
    new_users: NewUsers, services: Addresses, table: str
) -> None:
    sql(services, f"CREATE TABLE {table} AS SELECT 'u1' AS user_id, 'old' AS segment")
    users = new_users(postgres=services.postgres, query=f"SELECT * FROM {table};", refresh="1 hour")
    steps = iter(
        [
            f"UPDATE {table} SET segment = 'new'",
            f"ALTER TABLE {table} RENAME segment TO gone",
            f"DROP TABLE {table}",
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


def test_a_million_rows_of_five_columns_take_well_under_what_a_hash_map_of_rows_takes(
    new_users: NewUsers,
) -> None:
    rows, take = 1_000_000, ["segment", "country", "year", "score", "active"]
    users = new_users(take=take, refresh="1 hour")
    users.write(
        user_id=[f"u{i:07d}" for i in range(rows)],
        segment=["regular", "new", "loyal", "trade", "casual"] * (rows // 5),
        country=["DE", "FR"] * (rows // 2),
        year=pa.array([2010, 2020] * (rows // 2), pa.int32()),
        score=[0.5] * rows,
        active=[True, False] * (rows // 2),
    )
    started = time.monotonic()
    [found] = users.found([f"u{rows - 1:07d}", "u0000000", "nobody"])
    assert found == [("casual", "FR", 2020, 0.5, False), ("regular", "DE", 2010, 0.5, True), (None,) * 5]
    [reference] = users.stream.tables
    [loaded] = reference.loaded.values()
    jvm: Any = users.stream.spark._jvm
    packed = jvm.org.apache.spark.util.SizeEstimator.estimate(loaded.value()) / rows
    print(  # noqa: T201 - a figure for people
        f"{packed:.0f} bytes a row, read and loaded in {time.monotonic() - started:.1f} s with a first batch"
    )
    values = 8 + 7 + 2 + 4 + 8 + 1
    assert packed - values < 150


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
