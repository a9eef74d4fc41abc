"""Dead letters on a real broker: listed, shown, and replayed once, whatever happens on the way."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.deadletters import replay as replaying
from penstock.deadletters.box import LetterBox, letter_sink
from penstock.deadletters.letter import Letter, letter_of
from penstock.deadletters.marks import Marks, marks_topic
from penstock.deadletters.originals import REPLAYED_HEADER
from penstock.deadletters.reader import Reader
from penstock.deadletters.replay import Outcome, Replay
from penstock.errors import Fenced
from penstock.local.services import Addresses
from penstock.observe.topic import read_topic
from penstock.sinks.encode import dead_letters
from penstock.sinks.kafka import (
    CONTROL_TOPIC,
    Deliveries,
    TransactionalKafkaSink,
    is_fenced,
    send,
    transactional_producer,
)
from penstock.sinks.kafka import Message as Record
from penstock.sinks.protocol import Batch
from penstock.sinks.topics import ensure_topics
from penstock.spec import PipelineSpec
from tests.integration.clicks import clickstream

pytestmark = pytest.mark.integration

PARTITIONS = 3
NEGATIVE = "condition: price_not_negative does not hold"


@dataclass
class Place:
    """A pipeline's topics of their own: records in the source, dead letters of some of them."""

    kafka: str
    settings: dict[str, str]
    data: Path
    batches: int = 0
    values: list[bytes] = field(default_factory=list)

    @property
    def spec(self) -> PipelineSpec:
        return clickstream(**self.settings)

    @property
    def source(self) -> str:
        return self.settings["source.topic"]

    @property
    def dead(self) -> str:
        return self.settings["sink.dead-letters.topic"]

    def command(self, *arguments: str) -> list[str]:
        name, *rest = arguments
        sets = [word for key, value in self.settings.items() for word in ("--set", f"{key}={value}")]
        return ["dead-letters", name, "clickstream", *rest, *sets, "--data", str(self.data)]

    def run(self, *arguments: str, status: int = 0) -> str:
        """What the command prints, on one line."""
        result: Result = CliRunner().invoke(app, self.command(*arguments))
        assert result.exit_code == status, (result.output, result.exception)
        return re.sub(r"\s+", " ", click.unstyle(result.output))

    def run_json(self, *arguments: str, status: int = 0) -> dict[str, Any]:
        out = self.data / f"{uuid.uuid4()}.json"
        self.run(*arguments, "--json", str(out), status=status)
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    def send(self, values: list[bytes]) -> list[Message]:
        """Records into the source's topic, each with a key and a header, as they stand there."""
        there: list[Message] = []
        producer = Producer({"bootstrap.servers": self.kafka})
        for n, value in enumerate(values):
            producer.produce(
                self.source,
                value=value,
                key=f"u{n % 7}",
                headers=[("trace", b"%d" % n)],
                on_delivery=lambda _, message: there.append(message),
            )
        assert producer.flush(30) == 0
        self.values += values
        return there

    def set_aside(
        self, records: list[Message], kind: str = "rejected", reason: str = NEGATIVE, query: str | None = None
    ) -> None:
        """Dead letters of these records, by the sink that a pipeline writes them with."""
        rows = pa.table(
            {
                "kind": pa.array([kind] * len(records), pa.string()),
                "reason": pa.array([reason] * len(records), pa.string()),
                "partition": pa.array([record.partition() for record in records], pa.int32()),
                "offset": pa.array([record.offset() for record in records], pa.int64()),
                "raw": pa.array([record.value() for record in records], pa.binary()),
                "query": pa.array([query or self.spec.name] * len(records), pa.string()),
                "batch": pa.array([self.batches] * len(records), pa.int64()),
            }
        )
        name = f"{query or self.spec.name}-dead"
        sink = TransactionalKafkaSink(
            name, self.kafka, self.dead, "test", dead_letters(self.source), adopt=True
        )
        sink.write(Batch.of("test", self.batches, rows))
        sink.close()
        self.batches += 1

    def replayed(self) -> list[Message]:
        """The records that replays have put into the source's topic, as a committed reader sees them."""
        return [
            message
            for message in read_topic(self.kafka, self.source)
            if REPLAYED_HEADER in dict(message.headers() or ())
        ]

    def letters(self) -> list[Letter]:
        return [letter for m in read_topic(self.kafka, self.dead) if (letter := letter_of(m)) is not None]


