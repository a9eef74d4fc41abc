"""The producer against a real broker: what its ledger says is what the topic holds."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter, defaultdict
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.cli.producers import produce_by_several
from penstock.errors import PenstockError, SourceError
from penstock.local.services import Addresses
from penstock.produce import producer as producer_module
from penstock.produce.behaviour import BehaviourPlan
from penstock.produce.clickstream import EVENT_TYPES, ClickstreamPlan
from penstock.produce.ledger import Ledger, read_ledger, read_ledgers
from penstock.produce.producer import ProduceStats, produce, send_clock_event
from penstock.produce.transactions import TransactionsPlan
from penstock.produce.workload import Workload

pytestmark = pytest.mark.integration

PLAN = ClickstreamPlan(users=2_000, products=200, malformed=0.02, invalid=0.02, duplicate=0.02)
PARTITIONS = 4

Record = tuple[bytes, bytes | None]


@pytest.fixture
def topic(services: Addresses) -> str:
    return new_topic(services.kafka)


def new_topic(bootstrap: str, **config: str) -> str:
    name = f"clicks-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1, config=config)]).values():
        future.result(30)
    return name


def read_topic(bootstrap: str, topic: str) -> list[Record]:
    """Everything in the topic, in order within each partition."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.auto.commit": False}
    )
    records: list[Record] = []
    try:
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
            for number in range(PARTITIONS)
        }
        consumer.assign([TopicPartition(topic, number, 0) for number in ends])
        deadline = time.monotonic() + 60
        while len(records) < sum(ends.values()):
            # A consume() waits out its timeout when it cannot fill its list, so the timeout is short.
            batch = consumer.consume(10_000, timeout=0.2)
            assert time.monotonic() < deadline, f"read {len(records)} of {sum(ends.values())} records"
            records += [(message.key() or b"", message.value()) for message in batch]
    finally:
        consumer.close()
    return records


def accepted(event: Any) -> bool:
    return (
        isinstance(event["ts"], int)
        and "user_id" in event
        and event["event_type"] in EVENT_TYPES
        and (event.get("price") is None or event["price"] >= 0)
    )


def seqs_by_user(records: list[Record]) -> dict[str, list[int]]:
    """The good records of each user as they stand in the topic."""
    found: dict[str, list[int]] = defaultdict(list)
    for _, value in records:
        try:
            event = json.loads(value or b"")
        except ValueError:
            continue
        if accepted(event):
            found[event["user_id"]].append(event["seq"])
    return found


