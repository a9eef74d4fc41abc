"""The Kafka sinks on a real broker. Numbers in brackets are the invariants of protocol.py."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from penstock.errors import Fenced, PositionLost, ReplayDiffers, SinkError
from penstock.local.services import Addresses
from penstock.sinks.encode import json_rows
from penstock.sinks.kafka import (
    CONTROL_TOPIC,
    Encoder,
    KeyedKafkaSink,
    Message,
    TransactionalKafkaSink,
    ensure_topics,
)
from penstock.sinks.protocol import Batch, Written

pytestmark = pytest.mark.integration

PARTITIONS = 3
USERS = 7
QUERY = "clickstream"


def batch(number: int, size: int = 20, note: str = "") -> Batch:
    """Rows of several users; `n` counts up over all batches, so that order per user can be checked."""
    serials = range(number * 1_000, number * 1_000 + size)
    rows = pa.table(
        {
            "user_id": pa.array([f"u{n % USERS}" for n in serials], pa.string()),
            "n": pa.array(serials, pa.int64()),
            "note": pa.array([note] * size, pa.string()),
        }
    )
    return Batch.of(QUERY, number, rows)


def serials(*batches: Batch) -> list[int]:
    return [n for each in batches for n in each.rows.column("n").to_pylist()]


@dataclass
class Place:
    """A topic and a query of its own, the writers opened on it, and what its readers see."""

    kafka: str
    topic: str
    query: str
    writers: list[TransactionalKafkaSink] = field(default_factory=list)

    def writer(
        self, name: str = "sessions", *, encode: Encoder | None = None, adopt: bool = False
    ) -> TransactionalKafkaSink:
        encode = encode or json_rows("user_id")
        sink = TransactionalKafkaSink(name, self.kafka, self.topic, self.query, encode, adopt=adopt)
        self.writers.append(sink)
        return sink

    def write(self, batch: Batch) -> Written:
        """Write a batch with a writer of its own, and close it.

        One that stays open prepares its next transaction, and so can fence one that was opened meanwhile.
        """
        sink = self.writer()
        written = sink.write(batch)
        sink.close()
        return written

    def read(self, isolation: str = "read_committed") -> list[Any]:
        return read_topic(self.kafka, self.topic, isolation)

    def numbers(self) -> list[int]:
        """The serial numbers that a read_committed reader sees, sorted."""
        return sorted(json.loads(record.value())["n"] for record in self.read())


def read_topic(kafka: str, topic: str, isolation: str) -> list[Any]:
    """All records up to the end; with read_committed, the end is before the oldest open transaction."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": f"reader-{uuid.uuid4()}",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        records, ended = [], 0
        while ended < PARTITIONS:
            record = consumer.poll(30)
            assert record is not None, f"{topic} cannot be read to its end"
            error = record.error()
            if error is None:
                records.append(record)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended += 1
            else:
                raise KafkaException(error)
        return records
    finally:
        consumer.close()


@pytest.fixture
def place(services: Addresses) -> Iterator[Place]:
    unique = uuid.uuid4().hex[:12]
    here = Place(services.kafka, f"sessions-{unique}", f"{QUERY}-{unique}")
    ensure_topics(services.kafka, {CONTROL_TOPIC: 1, here.topic: PARTITIONS})
    yield here
    for sink in here.writers:
        sink.close()


def test_batches_are_read_back_once_and_in_order_per_key(place: Place) -> None:
    batches = [batch(number) for number in range(3)]
    sink = place.writer()
    outcomes = [sink.write(each) for each in batches]
    assert [outcome.replayed for outcome in outcomes] == [False, False, False]
    assert [(o.count, o.digest) for o in outcomes] == [(b.count, b.digest) for b in batches]

    by_key: dict[bytes, list[int]] = defaultdict(list)
    for record in place.read():
        by_key[record.key()].append(json.loads(record.value())["n"])
    assert sorted(n for numbers in by_key.values() for n in numbers) == serials(*batches)
    assert len(by_key) == USERS
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_an_empty_batch_moves_the_position(place: Place) -> None:
    # [2]
    place.write(batch(0))
    assert not place.write(batch(1, size=0)).replayed
    assert place.write(batch(1, size=0)).replayed
    assert not place.write(batch(2)).replayed
    assert place.numbers() == serials(batch(0), batch(2))


