"""What is Kafka's own: order, transactions, deliveries. What all stores keep is in test_sinks_protocol.py.

Numbers in brackets are the invariants of protocol.py.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.errors import Fenced, PositionLost, SinkError
from penstock.local.services import Addresses
from penstock.sinks.encode import json_rows
from penstock.sinks.kafka import CONTROL_TOPIC, TransactionalKafkaSink
from penstock.sinks.producer import Deliveries, Message, send_all
from penstock.sinks.protocol import Batch, Sink
from tests.integration.places.kafka import KafkaPlace
from tests.integration.places.place import new_place, session, sessions

pytestmark = pytest.mark.integration

USERS = 7


@pytest.fixture
def place(services: Addresses) -> Iterator[KafkaPlace]:
    with new_place(KafkaPlace, services.kafka) as here:
        yield here


@pytest.fixture
def keyed(services: Addresses) -> Iterator[KafkaPlace]:
    with new_place(KafkaPlace, services.kafka, exactly_once=False) as here:
        yield here


def serial(place: KafkaPlace, number: int) -> Batch:
    """Rows of several users; `events` counts up over all batches."""
    serials = range(number * 20, number * 20 + 20)
    return place.batch(number, [session(f"u{n % USERS}", events=n) for n in serials])


def staging(place: KafkaPlace) -> TransactionalKafkaSink:
    writer = place.writer()
    assert isinstance(writer, TransactionalKafkaSink)
    return writer


@pytest.mark.parametrize("exactly_once", [True, False])
def test_rows_of_a_key_are_in_one_partition_and_in_order(place: KafkaPlace, exactly_once: bool) -> None:
    place.exactly_once = exactly_once
    place.write(*(serial(place, number) for number in range(3)))
    serials, partitions = defaultdict(list), defaultdict(set)
    for record in place.read():
        row = json.loads(record.value() or b"")
        assert record.key() == row["session_id"].encode()
        serials[row["session_id"]].append(row["events"])
        partitions[row["session_id"]].add(record.partition())
    assert sorted(n for numbers in serials.values() for n in numbers) == list(range(60))
    assert len(serials) == USERS
    assert all(numbers == sorted(numbers) for numbers in serials.values())
    assert all(len(used) == 1 for used in partitions.values())


def test_a_keyed_sink_given_a_batch_twice_writes_it_twice(keyed: KafkaPlace) -> None:
    for _ in range(2):
        keyed.write(keyed.batch(0))
    assert set(Counter(record.key() for record in keyed.read()).values()) == {2}


def test_a_writer_that_is_fenced_in_its_transaction_leaves_nothing(place: KafkaPlace) -> None:
    # [1]
    place.write(place.batch(0))
    new: list[Sink] = []

    def overtaken(rows: pa.Table) -> Iterator[Message]:
        for at, message in enumerate(json_rows("session_id")(rows)):
            if at == 5:
                new.append(place.writer())
                new[0].write(place.batch(0))
            yield message

    with closing(place.beside(encode=overtaken)) as old, pytest.raises(Fenced, match="newer writer"):
        old.write(place.batch(1, sessions(1, country="zombie")))
    assert place.holds(place.batch(0))
    new[0].write(place.batch(1))
    assert place.holds(place.batch(0), place.batch(1))


def test_a_writer_that_hears_while_it_sends_that_it_was_fenced_is_fenced(place: KafkaPlace) -> None:
    # [1] The client then refuses the next record, for a fatal error that it does not name.
    place.write(place.batch(0))

    def overtaken(producer: Producer, topic: str, rows: Iterable[Message], deliveries: Deliveries) -> None:
        assert place.write(place.batch(0)).replayed
        some = list(rows)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            send_all(producer, topic, some, deliveries)
            time.sleep(0.02)
        pytest.fail("it never heard")

    slow = patch("penstock.sinks.kafka.send_all", overtaken)
    with closing(place.beside()) as old, slow, pytest.raises(Fenced, match="newer writer"):
        old.write(place.batch(1))
    assert place.holds(place.batch(0))


@pytest.mark.parametrize("large", [0, 4_000])
def test_many_records_keep_the_order_of_their_key(place: KafkaPlace, large: int) -> None:
    """Those that are many at once, and those that are too large for that."""
    rows: list[Message] = [
        {"key": b"u%d" % (n % 7), "value": b"%d" % n + b" " * large} for n in range(12_345)
    ]
    deliveries = Deliveries()
    producer = Producer({"bootstrap.servers": place.address})
    send_all(producer, place.target, rows, deliveries)
    assert producer.flush(30) == 0
    assert deliveries.failure is None
    found: dict[bytes, list[int]] = {}
    for message in place.read("read_uncommitted"):
        found.setdefault(message.key() or b"", []).append(int(message.value() or b""))
    assert found == {b"u%d" % key: list(range(key, 12_345, 7)) for key in range(7)}


def test_a_batch_that_was_staged_is_visible_when_it_is_written(place: KafkaPlace) -> None:
    batches = [place.batch(number) for number in range(3)]
    with closing(staging(place)) as writer:
        for number, batch in enumerate(batches):
            writer.stage(batch)
            assert place.holds(*batches[:number])
            assert not writer.write(batch).replayed
            assert place.holds(*batches[: number + 1])


def test_a_batch_that_grows_after_it_was_staged_is_written_as_it_became(place: KafkaPlace) -> None:
    # [3] What the position remembers is what was written in the end.
    grown = place.batch(1, sessions(1, country="grown"))
    with closing(staging(place)) as writer:
        writer.write(place.batch(0))
        writer.stage(place.batch(1))
        writer.write(grown)
    assert place.write(grown).replayed
    place.write(place.batch(2))
    assert place.holds(place.batch(0), grown, place.batch(2))


def test_a_batch_that_is_staged_and_never_written_leaves_nothing(place: KafkaPlace) -> None:
    # [4] As when another sink fails.
    place.write(place.batch(0))
    with closing(staging(place)) as writer:
        writer.stage(place.batch(1))
    assert not place.write(place.batch(1)).replayed
    assert place.holds(place.batch(0), place.batch(1))


def test_a_batch_that_comes_again_is_not_staged(place: KafkaPlace) -> None:
    # [3] What is staged may be less than what the sink holds, and must not be compared with it.
    grown = place.batch(0, sessions(0, country="grown"))
    place.write(grown)
    with closing(staging(place)) as writer:
        writer.stage(place.batch(0))
        assert writer.write(grown).replayed
        writer.write(place.batch(1))
    assert place.holds(grown, place.batch(1))


def test_a_batch_that_was_staged_for_long_is_sent_again(place: KafkaPlace) -> None:
    # The cluster may be about to end its transaction.
    with closing(staging(place)) as writer, patch("penstock.sinks.kafka._STAGED_FOR_S", 0.0):
        writer.stage(place.batch(0))
        assert not writer.write(place.batch(0)).replayed
        writer.write(place.batch(1))
    assert place.holds(place.batch(0), place.batch(1))


def test_a_writer_that_is_fenced_when_it_has_staged_writes_nothing(place: KafkaPlace) -> None:
    # [1]
    with closing(staging(place)) as old:
        old.stage(place.batch(0, sessions(0, country="zombie")))
        place.write(place.batch(0))
        with pytest.raises(Fenced, match="newer writer"):
            old.write(place.batch(0, sessions(0, country="zombie")))
    assert place.holds(place.batch(0))


def test_a_writer_that_was_closed_does_not_fence_the_next(place: KafkaPlace) -> None:
    # As after every error in another sink: closed while it prepares, and opened again at once.
    batches = [place.batch(number) for number in range(12)]
    for batch in batches:
        place.write(batch)
    assert place.holds(*batches)


def test_a_producer_is_used_for_one_transaction(place: KafkaPlace) -> None:
    # [1] A new one raises the epoch, which keeps out delayed requests of the one before.
    began: list[Producer] = []

    class Counted(Producer):
        def begin_transaction(self) -> None:
            began.append(self)
            super().begin_transaction()

    with patch("penstock.sinks.producer.Producer", Counted):
        place.write(*(place.batch(number) for number in range(4)))
    assert len({id(producer) for producer in began}) == len(began) == 4


def test_rows_that_cannot_be_encoded_leave_nothing_of_their_batch(place: KafkaPlace) -> None:
    # [4]
    def breaks(rows: pa.Table) -> Iterator[Message]:
        yield from json_rows("session_id")(rows)
        raise ValueError("broken")

    with closing(place.beside(encode=breaks)) as broken, pytest.raises(ValueError, match="broken"):
        broken.write(place.batch(0))
    assert not place.write(place.batch(0)).replayed
    assert place.holds(place.batch(0))


class AbortsInstead(Producer):
    """A transaction in which all is sent, rows and position, and which then ends the other way."""

    def commit_transaction(self, *_: object) -> None:
        self.flush(30)
        self.abort_transaction(30)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_an_aborted_transaction_leaves_neither_rows_nor_position(place: KafkaPlace) -> None:
    # [4]
    place.write(place.batch(0))
    with patch("penstock.sinks.producer.Producer", AbortsInstead), pytest.raises(SinkError):
        place.write(place.batch(1))
    assert len(place.read("read_uncommitted")) == place.batch(0).count + place.batch(1).count
    assert place.holds(place.batch(0))
    with pytest.raises(PositionLost, match="holds batch 0"):
        place.write(place.batch(2))
    assert not place.write(place.batch(1)).replayed


class CommitsUnheard(Producer):
    """A transaction that is committed, the answer to which never comes."""

    def commit_transaction(self, *_: object) -> None:
        super().commit_transaction(30)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_a_commit_of_which_the_outcome_is_unknown_fails_the_batch_which_is_then_found_there(
    place: KafkaPlace,
) -> None:
    # [4]
    with patch("penstock.sinks.producer.Producer", CommitsUnheard), pytest.raises(SinkError):
        place.write(place.batch(0))
    assert place.write(place.batch(0)).replayed
    assert place.holds(place.batch(0))


DIES_BEFORE_COMMIT = """
import os, signal, sys
from confluent_kafka import Producer
from penstock.sinks import producer
from tests.integration.places.kafka import KafkaPlace

