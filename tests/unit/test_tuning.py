"""The settings: what each client is given, and what an experiment can turn back."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from penstock.cli import app
from penstock.engine.realtime import batch_length
from penstock.engine.source import source_options
from penstock.engine.spark import jvm_options, session_settings
from penstock.errors import PenstockError
from penstock.local.kafka import Cluster, Kafka, Node
from penstock.paths import DataDir, shipped
from penstock.produce.outbox import Outbox
from penstock.sinks.kafka import TRANSACTION_TIMEOUT_MS
from penstock.sinks.producer import producer_settings
from penstock.spec import KafkaSink, PipelineSpec, load
from penstock.tuning import UNTUNED, Setting, areas, find, is_tuned, settings, tuned, untuned, value

CLICKSTREAM = load(shipped("pipelines") / "clickstream.toml", environ={})
REALTIME = KafkaSink(
    topic="enriched", rows=("events",), guarantee="at_least_once", latency="realtime", key="event_id"
)
STREAMING = "org.apache.spark.sql.execution.streaming"
STATE = "spark.sql.streaming.stateStore"
ROCKSDB = f"{STREAMING}.state.RocksDBStateStoreProvider"

each_setting = pytest.mark.parametrize("setting", settings(), ids=lambda setting: setting.id)


@pytest.fixture(autouse=True)
def _as_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(UNTUNED, raising=False)


def broker_settings(tmp_path: Path, brokers: int = 1) -> dict[str, object]:
    nodes = tuple(Node(i + 1, 9000 + i, 9100 + i, 9200 + i) for i in range(brokers))
    service = Kafka(DataDir.at(tmp_path), say=lambda _: None, brokers=brokers)
    return service._settings(Cluster("x", nodes), nodes[0])


def test_the_producer_is_given_what_it_was_tried_with() -> None:
    assert tuned("producer") == {
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": "lz4",
        "linger.ms": 1,
        "partitioner": "murmur2_random",
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": 1_048_576,
        "message.timeout.ms": 300_000,
        "topic.metadata.propagation.max.ms": 60_000,
    }


@pytest.mark.parametrize(("topic_takes", "batch"), [(1_048_588, 1_000_000), (2_500, 2_500)])
def test_the_producers_of_sinks_are_given_what_they_were_tried_with(topic_takes: int, batch: int) -> None:
    assert producer_settings(topic_takes) == {
        "log_level": 0,
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": "lz4",
        "delivery.report.only.error": True,
        "message.max.bytes": 100_000_000,
        "partitioner": "murmur2_random",
        "reconnect.backoff.ms": 10,
        "topic.metadata.propagation.max.ms": 10_000,
        "batch.size": batch,
    }
    assert TRANSACTION_TIMEOUT_MS == 120_000


def test_topics_are_made_as_they_were() -> None:
    assert value("topic.message.timestamp.type") == "LogAppendTime"
    assert value("topic.cleanup.policy") == "compact"


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, 1), (3, 3, 2)])
def test_brokers_are_given_what_they_were_tried_with(
    tmp_path: Path, brokers: int, replicas: int, in_sync: int
) -> None:
    given = broker_settings(tmp_path, brokers)
    of_the_place = {"process.roles", "node.id", "listeners", "advertised.listeners", "log.dirs"}
    of_the_place |= {name for name in given if name.startswith(("controller.", "listener."))}
    assert {name: given[name] for name in given if name not in of_the_place} == {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "offsets.topic.num.partitions": 8,
        "transaction.state.log.num.partitions": 8,
        "share.coordinator.state.topic.num.partitions": 8,
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": 0,
        "log.retention.ms": -1,
        "offsets.retention.minutes": 10 * 365 * 24 * 60,
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 1000,
    }
    assert list(tuned("broker-jvm").values()) == [
        "-Xms128m",
        "-Xmx512m",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
    ]


def spark_settings(spec: PipelineSpec, *, kernel: bool = True) -> tuple[str, dict[str, str | int | bool]]:
    return session_settings(spec, "local[*]", 2, kernel=kernel)


def test_spark_is_given_what_it_was_tried_with() -> None:
    expected = {
        "spark.sql.session.timeZone": "UTC",
        f"{STATE}.providerClass": ROCKSDB,
        f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{STATE}.minDeltasForSnapshot": "50",
        f"{STATE}.rocksdb.trackTotalNumberOfRows": "false",
        f"{STATE}.rocksdb.boundedMemoryUsage": "true",
        "spark.sql.streaming.checkpointFileManagerClass": "penstock.kernel.CheckpointFiles",
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.speculation": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "100",
        "spark.sql.ui.retainedExecutions": "10",
        "spark.driver.memory": "2g",
        "spark.driver.maxResultSize": "1g",
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.catalog.penstock": "penstock.kernel.Functions",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    assert spark_settings(CLICKSTREAM) == ("local[*]", expected)
    elsewhere = {
        name: expected[name]
        for name in expected
        if name not in ("spark.driver.host", "spark.driver.bindAddress")
    }
    assert session_settings(CLICKSTREAM, "spark://host:7077", 2, kernel=True) == (
        "spark://host:7077",
        elsewhere,
    )
    plain = {name: expected[name] for name in expected if name != "spark.sql.catalog.penstock"} | {
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
        )
    }
    assert spark_settings(CLICKSTREAM, kernel=False) == ("local[*]", plain)


def test_spark_has_the_slots_and_the_status_that_realtime_sinks_need() -> None:
    beside = CLICKSTREAM.model_copy(update={"sink": (*CLICKSTREAM.sink, REALTIME)})
    master, given_ = spark_settings(beside)
    assert master == "local[4]"
    assert given_ == spark_settings(CLICKSTREAM)[1] | {
        "spark.ui.liveUpdate.period": "0",
        "spark.default.parallelism": "2",
    }


def test_the_driver_is_given_the_options_it_was_tried_with() -> None:
    generated = "org.apache.spark.sql.catalyst.expressions.GeneratedClass"
    assert jvm_options() == (
        "-XX:+UseParallelGC -XX:CompileCommand=quiet"
        " -XX:CompileCommand=CompileThresholdScaling,penstock.kernel.*::*,0.05"
        f" -XX:CompileCommand=CompileThresholdScaling,{generated}*::*,0.1"
        " -XX:Tier4InvocationThreshold=160000 -XX:Tier4MinInvocationThreshold=19200"
        " -XX:Tier4CompileThreshold=480000 -XX:Tier4BackEdgeThreshold=1280000"
    )


def test_the_source_is_read_as_it_was() -> None:
    expected = {
        "maxOffsetsPerTrigger": 200_000,
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": 5000,
        "kafka.fetch.max.wait.ms": 5,
        "kafka.max.partition.fetch.bytes": 8 << 20,
        "kafkaConsumer.pollTimeoutMs": 15_000,
        "kafka.default.api.timeout.ms": 15_000,
        "kafka.request.timeout.ms": 10_000,
    }
    assert source_options(CLICKSTREAM) == expected
    assert is_tuned("source.tasks")
    waiting = load(
        shipped("pipelines") / "clickstream.toml", environ={}, overrides={"source.min_batch": "500"}
    )
    assert source_options(waiting) == expected | {"minOffsetsPerTrigger": 500, "maxTriggerDelay": "1000ms"}


def test_realtime_sinks_are_run_as_they_were() -> None:
    assert batch_length() == "2 minutes"
    assert {name: str(given_) for name, given_ in tuned("realtime-source").items()} == {
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": "5000",
        "kafka.default.api.timeout.ms": "15000",
        "kafka.request.timeout.ms": "10000",
    }
    assert {name: str(given_) for name, given_ in tuned("realtime-sink").items()} == {
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        "kafka.compression.type": "lz4",
        "kafka.linger.ms": "3",
        "kafka.delivery.timeout.ms": "30000",
        "kafka.max.block.ms": "30000",
        "kafka.request.timeout.ms": "10000",
    }


def test_stores_are_spoken_to_as_they_were() -> None:
    assert tuned("clickhouse") == {
        "autogenerate_session_id": False,
        "connect_timeout": 5,
        "send_receive_timeout": 60,
    }
    assert tuned("clickhouse-insert") == {"async_insert": 0}
    assert tuned("clickhouse-table") == {"non_replicated_deduplication_window": 1000}
    assert tuned("postgres") == {
        "connect_timeout": 5,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
    }
    assert tuned("postgres-session") == {"statement_timeout": "60s", "timezone": "UTC"}


@each_setting
def test_a_setting_says_what_why_and_to_what_effect(setting: Setting) -> None:
    assert setting.ours is not None or setting.rule
    assert setting.why.endswith(".")
    assert setting.effect
    assert setting.effect.startswith("not measured") == (not setting.measured)


def test_ids_are_told_apart() -> None:
    assert len({setting.id for setting in settings()}) == len(settings())


@each_setting
def test_a_setting_is_found_by_its_id(setting: Setting) -> None:
    assert find(setting.id) is setting


def test_a_setting_is_found_by_what_its_system_calls_it() -> None:
    assert find(f"{STATE}.minDeltasForSnapshot").id == "state.minDeltasForSnapshot"
    assert find("UseParallelGC").id == "jvm.UseParallelGC"


def test_a_name_of_several_areas_is_not_guessed() -> None:
    with pytest.raises(PenstockError, match=r"sink\.compression\.type"):
        find("compression.type")


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("producer.lingr.ms", "producer.linger.ms"),
        ("state.minDeltaForSnapshot", "state.minDeltasForSnapshot"),
    ],
)
def test_an_unknown_setting_is_named_with_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(PenstockError, match=f'did you mean "{near}"'):
        find(wrong)
    with pytest.raises(PenstockError, match=f'{UNTUNED}.*did you mean "{near}"'):
        untuned(wrong)


@pytest.mark.parametrize(
    ("asked", "back"),
    [
        ("", set()),
        (" , ", set()),
        ("producer.linger.ms", {"producer.linger.ms"}),
        (
            "producer.linger.ms, source.kafka.max.poll.records",
            {"producer.linger.ms", "source.kafka.max.poll.records"},
        ),
        (f"{STATE}.minDeltasForSnapshot", {"state.minDeltasForSnapshot"}),
        (
            "clickhouse*",
            {
                f"clickhouse.{s}"
                for s in ("autogenerate_session_id", "connect_timeout", "send_receive_timeout")
            },
        ),
        (
            "*.compression.type",
            {f"{area}.compression.type" for area in ("producer", "sink")}
            | {"realtime-sink.kafka.compression.type"},
        ),
        ("*", {setting.id for setting in settings() if not setting.correctness}),
    ],
)
def test_what_is_asked_for_is_turned_back(asked: str, back: set[str]) -> None:
    assert untuned(asked) == back


@pytest.mark.parametrize("name", [setting.id for setting in settings() if setting.correctness])
def test_what_is_about_correctness_is_not_turned_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PenstockError, match="about correctness"):
        untuned(name)
    monkeypatch.setenv(UNTUNED, "*")
    setting = find(name)
    if setting.ours is not None:
        assert value(name) == setting.ours
        assert tuned(setting.area.name)[setting.key] == setting.ours


def test_a_pattern_that_turns_nothing_back_is_refused() -> None:
    for pattern in ("topic.*", "prodcer.*"):
        with pytest.raises(PenstockError, match="matches nothing"):
            untuned(pattern)


@given(st.sets(st.sampled_from([setting.id for setting in settings() if not setting.correctness])))
def test_what_is_turned_back_is_not_given_and_all_else_is(back: set[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(UNTUNED, ",".join(back))
        for area in areas():
            ours = [one for one in settings() if one.area.name == area and one.ours is not None]
            assert tuned(area) == {one.key: one.ours for one in ours if one.id not in back}


def test_the_kernel_keeps_its_store_and_plain_spark_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNTUNED, "*")
    assert spark_settings(CLICKSTREAM, kernel=True)[1][f"{STATE}.providerClass"] == ROCKSDB
    plain = spark_settings(CLICKSTREAM, kernel=False)[1]
    assert f"{STATE}.providerClass" not in plain
    assert "spark.sql.streaming.checkpointFileManagerClass" not in plain
    assert jvm_options() == ""


def test_rules_of_ours_are_left_out_when_turned_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNTUNED, "spark.default.parallelism, source.tasks")
    beside = CLICKSTREAM.model_copy(update={"sink": (*CLICKSTREAM.sink, REALTIME)})
    assert "spark.default.parallelism" not in spark_settings(beside)[1]
    assert not is_tuned("source.tasks")


def test_the_producer_counts_by_the_queue_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    # The client's own messages take a few places.
    assert 100_000 < Outbox("127.0.0.1:1", "clicks").room <= 200_000
    monkeypatch.setenv(UNTUNED, "producer.queue.buffering.max.messages")
    assert Outbox("127.0.0.1:1", "clicks").room <= 100_000


def test_a_wrong_name_in_the_environment_stops_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNTUNED, "producer.lingr.ms")
    result = CliRunner().invoke(app, ["spec", "clickstream"])
    assert result.exit_code == 2
    assert 'did you mean "producer.linger.ms"?' in result.stderr


def test_every_command_says_that_settings_are_turned_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNTUNED, "sink.compression.type, producer.linger.ms")
    result = CliRunner().invoke(app, ["spec", "clickstream"])
    assert result.exit_code == 0
    assert f"{UNTUNED}: 2 settings" in result.stderr


def test_the_variable_is_no_key_of_a_pipeline() -> None:
    described = load(shipped("pipelines") / "clickstream.toml", environ={UNTUNED: "*"})
    assert described == CLICKSTREAM


def librdkafka_defaults() -> dict[str, str]:
    """What the client that is installed says of itself."""
    beside = Path(os.fspath(confluent_kafka.__file__)).parent.parent / "confluent_kafka.libs"
    [file] = beside.glob("librdkafka*.so*")
    library = ctypes.CDLL(str(file))
    defaults: dict[str, str] = {}
    for kind in ("rd_kafka_topic_conf", "rd_kafka_conf"):
        make, dump = library[f"{kind}_new"], library[f"{kind}_dump"]
        make.restype = ctypes.c_void_p
        dump.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
        dump.restype = ctypes.POINTER(ctypes.c_char_p)
        count = ctypes.c_size_t()
        words = dump(make(), ctypes.byref(count))
        text = [(words[i] or b"").decode() for i in range(count.value)]
        defaults |= dict(zip(text[::2], text[1::2], strict=True))
    return defaults


LIBRDKAFKA = [setting for setting in settings() if setting.area.system.startswith("librdkafka")]
_ALIASES = {
    "acks": "request.required.acks",
    "compression.type": "compression.codec",
    "linger.ms": "queue.buffering.max.ms",
}
_WORDS = {"all": "-1"}


@pytest.mark.skipif(
    not list(
        Path(os.fspath(confluent_kafka.__file__)).parent.parent.glob("confluent_kafka.libs/librdkafka*")
    ),
    reason="the client was not installed from a wheel",
)
@pytest.mark.parametrize("setting", LIBRDKAFKA, ids=lambda setting: setting.id)
def test_the_defaults_of_the_kafka_client_are_as_it_says(setting: Setting) -> None:
    told = librdkafka_defaults()[_ALIASES.get(setting.key, setting.key)]
    ours = setting.default
    assert told == (str(ours).lower() if isinstance(ours, bool) else _WORDS.get(str(ours), str(ours)))
