"""`penstock check` on real services: what is there is seen, what was broken on purpose is found."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import clickhouse_connect
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from typer.testing import CliRunner

from penstock.cli import app
from penstock.cli.checking import stop_on_errors
from penstock.engine.outputs import Endpoints
from penstock.errors import CheckFailed
from penstock.local.services import Addresses
from penstock.paths import DataDir
from penstock.preflight import Finding, Start, could_look, judge, look
from penstock.preflight.facts import Away, KafkaFacts, NoPosition, PostgresFacts, Topic, TopicSettings
from penstock.preflight.reading.clickhouse import read_clickhouse
from penstock.preflight.reading.kafka import read_kafka
from penstock.preflight.reading.postgres import read_postgres
from penstock.preflight.wanted import columns_of
from penstock.sinks.clickhouse import ClickHouseSink
from penstock.sinks.encode import json_rows
from penstock.sinks.kafka import CONTROL_TOPIC, TransactionalKafkaSink
from penstock.sinks.postgres import PostgresSink
from penstock.sinks.protocol import Batch, Position, Sink
from penstock.sinks.topics import ensure_topics
from penstock.spec import PipelineSpec, to_toml
from tests.unit.test_engine_checkpoint import commit

pytestmark = pytest.mark.integration

HOUR_MS = 3_600_000
NOWHERE = "127.0.0.1:1"


class Rig:
    """A pipeline with topics and tables of its own, and a person who breaks things."""

    def __init__(self, at: Addresses, data: DataDir) -> None:
        self.at, self.data, self.mark = at, data, uuid.uuid4().hex[:8]
        self.admin = AdminClient({"bootstrap.servers": at.kafka})
        self.clickhouse = clickhouse_connect.get_client(dsn=at.clickhouse, autogenerate_session_id=False)
        self.postgres = psycopg.connect(at.postgres, autocommit=True)
        self.spec = self.describe()

    def describe(self, **changes: Any) -> PipelineSpec:
        mark = self.mark
        given = {
            "name": f"visits-{mark}",
            "source": {
                "topic": f"clicks-{mark}",
                "partitions": 2,
                "schema": "account string, ts long",
                "key": "account",
                "event_time": "ts",
            },
            "sessions": {"key": "account", "gap": "30 minutes", "measures": {"clicks": "count(*)"}},
            "sink": [
                {"kind": "kafka", "topic": f"out-{mark}", "name": "topic"},
                {"kind": "clickhouse", "table": f"t_{mark}", "name": "house"},
                {"kind": "postgres", "table": f"t_{mark}", "name": "rows"},
            ],
        }
        return PipelineSpec(**{**given, **changes})

    @property
    def endpoints(self) -> Endpoints:
        return Endpoints(self.at.kafka, self.at.clickhouse, self.at.postgres)

    def findings(self, start: Start | None = None, **away: str) -> list[Finding]:
        at = replace(self.endpoints, **away)
        return judge(look(self.spec, self.data, at, self.data.root / "journal.jsonl", start or Start()))

    def matters(self, start: Start | None = None, **away: str) -> set[tuple[str, str, str]]:
        return {
            (found.severity, found.about, found.what)
            for found in self.findings(start, **away)
            if found.severity != "ok" and found.about != "disk"
        }

    def create_source(
        self, settings: Mapping[str, str] = MappingProxyType({}), *, partitions: int = 2
    ) -> None:
        config = {"message.timestamp.type": "LogAppendTime", **settings}
        new = NewTopic(self.spec.source.topic, partitions, config=config)
        self.admin.create_topics([new])[new.topic].result()

    def alter(self, topic: str, setting: str, value: str) -> None:
        entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result()

    def send(self, count: int, *, stamp_ms: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.at.kafka})
        for number in range(count):
            producer.produce(self.spec.source.topic, b"{}", partition=number % 2, timestamp=stamp_ms)
        assert producer.flush(10) == 0

    def plan(self, batch: int, ends: Mapping[int, int], *, done: bool = True) -> None:
        """Write what Spark does of a batch."""
        here = self.data.checkpoints / self.spec.name
        (here / "offsets").mkdir(parents=True, exist_ok=True)
        offsets = json.dumps({self.spec.source.topic: {str(p): end for p, end in ends.items()}})
        (here / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offsets}")
        if done:
            commit(here, batch, 0)

    def write(self, batch: int) -> None:
        """Have all sinks hold a batch, as the pipeline does."""
        name = self.spec.name
        given = {"session_id": "a@1", "kind": "final", "account": "a", "query": name, "slot": 0}
        values = {column: [given.get(column, batch)] for column in columns_of(self.spec, self.spec.sink[1])}
        rows = pa.table(values)
        rows = rows.cast(pa.schema([field.with_nullable(False) for field in rows.schema]))
        ensure_topics(self.at.kafka, {CONTROL_TOPIC: 1, f"out-{self.mark}": 2})
        table, key = f"t_{self.mark}", ("session_id",)
        sinks: list[Sink] = [
            TransactionalKafkaSink(
                "topic", self.at.kafka, f"out-{self.mark}", name, json_rows("session_id"), adopt=True
            ),
            ClickHouseSink("house", self.at.clickhouse, table, name, key=key, keep="all", adopt=True),
            PostgresSink(
                "rows",
                self.at.postgres,
                table,
                name,
                key=key,
                version="version",
                exactly_once=True,
                adopt=True,
            ),
        ]
        for sink in sinks:
            sink.write(Batch.of(name, batch, rows))
            sink.close()


@pytest.fixture
def rig(services: Addresses, tmp_path: Path) -> Iterator[Rig]:
    made = Rig(services, DataDir.at(tmp_path))
    yield made
    made.clickhouse.close()
    made.postgres.close()


def topic_of(facts: KafkaFacts | Away, name: str) -> Topic:
    assert isinstance(facts, KafkaFacts)
    found = facts.topic(name)
    assert found is not None
    return found


def test_a_new_pipeline_on_the_embedded_services_has_nothing_in_its_way(rig: Rig) -> None:
    rig.create_source()
    assert rig.matters() == set()
    lines = {found.line for found in rig.findings()}
    assert f"source clicks-{rig.mark}: 2 partitions, 0 records" in lines
    assert f"sink house: table t_{rig.mark} is not there; the first batch creates it" in lines


def test_looking_leaves_nothing_behind(rig: Rig) -> None:
    rig.create_source()
    topics, tables = set(rig.admin.list_topics().topics), rig.clickhouse.query("SHOW TABLES").result_rows
    files = sorted(rig.data.root.rglob("*"))
    rig.findings()
    rig.findings(Start(create_topics=True))
    assert set(rig.admin.list_topics().topics) == topics
    assert rig.clickhouse.query("SHOW TABLES").result_rows == tables
    assert rig.postgres.execute("SELECT to_regclass(%s)", [f"t_{rig.mark}"]).fetchone() == (None,)
    assert sorted(rig.data.root.rglob("*")) == files


def test_a_source_that_is_not_as_described_is_found(rig: Rig) -> None:
    about = f"source clicks-{rig.mark}"
    assert rig.matters() == {("error", about, "is not there")}
    assert rig.matters(Start(create_topics=True)) == set()
    rig.create_source(partitions=3)
    assert rig.matters() == {("error", about, "has 3 partitions, the spec says 2")}


def test_the_settings_of_topics_and_brokers_are_seen(rig: Rig) -> None:
    rig.create_source(
        {
            "message.timestamp.type": "CreateTime",
            "retention.ms": "7200000",
            "retention.bytes": "1000000",
            "cleanup.policy": "compact,delete",
            "unclean.leader.election.enable": "true",
            "message.timestamp.after.max.ms": "60000",
        }
    )
    rig.write(0)  # the cluster makes a place for positions when it gets the first
    facts = read_kafka(rig.spec, rig.at.kafka, now_ms=2_000_000_000_000)
    assert topic_of(facts, rig.spec.source.topic) == Topic(
        rig.spec.source.topic,
        2,
        settings=TopicSettings(1, True, 7_200_000, 1_000_000, True, True, 60_000),
    )
    assert isinstance(facts, KafkaFacts)
    assert facts.brokers == 1
    assert facts.transaction_timeout_max_ms == 900_000
    assert facts.offsets_retention_ms == 10 * 365 * 24 * HOUR_MS
    assert topic_of(facts, "__consumer_offsets").replicas == 1


def test_old_records_are_counted_by_the_hour_and_the_day(rig: Rig) -> None:
    now_ms, year_ms = time.time_ns() // 1_000_000, 365 * 24 * HOUR_MS
    rig.create_source({"message.timestamp.type": "CreateTime", "retention.ms": str(year_ms)})
    for left_ms in (HOUR_MS // 2, 12 * HOUR_MS, 48 * HOUR_MS):
        rig.send(2, stamp_ms=now_ms - year_ms + left_ms)
    facts = read_kafka(rig.spec, rig.at.kafka, now_ms)
    assert isinstance(facts, KafkaFacts)
    assert (facts.first, facts.ends) == ({0: 0, 1: 0}, {0: 3, 1: 3})
    assert facts.gone_in_an_hour == {0: 1, 1: 1}
    assert facts.gone_in_a_day == {0: 2, 1: 2}


def test_where_no_record_is_young_all_are_old(rig: Rig) -> None:
    now_ms, year_ms = time.time_ns() // 1_000_000, 365 * 24 * HOUR_MS
    rig.create_source({"message.timestamp.type": "CreateTime", "retention.ms": str(year_ms)})
    rig.send(2, stamp_ms=now_ms - year_ms + HOUR_MS // 2)
    facts = read_kafka(rig.spec, rig.at.kafka, now_ms)
    assert isinstance(facts, KafkaFacts)
    assert facts.gone_in_an_hour == facts.ends == {0: 1, 1: 1}


def test_offsets_that_the_topic_does_not_have_are_found(rig: Rig) -> None:
    rig.create_source()
    rig.send(10)
    rig.plan(0, {0: 9, 1: 5})
    rig.write(0)
    assert rig.matters() == {
        (
            "error",
            f"source clicks-{rig.mark}",
            f"{rig.spec.name} has read beyond the end of partition 0 (next 9, end 5)",
        )
    }
    rig.plan(0, {0: 1, 1: 5})
    place = TopicPartition(rig.spec.source.topic, 0, 4)
    rig.admin.delete_records([place])[place].result()
    assert rig.matters() == {
        (
            "error",
            f"source clicks-{rig.mark}",
            f"3 records that {rig.spec.name} has not read were deleted, of partition 0 (offsets 1 to 3)",
        )
    }


def test_what_each_sink_holds_is_seen(rig: Rig) -> None:
    rig.create_source()
    rig.write(6)
    here = {"topic": 6, "house": 6, "rows": 6}
    facts = look(rig.spec, rig.data, rig.endpoints, rig.data.root / "none", Start())
    for store in (facts.kafka, facts.clickhouse, facts.postgres):
        assert store is not None
        assert not isinstance(store, Away)
        for sink, (held,) in store.positions.items():
            assert isinstance(held, Position)
            assert (held.batch, held.count) == (here.pop(sink), 1)
    assert here == {}


def test_a_checkpoint_that_was_rolled_back_or_deleted_is_found_by_every_sink(rig: Rig) -> None:
    rig.create_source()
    rig.write(6)
    said = {(severity, about, what) for severity, about, what in rig.matters()}
    assert said == {
        ("error", f"sink {name}", "holds batch 6, but batch 0 is due") for name in ("topic", "house", "rows")
    }
    with pytest.raises(CheckFailed, match="holds batch 6, but batch 0 is due"):
        stop_on_errors(look(rig.spec, rig.data, rig.endpoints, rig.data.root / "none", Start()))


def test_a_position_that_is_gone_is_found_and_can_be_adopted(rig: Rig) -> None:
    rig.create_source()
    rig.plan(3, {0: 0, 1: 0})
    rig.write(3)
    assert rig.matters() == set()
    [deleted] = rig.admin.delete_consumer_groups([f"penstock-{rig.spec.name}-topic"]).values()
    deleted.result()
    rig.postgres.execute("DELETE FROM penstock_positions WHERE query = %s", [rig.spec.name])
    lost = {("error", f"sink {name}", "holds no position, but batch 4 is due") for name in ("topic", "rows")}
    assert rig.matters() == lost
    assert rig.matters(Start(adopt=("topic", "rows"))) == set()


def test_the_readers_of_an_exactly_once_topic_are_named(rig: Rig) -> None:
    rig.create_source()
    rig.write(0)
    rig.plan(0, {0: 0, 1: 0})
    reader = Consumer({"bootstrap.servers": rig.at.kafka, "group.id": f"billing-{rig.mark}"})
    reader.commit(offsets=[TopicPartition(f"out-{rig.mark}", 1, 0)], asynchronous=False)
    reader.close()
    assert rig.matters() == {("note", "sink topic", f"topic out-{rig.mark} is read by billing-{rig.mark}")}


def create_house(columns: str, rest: str) -> Callable[[Rig], object]:
    return lambda rig: rig.clickhouse.command(f"CREATE TABLE t_{rig.mark} ({columns}) ENGINE = {rest}")


COLUMNS = (
    "session_id String, start_ms Int64, end_ms Int64, kind String, version Int64, account String,"
    " clicks Int64, query String, batch Int64, slot Int32"
)


@pytest.mark.parametrize(
    ("create", "severity", "what"),
    [
        (create_house(COLUMNS, "MergeTree ORDER BY session_id"), "error", "remembers no insert"),
        (
            create_house(
                COLUMNS, "MergeTree ORDER BY session_id SETTINGS non_replicated_deduplication_window = 7"
            ),
            "warning",
            "remembers 7 inserts",
        ),
        (create_house(COLUMNS, "Memory"), "error", "is a Memory, which recognises no insert"),
        (
            create_house(
                COLUMNS.replace(" clicks Int64,", ""),
                "MergeTree ORDER BY session_id SETTINGS non_replicated_deduplication_window = 1000",
            ),
            "error",
            "has no column clicks",
        ),
        (
            create_house(
                COLUMNS,
                "MergeTree PARTITION BY kind ORDER BY session_id"
                " SETTINGS non_replicated_deduplication_window = 1000",
            ),
            "warning",
            "is partitioned by kind",
        ),
    ],
)
def test_a_table_in_clickhouse_that_cannot_hold_a_batch_once_is_found(
    rig: Rig, create: Callable[[Rig], object], severity: str, what: str
) -> None:
    rig.create_source()
    create(rig)
    [(told, about, said)] = rig.matters()
    assert (told, about) == (severity, "sink house")
    assert what in said


@pytest.mark.parametrize(
    ("unique", "is_well"),
    [
        ("CREATE UNIQUE INDEX ON {} (session_id)", True),
        ("CREATE UNIQUE INDEX ON {} (session_id) INCLUDE (version)", True),
        ("ALTER TABLE {} ADD UNIQUE (session_id)", True),
        ("ALTER TABLE {} ADD UNIQUE (session_id) DEFERRABLE", False),
        ("CREATE UNIQUE INDEX ON {} (session_id, version)", False),
        ("CREATE UNIQUE INDEX ON {} (session_id) WHERE version > 1", False),
        ("CREATE UNIQUE INDEX ON {} (lower(session_id))", False),
        ("CREATE INDEX ON {} (session_id)", False),
    ],
)
def test_only_an_index_that_an_upsert_can_use_counts(rig: Rig, unique: str, is_well: bool) -> None:
    columns = COLUMNS.replace("String", "text").replace("Int64", "bigint").replace("Int32", "integer")
    rig.create_source()
    rig.postgres.execute(f"CREATE TABLE t_{rig.mark} ({columns})")
    rig.postgres.execute(unique.format(f"t_{rig.mark}"))
    missing = ("error", "sink rows", f"table t_{rig.mark} has no unique index on session_id")
    assert rig.matters() == (set() if is_well else {missing})


def test_a_user_without_rights_in_postgres_is_found(rig: Rig) -> None:
    rig.create_source()
    rig.postgres.execute(f"CREATE ROLE r_{rig.mark} LOGIN")
    rig.postgres.execute(f"CREATE TABLE t_{rig.mark} (session_id text PRIMARY KEY)")
    address = f"{rig.at.postgres}{'&' if '?' in rig.at.postgres else '?'}options=-c%20role%3Dr_{rig.mark}"
    facts = read_postgres(rig.spec, address)
    assert isinstance(facts, PostgresFacts)
    table = facts.tables[f"t_{rig.mark}"]
    assert table is not None
    assert not table.writable
    if facts.tables["penstock_positions"] is None:
        assert facts.creatable == {"penstock_positions": False}
    assert facts.positions.keys() == {"rows"}


def test_services_that_do_not_answer_are_told_of_beside_all_others(rig: Rig) -> None:
    rig.create_source()
    house, elephant = f"http://{NOWHERE}", f"postgresql://u:secret@{NOWHERE}/d"
    found = {
        about: (severity, what) for severity, about, what in rig.matters(clickhouse=house, postgres=elephant)
    }
    assert found.keys() == {"clickhouse", "postgres"}
    assert all(severity == "warning" and "does not answer" in what for severity, what in found.values())
    assert not any("secret" in what for _, what in found.values())
    assert isinstance(read_clickhouse(rig.spec, house), Away)


def test_a_server_that_knows_no_such_user_refuses_us(rig: Rig) -> None:
    seen = read_postgres(
        rig.spec, f"{rig.at.postgres}{'&' if '?' in rig.at.postgres else '?'}user=nobody_{rig.mark}"
    )
    assert isinstance(seen, Away)
    assert seen.refused


def test_a_sink_that_was_never_written_holds_no_position(rig: Rig) -> None:
    rig.create_source()
    ensure_topics(rig.at.kafka, {CONTROL_TOPIC: 1})
    facts = read_kafka(rig.spec, rig.at.kafka, 0)
    assert isinstance(facts, KafkaFacts)
    assert facts.positions == {"topic": (NoPosition(),)}


def test_the_command_prints_what_it_found_and_exits_with_the_verdict(rig: Rig, tmp_path: Path) -> None:
    addresses = {"kafka": rig.at.kafka, "clickhouse": rig.at.clickhouse, "postgres": rig.at.postgres}
    users = {"name": "users", "path": "users.parquet", "on": "account", "take": ["country"]}
    rig.spec = rig.describe(services=addresses, enrich=[users])
    file, report = tmp_path / "visits.toml", tmp_path / "out.json"
    file.write_text(to_toml(rig.spec))
    command = ["check", str(file), "--data", str(rig.data.root), "--json", str(report)]

    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1, result.output
    assert "error    " in result.output
    assert "fix: Create it with: penstock run SPEC --create-topics" in result.output
    assert "no such file" in result.output

    rig.create_source()
    pq.write_table(pa.table({"account": ["a"], "country": ["PE"]}), rig.data.root / "users.parquet")
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "nothing stands in the way" in result.output
    told = json.loads(report.read_text())
    assert (told["status"], told["counts"]["error"]) == (0, 0)
    assert {"severity", "about", "what", "why", "fix"} <= told["findings"][0].keys()

    result = CliRunner().invoke(app, [*command, "--set", f"services.clickhouse=http://{NOWHERE}"])
    assert result.exit_code == 2, result.output
    assert could_look(look(rig.spec, rig.data, rig.endpoints, tmp_path / "none", Start()))