class Dies(Producer):
    def commit_transaction(self, *_):
        self.flush(30)
        os.kill(os.getpid(), signal.SIGKILL)

producer.Producer = Dies
place = KafkaPlace(*sys.argv[1:])
place.write(place.batch(1))
"""


def test_a_writer_killed_before_its_commit_leaves_nothing_and_the_next_goes_on(place: KafkaPlace) -> None:
    # [4]
    place.write(place.batch(0))
    command = [sys.executable, "-c", DIES_BEFORE_COMMIT, place.address, place.target, place.query]
    died = subprocess.run(command, timeout=120, cwd=Path(__file__).parents[2], check=False)
    assert died.returncode == -signal.SIGKILL
    assert len(place.read("read_uncommitted")) == place.batch(0).count + place.batch(1).count
    assert place.holds(place.batch(0))
    # Its transaction is still open and would time out after two minutes; the next writer ends it.
    after = place.writer()
    assert not after.write(place.batch(1)).replayed
    after.write(place.batch(2))
    assert place.holds(place.batch(0), place.batch(1), place.batch(2))


def test_an_offset_that_was_set_by_hand_is_no_position(place: KafkaPlace) -> None:
    place.write(place.batch(0))
    admin = AdminClient({"bootstrap.servers": place.address})
    by_hand = ConsumerGroupTopicPartitions(place.group(), [TopicPartition(CONTROL_TOPIC, 0, 1)])
    admin.alter_consumer_group_offsets([by_hand])[place.group()].result()
    with pytest.raises(PositionLost, match="holds no position"):
        place.write(place.batch(1))


def too_large(rows: pa.Table) -> Iterator[Message]:
    yield from json_rows("session_id")(rows)
    yield {"key": b"u0", "value": bytes(3_000_000)}


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_record_too_large_for_the_topic_is_a_sink_error(place: KafkaPlace, exactly_once: bool) -> None:
    with closing(place.beside(encode=too_large, exactly_once=exactly_once)) as large:
        with pytest.raises(SinkError, match="too large"):
            large.write(place.batch(0))
        if exactly_once:
            assert large.rows() == []
            # Others' records are seen at once: no transaction is left open before them.
            with closing(place.beside(exactly_once=False)) as other:
                other.write(place.batch(0))
                assert len(other.rows()) == place.batch(0).count


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_topic_that_does_not_exist_is_a_sink_error(place: KafkaPlace, exactly_once: bool) -> None:
    place.target, place.exactly_once = f"missing-{uuid.uuid4()}", exactly_once
    with pytest.raises(SinkError, match=r"sink sessions: .*[Uu]nknown topic"):
        place.write(place.batch(0))


def test_without_the_topic_of_positions_nothing_is_written(place: KafkaPlace) -> None:
    missing = patch("penstock.sinks.kafka.CONTROL_TOPIC", f"missing-{uuid.uuid4()}")
    hurried = patch("penstock.sinks.producer.CALL_TIMEOUT_S", 5.0)
    with missing, hurried, pytest.raises(SinkError, match=r"[Uu]nknown topic"):
        place.write(place.batch(0))
    assert place.rows() == []