def seqs_by_user_recorded(ledger: Ledger, *statuses: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for row in ledger.records.select(["user_id", "seq", "fate", "status"]).to_pylist():
        if row["fate"] == "ok" and row["status"] in statuses:
            found[row["user_id"]].append(row["seq"])
    return found


def run(
    bootstrap: str,
    topic: str,
    directory: Path,
    *,
    plan: Workload[Any] = PLAN,
    rate_eps: float = 5_000,
    seconds: float | None = 2,
) -> tuple[ProduceStats, list[ProduceStats]]:
    seen: list[ProduceStats] = []
    final = produce(
        plan,
        bootstrap=bootstrap,
        topic=topic,
        rate_eps=rate_eps,
        seconds=seconds,
        ledger_dir=directory,
        producer_id="p1",
        stop=Event(),
        on_stats=seen.append,
    )
    return final, seen


def test_the_topic_holds_what_the_ledger_says_in_order_and_nothing_else(
    services: Addresses, topic: str, tmp_path: Path
) -> None:
    stats, _ = run(services.kafka, topic, tmp_path)
    ledger = read_ledger(tmp_path / "p1")
    records = read_topic(services.kafka, topic)
    assert stats.sent == stats.acknowledged == ledger.acknowledged == len(records) == 10_000
    assert ledger.failed == ledger.uncertain == 0
    assert seqs_by_user(records) == seqs_by_user_recorded(ledger, "acknowledged")
    empty = ledger.records["flaw"].to_pylist().count("empty")
    assert [value for _, value in records].count(b"") == empty > 0
    keys = Counter(key.decode() for key, _ in records)
    assert keys == Counter(ledger.records["user_id"].to_pylist())


@pytest.mark.parametrize(
    ("plan", "key"),
    [
        (TransactionsPlan(malformed=0.02, invalid=0.02), "transaction_id"),
        (BehaviourPlan(malformed=0.02, invalid=0.02, hot_share=0.8), "user_id"),
    ],
)
def test_other_workloads_go_the_same_way_in_the_order_of_their_key(
    services: Addresses, topic: str, tmp_path: Path, plan: Workload[Any], key: str
) -> None:
    stats, _ = run(services.kafka, topic, tmp_path, plan=plan)
    ledger = read_ledger(tmp_path / "p1")
    records = read_topic(services.kafka, topic)
    assert stats.sent == ledger.acknowledged == len(records) == 10_000
    in_topic, recorded = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for record_key, value in records:
        try:
            in_topic[record_key.decode()].append(json.loads(value or b"")["seq"])
        except ValueError:
            in_topic[record_key.decode()].append(-1)
    for row in ledger.records.select([key, "seq", "fate"]).to_pylist():
        recorded[row[key]].append(-1 if row["fate"] == "malformed" else row["seq"])
    # A number where the ledger says malformed is a record that is JSON and has a field of a wrong type.
    assert in_topic.keys() == recorded.keys()
    for name, seqs in recorded.items():
        assert [b for a, b in zip(seqs, in_topic[name], strict=True) if a != -1] == [
            a for a in seqs if a != -1
        ]


def test_the_stats_count_what_the_ledger_holds(services: Addresses, topic: str, tmp_path: Path) -> None:
    stats, seen = run(services.kafka, topic, tmp_path)
    records = read_ledger(tmp_path / "p1").records
    fates, timings = (Counter(records[name].to_pylist()) for name in ("fate", "timing"))
    assert (stats.malformed, stats.invalid) == (fates["malformed"], fates["invalid"])
    assert (stats.out_of_order, stats.delayed) == (timings["out_of_order"], timings["delayed"])
    assert (stats.late, stats.repeated) == (timings["late"], timings["repeated"])
    assert [s.sent for s in seen] == sorted(s.sent for s in seen)
    assert stats.behind_ms == 0
    assert stats.behind_ms_max >= max(s.behind_ms for s in seen)


def test_a_rate_out_of_reach_is_reported_as_behind_and_every_event_is_sent(
    services: Addresses, topic: str, tmp_path: Path
) -> None:
    stats, _ = run(services.kafka, topic, tmp_path, rate_eps=20_000_000, seconds=0.01)
    assert stats.sent == stats.acknowledged == 200_000
    assert stats.behind_ms_max > 10
    assert stats.achieved_eps < stats.target_eps


def test_a_killed_producer_leaves_nothing_in_the_topic_that_is_not_in_its_ledger(
    services: Addresses, topic: str, tmp_path: Path
) -> None:
    script = f"""
import threading
from pathlib import Path
from penstock.produce.clickstream import ClickstreamPlan
from penstock.produce.producer import produce
produce({PLAN!r}, bootstrap={services.kafka!r}, topic={topic!r}, rate_eps=20_000, seconds=None,
        ledger_dir=Path({str(tmp_path)!r}), producer_id="p1", stop=threading.Event(), on_stats=lambda _: None)
"""
    child = subprocess.Popen([sys.executable, "-c", script])
    try:
        deadline = time.monotonic() + 120
        while not (acks := tmp_path / "p1" / "acks.jsonl").exists() or len(acks.read_text().splitlines()) < 2:
            assert child.poll() is None, "the producer ended before it was killed"
            assert time.monotonic() < deadline, "the producer acknowledged nothing"
            time.sleep(0.05)
        time.sleep(0.3)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    ledger = read_ledger(tmp_path / "p1")
    found = seqs_by_user(read_topic(services.kafka, topic))
    sure = seqs_by_user_recorded(ledger, "acknowledged")
    possible = seqs_by_user_recorded(ledger, "acknowledged", "uncertain")
    assert ledger.acknowledged > 0
    assert ledger.uncertain > 0
    assert found.keys() <= possible.keys()
    for user, seqs in possible.items():
        assert len(sure[user]) <= len(found[user])
        assert found[user] == seqs[: len(found[user])]


def test_records_the_broker_refuses_are_recorded_as_failed(services: Addresses, tmp_path: Path) -> None:
    narrow = new_topic(services.kafka, **{"max.message.bytes": "300"})
    stats, _ = run(services.kafka, narrow, tmp_path, rate_eps=500, seconds=1)
    ledger = read_ledger(tmp_path / "p1")
    records = read_topic(services.kafka, narrow)
    assert ledger.failed > 0
    assert ledger.uncertain == 0
    assert (stats.acknowledged, stats.failed) == (ledger.acknowledged, ledger.failed)
    assert ledger.acknowledged == len(records)
    assert seqs_by_user(records) == seqs_by_user_recorded(ledger, "acknowledged")


def test_a_missing_topic_is_refused_before_anything_is_recorded(services: Addresses, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no topic 'nowhere'"):
        run(services.kafka, "nowhere", tmp_path)
    assert not (tmp_path / "p1").exists()


def test_without_a_broker_the_stats_say_so_and_the_records_are_uncertain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_module, "FLUSH_MAX_S", 3.0)
    stats, seen = run("127.0.0.1:1", "clicks", tmp_path, rate_eps=200, seconds=1)
    ledger = read_ledger(tmp_path / "p1")
    assert max(s.stalled_ms for s in seen) > 1_000
    assert any("refused" in s.trouble or "down" in s.trouble for s in seen)
    assert (stats.sent, stats.acknowledged) == (200, 0)
    assert (ledger.acknowledged, ledger.failed, ledger.uncertain) == (0, 0, 200)


def test_stop_ends_a_run_without_end_and_everything_sent_is_acknowledged(
    services: Addresses, topic: str, tmp_path: Path
) -> None:
    stop = Event()
    stats = produce(
        PLAN,
        bootstrap=services.kafka,
        topic=topic,
        rate_eps=1_000,
        seconds=None,
        ledger_dir=tmp_path,
        producer_id="p1",
        stop=stop,
        on_stats=lambda _: stop.set(),
    )
    ledger = read_ledger(tmp_path / "p1")
    assert stats.sent == ledger.acknowledged == len(read_topic(services.kafka, topic)) > 0


def test_the_clock_event_is_sent_and_recorded_as_a_producer_of_its_own(
    services: Addresses, topic: str, tmp_path: Path
) -> None:
    run(services.kafka, topic, tmp_path, rate_eps=100, seconds=0.1)
    ts_ms = time.time_ns() // 1_000_000 + 60_000
    name = send_clock_event(PLAN, bootstrap=services.kafka, topic=topic, ts_ms=ts_ms, ledger_dir=tmp_path)
    ledger = read_ledger(tmp_path / name)
    clock = [json.loads(value or b"") for key, value in read_topic(services.kafka, topic) if key == b"clock"]
    assert (name, ledger.acknowledged) == ("p2", 1)
    assert [(event["user_id"], event["ts"], event["event_id"]) for event in clock] == [
        ("clock", ts_ms, "p2-0")
    ]


def test_several_processes_share_a_rate_and_each_has_a_ledger(
    services: Addresses, topic: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "penstock.cli", "produce", "clickstream", "--data", str(tmp_path)]
    command += ["--set", f"services.kafka={services.kafka}", "--set", f"source.topic={topic}"]
    command += ["--set", f"source.partitions={PARTITIONS}", "--set", "cleanse.future=1 hour"]
    command += ["--rate", "1000", "--seconds", "2"]
    report = tmp_path / "report.json"
    subprocess.run([*command, "--processes", "2", "--json", str(report), "--close-sessions"], check=True)
    said = json.loads(report.read_text())
    shared, clock = read_ledgers(tmp_path / "produced" / "clickstream")[:2], 1
    assert [ledger.acknowledged >= 1_000 for ledger in shared] == [True, True]
    assert said["acknowledged"] == sum(ledger.acknowledged for ledger in shared)
    assert (said["target_eps"], said["verdict"]) == (1_000, "pass")
    assert len(read_topic(services.kafka, topic)) == said["acknowledged"] + clock


def test_when_one_of_several_breaks_the_others_do_not_go_on(
    services: Addresses, topic: str, tmp_path: Path
) -> None:
    endless = ["clickstream", "--data", str(tmp_path), "--rate", "100"]
    endless += ["--set", f"services.kafka={services.kafka}", "--set", f"source.topic={topic}"]
    endless += ["--set", f"source.partitions={PARTITIONS}"]
    stop = Event()
    giving_up = Timer(120, stop.set)
    giving_up.start()
    with pytest.raises(PenstockError, match="a producer failed"):
        produce_by_several([endless, ["--no-such-option"]], stop, lambda _: None)
    giving_up.cancel()
    assert not stop.is_set()