def test_a_new_writer_does_not_write_a_batch_that_is_there_and_goes_on_after_it(place: Place) -> None:
    # [3]
    first = place.writer()
    first.write(batch(0))
    first.write(batch(1))
    first.close()
    second = place.writer()
    outcome = second.write(batch(1))
    assert (outcome.replayed, outcome.count, outcome.digest) == (True, batch(1).count, batch(1).digest)
    assert not second.write(batch(2)).replayed
    assert place.numbers() == serials(batch(0), batch(1), batch(2))


def test_a_batch_that_comes_again_with_other_rows_is_refused(place: Place) -> None:
    # [3]
    place.write(batch(0))
    with pytest.raises(ReplayDiffers):
        place.writer().write(batch(0, note="other"))
    assert place.numbers() == serials(batch(0))


@pytest.mark.parametrize(
    ("due", "error"),
    [
        pytest.param(3, PositionLost, id="a gap"),
        pytest.param(0, Fenced, id="behind"),
    ],
)
def test_a_batch_that_does_not_follow_is_refused_and_leaves_nothing(
    place: Place, due: int, error: type[SinkError]
) -> None:
    # [2]
    place.write(batch(0))
    place.write(batch(1))
    with pytest.raises(error):
        place.writer().write(batch(due))
    assert place.numbers() == serials(batch(0), batch(1))


def test_without_a_position_only_an_adopted_sink_goes_on(place: Place) -> None:
    with pytest.raises(PositionLost):
        place.writer().write(batch(5))
    assert place.read() == []
    adopted = place.writer(adopt=True)
    adopted.write(batch(5))
    adopted.write(batch(6))
    assert place.numbers() == serials(batch(5), batch(6))


def test_an_adopted_sink_takes_one_gap_and_not_a_second(place: Place) -> None:
    adopted = place.writer(adopt=True)
    adopted.write(batch(5))
    with pytest.raises(PositionLost):
        adopted.write(batch(9))


def test_a_writer_that_was_fenced_between_batches_leaves_nothing(place: Place) -> None:
    # [1]
    old = place.writer()
    old.write(batch(0))
    old._prepared.result()  # else the old one could still come to fence the new one
    new = place.writer()
    assert new.write(batch(0)).replayed
    with pytest.raises(Fenced):
        old.write(batch(1, note="zombie"))
    assert place.numbers() == serials(batch(0))
    new.write(batch(1))
    assert place.numbers() == serials(batch(0), batch(1))


def test_a_writer_that_is_fenced_in_its_transaction_leaves_nothing(place: Place) -> None:
    # [1]
    place.write(batch(0))
    new: list[TransactionalKafkaSink] = []

    def overtaken(rows: pa.Table) -> Iterator[Message]:
        for at, message in enumerate(json_rows("user_id")(rows)):
            if at == 5:
                new.append(place.writer())
                new[0].write(batch(0))
            yield message

    with pytest.raises(Fenced, match="newer writer"):
        place.writer(encode=overtaken).write(batch(1, note="zombie"))
    assert place.numbers() == serials(batch(0))
    new[0].write(batch(1))
    assert place.numbers() == serials(batch(0), batch(1))


def test_a_writer_that_was_closed_does_not_fence_the_next(place: Place) -> None:
    # As after every error in another sink: closed while it prepares, and opened again at once.
    batches = [batch(number) for number in range(12)]
    for each in batches:
        sink = place.writer()
        sink.write(each)
        sink.close()
    assert place.numbers() == serials(*batches)


def test_rows_that_cannot_be_encoded_leave_nothing_of_their_batch(place: Place) -> None:
    # [4]
    def breaks(rows: pa.Table) -> Iterator[Message]:
        yield from json_rows("user_id")(rows)
        raise ValueError("broken")

    broken = place.writer(encode=breaks)
    with pytest.raises(ValueError, match="broken"):
        broken.write(batch(0))
    broken.close()
    assert not place.write(batch(0)).replayed
    assert place.numbers() == serials(batch(0))