def headers(message: Message) -> list[tuple[str, bytes]]:
    return list(message.headers() or [])  # type: ignore[arg-type]


@pytest.fixture
def place(services: Addresses, tmp_path: Path) -> Place:
    name = f"d{uuid.uuid4().hex[:8]}"
    settings = {
        "name": name,
        "source.topic": f"{name}-clicks",
        "source.partitions": str(PARTITIONS),
        "sink.dead-letters.topic": f"{name}-dead",
        "services.kafka": services.kafka,
    }
    topics = {CONTROL_TOPIC: 1, settings["source.topic"]: PARTITIONS}
    ensure_topics(services.kafka, {**topics, settings["sink.dead-letters.topic"]: PARTITIONS})
    return Place(services.kafka, settings, tmp_path)


def events(count: int, start: int = 0) -> list[bytes]:
    return [b'{"user_id":"u%d","n":%d,"price":-1}' % (n % 7, n) for n in range(start, start + count)]


def test_the_list_counts_by_kind_and_reason_and_shows_the_newest(place: Place) -> None:
    records = place.send(events(30))
    place.set_aside(records[:20])
    place.set_aside(records[20:23], kind="late", reason="late: 61234 ms behind the clock, 32000 allowed")
    place.set_aside(records[23:25], kind="late", reason="late: 99999 ms behind the clock, 32000 allowed")
    report = place.run_json("list", "--limit", "5")
    assert report["total"] == 25
    assert report["groups"] == [
        {"kind": "rejected", "reason": NEGATIVE, "count": 20},
        {"kind": "late", "reason": "late: N ms behind the clock, N allowed", "count": 5},
    ]
    assert [letter["kind"] for letter in report["newest"]] == ["late"] * 5
    text = place.run("list", "--limit", "5")
    assert f"25 dead letters of {place.spec.name} in {place.dead}" in text
    assert f"20 rejected {NEGATIVE}" in text
    assert '{"user_id":"u' in text


def test_the_list_is_filtered_by_kind_reason_and_time(place: Place) -> None:
    records = place.send(events(9))
    place.set_aside(records[:4])
    place.set_aside(records[4:7], kind="late", reason="late: 61234 ms behind the clock, 32000 allowed")
    assert place.run_json("list", "--kind", "late")["total"] == 3
    assert place.run_json("list", "--reason", "PRICE_not")["total"] == 4
    assert place.run_json("list", "--since", "1 hour")["total"] == 7
    between_ms = place.letters()[-1].at_ms
    time.sleep(2.1)
    place.set_aside(records[7:])
    assert place.letters()[-1].at_ms > between_ms + 2_000
    assert place.run_json("list", "--since", "2 seconds")["total"] <= 2
    assert "no such dead letters" in place.run("list", "--kind", "duplicate")


def test_letters_of_another_pipeline_in_the_same_topic_are_left_alone(place: Place) -> None:
    records = place.send(events(10))
    place.set_aside(records[:4])
    place.set_aside(records[4:], query="somebody-else")
    assert place.run_json("list")["total"] == 4
    assert place.run_json("replay", "--yes")["replayed"] == 4
    [other] = [letter for letter in place.letters() if letter.query == "somebody-else"][:1]
    assert "is no dead letter of" in place.run("show", str(other.place), status=1)


def test_a_topic_that_is_empty_or_missing_is_told(place: Place) -> None:
    assert f"no dead letters of {place.spec.name} in {place.dead}" in place.run("list")
    assert "nothing to replay" in place.run("replay", "--yes")
    place.settings["sink.dead-letters.topic"] = "nowhere"
    assert "topic nowhere does not exist: the pipeline has never run here" in place.run("list", status=1)


def test_a_broker_that_does_not_answer_is_told(place: Place) -> None:
    place.settings["services.kafka"] = "127.0.0.1:9"
    assert "cannot be read" in place.run("list", status=1)


