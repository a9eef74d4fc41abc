"""Dead letters on a real broker: listed, shown, and replayed once, whatever happens on the way."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import click
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from typer.testing import CliRunner

from penstock.cli import app
from penstock.deadletters.originals import REPLAYED_HEADER
from penstock.local.services import Addresses
from tests.integration.letters import (
    NEGATIVE,
    PARTITIONS,
    Place,
    events,
    headers,
    new_place,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def place(services: Addresses, tmp_path: Path) -> Place:
    return new_place(services, tmp_path)


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
    before_ms = max(letter.at_ms for letter in place.letters())
    time.sleep(2.1)
    place.set_aside(records[7:])
    assert max(letter.at_ms for letter in place.letters()) > before_ms + 2_000
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
    # What the controller has done, the broker knows a moment later: else the old topic is taken for the new.
    while place.source in admin.list_topics(timeout=30).topics:
        time.sleep(0.05)
    small = NewTopic(place.source, PARTITIONS, config={"max.message.bytes": "2500"})
    for created in admin.create_topics([small], operation_timeout=30).values():
        created.result()
    while not _has_leaders(admin, place.source):
        time.sleep(0.05)
    outcome = place.run_json("replay", "--yes", status=1)
    assert (outcome["replayed"], outcome["failed"], outcome["already_replayed"]) == (60, 1, 0)
    assert "too large" in outcome["problems"][0]
    assert Counter(m.value() for m in place.replayed()) == Counter([*events(30), *events(30, start=30)])


def _has_leaders(admin: AdminClient, topic: str) -> bool:
    known = admin.list_topics(timeout=30).topics.get(topic)
    return known is not None and [p.leader >= 0 for p in known.partitions.values()] == [True] * PARTITIONS