class AbortsInstead(Producer):
    """A transaction in which all is sent, rows and position, and which then ends the other way."""

    def commit_transaction(self, *_: object) -> None:
        self.flush(30)
        self.abort_transaction(30)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_an_aborted_transaction_leaves_neither_rows_nor_position(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(batch(0))
    with monkeypatch.context() as patch:
        patch.setattr("penstock.sinks.kafka.Producer", AbortsInstead)
        aborting = place.writer()
        with pytest.raises(SinkError):
            aborting.write(batch(1))
    assert len(place.read("read_uncommitted")) == batch(0).count + batch(1).count
    assert place.numbers() == serials(batch(0))
    with pytest.raises(PositionLost, match="holds batch 0"):
        place.writer().write(batch(2))
    assert not place.write(batch(1)).replayed


DIES_BEFORE_COMMIT = """
import os, signal, sys
from confluent_kafka import Producer
from penstock.sinks import kafka
from penstock.sinks.encode import json_rows
from tests.integration.test_sinks_kafka import batch

class Dies(Producer):
    def commit_transaction(self, *_):
        self.flush(30)
        os.kill(os.getpid(), signal.SIGKILL)

kafka.Producer = Dies
_, bootstrap, topic, query = sys.argv
kafka.TransactionalKafkaSink("sessions", bootstrap, topic, query, json_rows("user_id")).write(batch(1))
"""


def test_a_writer_killed_before_its_commit_leaves_nothing_and_the_next_goes_on(place: Place) -> None:
    place.write(batch(0))
    command = [sys.executable, "-c", DIES_BEFORE_COMMIT, place.kafka, place.topic, place.query]
    died = subprocess.run(command, timeout=120, cwd=Path(__file__).parents[2], check=False)
    assert died.returncode == -signal.SIGKILL
    assert len(place.read("read_uncommitted")) == batch(0).count + batch(1).count
    assert place.numbers() == serials(batch(0))
    # Its transaction is still open and would time out after two minutes; the next writer ends it.
    after = place.writer()
    assert not after.write(batch(1)).replayed
    after.write(batch(2))
    assert place.numbers() == serials(batch(0), batch(1), batch(2))


def test_two_sinks_of_one_query_have_positions_of_their_own(place: Place) -> None:
    one, other = place.writer("one"), place.writer("other")
    one.write(batch(0))
    one.write(batch(1))
    other.write(batch(0, note="other"))
    one.close()
    other.close()
    assert place.writer("one").write(batch(1)).replayed
    assert place.writer("other").write(batch(0, note="other")).replayed
    assert not place.writer("other").write(batch(1)).replayed
    assert Counter(place.numbers()) == Counter(serials(batch(0), batch(1)) * 2)


def too_large(rows: pa.Table) -> Iterator[Message]:
    yield from json_rows("user_id")(rows)
    yield Message(b"u0", bytes(3_000_000))


def test_a_record_too_large_for_the_topic_is_a_sink_error(place: Place) -> None:
    with pytest.raises(SinkError, match="too large"):
        place.writer(encode=too_large).write(batch(0))
    assert place.read() == []
    with pytest.raises(SinkError, match="too large"):
        KeyedKafkaSink("live", place.kafka, place.topic, too_large).write(batch(0))


def test_a_keyed_sink_holds_all_rows_by_key_when_it_returns(place: Place) -> None:
    sink = KeyedKafkaSink("live", place.kafka, place.topic, json_rows("user_id"))
    for number in range(2):
        assert not sink.write(batch(number)).replayed
    records = place.read()
    sink.close()
    assert sorted(json.loads(record.value())["n"] for record in records) == serials(batch(0), batch(1))
    assert all(json.loads(record.value())["user_id"].encode() == record.key() for record in records)
    partitions = defaultdict(set)
    for record in records:
        partitions[record.key()].add(record.partition())
    assert all(len(used) == 1 for used in partitions.values())


def test_a_keyed_sink_given_a_batch_twice_writes_it_twice(place: Place) -> None:
    for _ in range(2):
        sink = KeyedKafkaSink("live", place.kafka, place.topic, json_rows("user_id"))
        assert not sink.write(batch(0)).replayed
        sink.close()
    assert Counter(place.numbers()) == Counter(serials(batch(0)) * 2)


def test_a_topic_that_does_not_exist_is_a_sink_error(place: Place) -> None:
    missing = f"missing-{uuid.uuid4()}"
    keyed = KeyedKafkaSink("live", place.kafka, missing, json_rows("user_id"))
    with pytest.raises(SinkError, match=r"sink live: .*[Uu]nknown topic"):
        keyed.write(batch(0))
    place.topic = missing
    with pytest.raises(SinkError, match=r"sink sessions: .*[Uu]nknown topic"):
        place.write(batch(0))