def test_one_letter_is_shown_whole_with_a_caret_where_it_is_malformed(place: Place) -> None:
    [record] = place.send([b'{"user_id":"u1","seq":"x"}'])
    place.set_aside([record], reason="malformed: seq: expected long, got a string, at byte 22")
    [letter] = place.letters()
    result = CliRunner().invoke(app, place.command("show", str(letter.place)))
    assert result.exit_code == 0, result.output
    printed = click.unstyle(result.output).splitlines()
    assert '    "seq": "x"' in printed
    raw = printed.index('  {"user_id":"u1","seq":"x"}')
    assert printed[raw + 1] == "  " + " " * 22 + "^"
    assert any(line.split() == ["key", "u0"] for line in printed)
    assert any(f"{place.source} {record.partition()}:{record.offset()}" in line for line in printed)


def test_places_without_a_letter_are_refused(place: Place) -> None:
    place.set_aside(place.send(events(3)))
    [letter, *_] = place.letters()
    marker = sum(other.place.partition == letter.place.partition for other in place.letters())
    partition = letter.place.partition
    assert "markers of transactions" in place.run("show", f"{partition}:{marker}", status=1)
    assert "is no dead letter" in place.run("show", f"{partition}:4000", status=1)
    assert "has no partition 77" in place.run("show", "77:0", status=1)
    assert place.run_json("replay", f"{partition}:0", "--yes")["replayed"] == 1


def test_a_replayed_record_is_the_same_in_the_same_partition_and_tells_where_it_comes_from(
    place: Place,
) -> None:
    records = place.send(events(40))
    place.set_aside(records[:25])
    outcome = place.run_json("replay", "--yes")
    assert outcome == {
        "selected": 25,
        "replayed": 25,
        "already_replayed": 0,
        "failed": 0,
        "without_key": 0,
        "problems": [],
    }
    before = {record.value(): record for record in records[:25]}
    replayed = place.replayed()
    assert Counter(message.value() for message in replayed) == Counter(before.keys())
    addresses = {letter.value: letter.address.encode() for letter in place.letters()}
    for message in replayed:
        original = before[message.value()]
        assert (message.key(), message.partition()) == (original.key(), original.partition())
        assert headers(message) == [
            ("trace", b"%d" % place.values.index(message.value() or b"")),
            (REPLAYED_HEADER, addresses[message.value()]),
        ]


def test_what_was_replayed_is_not_replayed_again_and_the_list_says_so(place: Place) -> None:
    place.set_aside(place.send(events(10)))
    assert place.run_json("replay", "--yes")["replayed"] == 10
    assert "nothing to replay" in place.run("replay", "--yes")
    again = place.run_json("replay", "--yes")
    assert (again["replayed"], again["already_replayed"]) == (0, 10)
    assert len(place.replayed()) == 10
    assert all(letter["replayed_ms"] for letter in place.run_json("list")["newest"])


def test_two_letters_of_one_record_are_one_replay(place: Place) -> None:
    # As a sink that is at least once leaves them after a crash.
    records = place.send(events(10))
    place.set_aside(records)
    place.set_aside(records)
    outcome = place.run_json("replay", "--yes")
    assert (outcome["selected"], outcome["replayed"], outcome["already_replayed"]) == (20, 10, 10)
    assert len(place.replayed()) == 10


def test_a_record_that_comes_back_can_be_replayed_again_and_shows_its_rounds(place: Place) -> None:
    place.set_aside(place.send(events(1)))
    place.run("replay", "--yes")
    [first] = place.letters()
    place.set_aside(place.replayed())
    [second] = [letter for letter in place.letters() if letter.place != first.place]
    assert place.run_json("show", str(second.place))["came_round"] == [first.address]
    assert place.run_json("replay", "--yes")["replayed"] == 1
    rounds = [[value for name, value in headers(m) if name == REPLAYED_HEADER] for m in place.replayed()]
    assert sorted(map(len, rounds)) == [1, 2]
    assert [first.address.encode(), second.address.encode()] in rounds


def test_only_what_was_chosen_is_replayed(place: Place) -> None:
    records = place.send(events(12))
    place.set_aside(records[:5])
    place.set_aside(records[5:], kind="late", reason="late: 1 ms behind the clock, 0 allowed")
    text = place.run("replay", "--kind", "late", "--dry-run")
    assert "to replay: 7 late" in text
    assert "A late event will be late again" in text
    assert place.replayed() == []
    assert place.run_json("replay", "--reason", "price", "--yes")["replayed"] == 5
    letters = [letter for letter in place.letters() if letter.kind == "late"]
    assert place.run_json("replay", *(str(letter.place) for letter in letters[:2]), "--yes")["replayed"] == 2
    wanted = [record.value() for record in records[:5]] + [letter.value for letter in letters[:2]]
    assert Counter(message.value() for message in place.replayed()) == Counter(wanted)


def test_without_a_terminal_nothing_is_sent_unless_yes_is_said(place: Place) -> None:
    place.set_aside(place.send(events(3)))
    assert f"Say --yes to send 3 records to {place.source}" in place.run("replay", status=1)
    assert place.replayed() == []


def test_a_record_that_retention_has_taken_goes_back_without_its_key(place: Place) -> None:
    records = place.send(events(20))
    place.set_aside(records)
    admin = AdminClient({"bootstrap.servers": place.kafka})
    gone = [record for record in records if record.partition() == records[0].partition()]
    cut = TopicPartition(place.source, records[0].partition() or 0, len(gone))
    for deleted in admin.delete_records([cut]).values():
        deleted.result()
    assert "no longer holds the originals" in place.run("replay", "--yes")
    replayed = place.replayed()
    assert Counter(m.value() for m in replayed) == Counter(r.value() for r in records)
    keyless = [message for message in replayed if message.key() is None]
    assert {m.value() for m in keyless} == {r.value() for r in gone}
    assert {m.partition() for m in keyless} == {records[0].partition()}


def test_a_record_that_the_topic_refuses_does_not_hold_up_the_others(
    services: Addresses, place: Place
) -> None:
    admin = AdminClient({"bootstrap.servers": services.kafka})
    large = b'{"large":"' + random.Random(1).randbytes(3_000).hex().encode() + b'"}'
    place.set_aside(place.send([*events(30), large, *events(30, start=30)]))
    for deleted in admin.delete_topics([place.source], operation_timeout=30).values():
        deleted.result()
    small = NewTopic(place.source, PARTITIONS, config={"max.message.bytes": "2500"})
    for created in admin.create_topics([small], operation_timeout=30).values():
        created.result()
    outcome = place.run_json("replay", "--yes", status=1)
    assert (outcome["replayed"], outcome["failed"], outcome["already_replayed"]) == (60, 1, 0)
    assert "too large" in outcome["problems"][0]
    assert Counter(m.value() for m in place.replayed()) == Counter([*events(30), *events(30, start=30)])


def replay_all(
    kafka: str, spec: PipelineSpec, on_page: Callable[[Outcome], object] = lambda _: None
) -> Outcome:
    """All letters of a pipeline, replayed without the command around it."""
    sink = letter_sink(spec)
    with Reader(kafka) as reading, Reader(kafka) as lookups:
        box, marks = LetterBox(reading, spec, sink), Marks(lookups, sink.topic)
        replay = Replay(kafka, sink.topic, marks, lookups)
        for outcome in replay.run(box.letters(box.extent())):
            on_page(outcome)
        return replay.outcome


def assert_all_replayed_once(place: Place) -> None:
    wanted = Counter(letter.value for letter in place.letters())
    assert Counter(message.value() for message in place.replayed()) == wanted
    marks = list(read_topic(place.kafka, marks_topic(place.dead)))
    assert len(marks) == len({mark.key() for mark in marks}) == wanted.total()


DIES_ON_THE_WAY = """
import json, os, signal, sys, threading, time
from penstock.deadletters import replay
from tests.integration.clicks import clickstream
from tests.integration.test_dead_letters import replay_all

_, kafka, settings, step, delay_ms = sys.argv
left, delay_s = int(step), float(delay_ms) / 1000

def dies(function):
    def wrapped(*arguments):
        global left
        left -= 1
        if left == 0:
            def kill():
                time.sleep(delay_s)
                os.kill(os.getpid(), signal.SIGKILL)
            threading.Thread(target=kill).start()
        return function(*arguments)
    return wrapped

replay._PAGE_RECORDS = 20
replay.send, replay.commit = dies(replay.send), dies(replay.commit)
replay_all(kafka, clickstream(**json.loads(settings)))
"""


@pytest.mark.parametrize("seed", range(int(os.environ.get("KILL_SEEDS", "1"))))
def test_a_replay_killed_at_any_moment_and_run_again_replays_each_record_once(
    place: Place, seed: int
) -> None:
    # A page is 40 sends and a commit, so that some die in the first page, some in a commit, some far on.
    place.set_aside(place.send(events(200)))
    chance = random.Random(seed)
    for _ in range(3):
        step = chance.choice([1, 41, 82, chance.randint(1, 200)])
        command = [sys.executable, "-c", DIES_ON_THE_WAY, place.kafka, json.dumps(place.settings)]
        command += [str(step), str(chance.choice([0, 0, 3, 10, 30]))]
        died = subprocess.run(command, timeout=120, cwd=Path(__file__).parents[2], check=False)
        # The last of them can be done before it is killed.
        assert died.returncode in (-signal.SIGKILL, 0)
    done = len(place.replayed())
    outcome = replay_all(place.kafka, place.spec)
    assert (outcome.already_replayed, outcome.replayed) == (done, 200 - done)
    assert_all_replayed_once(place)


def test_a_replay_that_is_overtaken_in_its_transaction_says_so_and_leaves_nothing_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.set_aside(place.send(events(60)))
    monkeypatch.setattr(replaying, "_PAGE_RECORDS", 20)
    sends, others = 0, list[Outcome]()
    send = replaying.send  # type: ignore[attr-defined]

    def overtaken(*arguments: Any) -> None:
        nonlocal sends
        sends += 1
        if sends == 50:  # in the second page
            others.append(replay_all(place.kafka, place.spec))
        send(*arguments)

    monkeypatch.setattr(replaying, "send", overtaken)
    with pytest.raises(Fenced, match=r"another replay .* has taken over; 20 records were replayed before"):
        replay_all(place.kafka, place.spec)
    assert (others[0].replayed, others[0].already_replayed) == (40, 20)
    assert_all_replayed_once(place)


def test_a_producer_that_learned_of_its_fence_in_the_background_says_so(place: Place) -> None:
    old = transactional_producer(place.kafka, place.dead, place.source, timeout_ms=15_000)
    old.begin_transaction()
    transactional_producer(place.kafka, place.dead, place.source, timeout_ms=15_000)

    def send_on() -> None:
        # The first one makes it ask the broker; a later one meets what the client has made of the answer.
        for _ in range(500):
            send(old, place.source, Record(b"k", b"v"), Deliveries())
            time.sleep(0.02)

    with pytest.raises(KafkaException) as caught:
        send_on()
    assert is_fenced(caught.value)


def test_a_replay_that_is_overtaken_between_pages_finds_the_others_marks(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.set_aside(place.send(events(60)))
    monkeypatch.setattr(replaying, "_PAGE_RECORDS", 20)
    others = list[Outcome]()

    def overtake(_: Outcome) -> None:
        if not others:
            others.append(Outcome())
            others[0] = replay_all(place.kafka, place.spec)

    outcome = replay_all(place.kafka, place.spec, overtake)
    assert (others[0].replayed, others[0].already_replayed) == (40, 20)
    assert (outcome.replayed, outcome.already_replayed) == (20, 40)
    assert_all_replayed_once(place)


def test_commands_that_run_at_the_same_time_replay_each_record_once(place: Place) -> None:
    place.set_aside(place.send(events(3_000)))
    command = [sys.executable, "-m", "penstock.cli", *place.command("replay", "--yes")]
    with ExitStack() as running:
        children = [
            running.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            )
            for _ in range(3)
        ]
        told = [child.communicate(timeout=120)[0] for child in children]
    for child, text in zip(children, told, strict=True):
        assert child.returncode in (0, 1), text
        assert child.returncode == 0 or "has taken over" in text, text
    assert 0 in [child.returncode for child in children], told
    place.run("replay", "--yes")
    assert_all_replayed_once(place)
