"""The rules on the topic that is read: a table of cases for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.preflight.facts import Away, Facts, JournalFacts, KafkaFacts, MissingTopic, Start, Unreadable
from penstock.preflight.judge import could_look, judge
from tests.unit.preflight_facts import (
    DAY_MS,
    FACTS,
    HOUR_MS,
    KAFKA,
    matters,
    only,
    respecified,
    told,
    topic,
    with_checkpoint,
    with_kafka,
    with_topic,
)

NO_TOPIC = {**KAFKA.topics, "clicks": MissingTopic("clicks")}
REFUSED_TOPIC = {**KAFKA.topics, "clicks": MissingTopic("clicks", "not authorized")}
CREATE = Start(create_topics=True)


def test_nothing_is_said_of_a_pipeline_with_which_all_is_well() -> None:
    assert told(FACTS) == []
    assert could_look(FACTS)
    assert judge(FACTS)


def test_a_cluster_that_does_not_answer_stops_a_start_and_hides_nothing_else() -> None:
    facts = replace(FACTS, kafka=Away("broker:9092", "connection refused"), disk_free_bytes=10_000_000)
    assert not could_look(facts)
    assert [(found.severity, found.about) for found in matters(facts)] == [
        ("error", "kafka"),
        ("error", "disk"),
    ]


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        (with_kafka(topics=NO_TOPIC), "is not there"),
        (
            replace(with_kafka(topics=REFUSED_TOPIC), start=CREATE),
            "is not there, and the cluster will not create it: not authorized",
        ),
        (with_topic("clicks", partitions=4), "has 4 partitions, the spec says 2"),
        (with_topic("clicks", partitions=1), "has 1 partition, the spec says 2"),
    ],
)
def test_a_topic_that_is_not_as_described_stops_a_start(facts: Facts, what: str) -> None:
    found = only(replace(facts, checkpoints=()))
    assert (found.severity, found.about, found.what) == ("error", "source clicks", what)
    assert found.fix


def test_a_start_that_creates_the_topic_does_not_miss_it() -> None:
    facts = replace(with_kafka(topics=NO_TOPIC, first={}, ends={}), start=CREATE, checkpoints=())
    assert told(facts) == []


def test_stamps_of_producers_are_a_risk_for_what_is_judged_by_them() -> None:
    found = only(
        with_topic("clicks", settings={"stamped_by_producer": True, "stamped_ahead_max_ms": HOUR_MS})
    )
    assert (found.severity, found.about) == ("warning", "source clicks")
    assert "cleanse.future = 5 minutes is judged" in found.why
    assert "(up to 1 hour of it)" in found.why
    assert "message.timestamp.type=LogAppendTime" in found.fix


def test_both_bounds_that_stamps_decide_on_are_named() -> None:
    facts = with_topic("clicks", settings={"stamped_by_producer": True})
    found = only(replace(facts, spec=respecified(cleanse={"past": "7 days"})))
    assert "cleanse.future = 5 minutes and cleanse.past = 7 days are judged" in found.why


def test_settings_that_cannot_be_read_are_said_to_be_unknown() -> None:
    hidden = {**KAFKA.topics, "clicks": replace(topic("clicks"), settings=Unreadable("not authorized"))}
    assert told(with_kafka(topics=hidden)) == [
        ("note", "source clicks", "its settings cannot be read: not authorized")
    ]


def test_a_compacted_source_is_a_risk() -> None:
    assert only(with_topic("clicks", settings={"compacted": True})).severity == "warning"


@pytest.mark.parametrize(
    ("next_", "where"),
    [
        ({0: 101, 1: 90}, "0 (next 101, end 100)"),
        ({0: 500, 1: 600}, "0 (next 500, end 100), 1 (next 600, end 100)"),
        ({0: 90, 1: 90, 2: 5}, "2 (next 5, end 0)"),
    ],
)
def test_offsets_beyond_the_end_say_that_the_topic_was_recreated(next_: dict[int, int], where: str) -> None:
    found = only(with_checkpoint(next=next_))
    assert found.stops
    assert found.what == f"visits has read beyond the end of partition {where}"


@pytest.mark.parametrize(
    ("first", "what"),
    [
        ({0: 91, 1: 0}, "1 record that visits has not read were deleted, of partition 0 (offsets 90 to 90)"),
        (
            {0: 95, 1: 100},
            "15 records that visits has not read were deleted, of partition 0 (offsets 90 to 94),"
            " 1 (offsets 90 to 99)",
        ),
    ],
)
def test_records_that_were_deleted_unread_are_counted(first: dict[int, int], what: str) -> None:
    found = only(with_kafka(first=first))
    assert found.stops
    assert found.what == what
    assert "--accept-loss" in found.fix


def test_records_that_were_deleted_unread_can_be_given_up() -> None:
    facts = with_kafka(first={0: 95, 1: 0})
    found = only(replace(facts, start=replace(facts.start, accept_loss=True)))
    assert (found.severity, found.stops) == ("warning", False)


@pytest.mark.parametrize(
    ("known", "seen", "recreated"), [("a", "b", True), ("a", "a", False), ("", "b", False), ("a", "", False)]
)
def test_a_topic_that_was_created_anew_has_another_id(known: str, seen: str, recreated: bool) -> None:
    facts = with_checkpoint(topic_id=known)
    assert isinstance(facts.kafka, KafkaFacts)
    # Offsets that would look gone are those of another topic.
    facts = replace(facts, kafka=replace(facts.kafka, source_id=seen, first={0: 0, 1: 0}))
    found = matters(facts)
    assert [finding.what.startswith("was deleted and created anew") for finding in found] == (
        [True] if recreated else []
    )
    assert all(finding.stops and "--set name=visits-2" in finding.fix for finding in found)


def test_a_partition_of_which_nobody_tells_the_end_is_not_judged() -> None:
    assert told(with_kafka(ends={0: 100})) == []


def test_records_that_were_read_before_they_were_deleted_are_no_matter() -> None:
    assert told(with_kafka(first={0: 90, 1: 90})) == []


def expiring(hour: dict[int, int], day: dict[int, int], **changes: Any) -> Facts:
    facts = with_topic("clicks", settings={"retention_ms": 7 * DAY_MS})
    assert not isinstance(facts.kafka, Away)
    return replace(facts, kafka=replace(facts.kafka, gone_in_an_hour=hour, gone_in_a_day=day), **changes)


@pytest.mark.parametrize(
    ("hour", "day", "severity", "what"),
    [
        (
            {0: 95, 1: 90},
            {0: 99, 1: 99},
            "error",
            "5 records that visits has not read may be deleted within the hour",
        ),
        (
            {0: 90, 1: 90},
            {0: 90, 1: 93},
            "warning",
            "3 records that visits has not read may be deleted within a day",
        ),
    ],
)
def test_records_that_are_about_to_be_deleted_are_counted(
    hour: dict[int, int], day: dict[int, int], severity: str, what: str
) -> None:
    found = only(expiring(hour, day))
    assert (found.severity, found.what) == (severity, what)
    assert "7 days" in found.why
    assert "retention.ms" in found.fix


def test_records_about_to_be_deleted_do_not_stop_the_start_that_saves_them() -> None:
    found = only(expiring({0: 95, 1: 90}, {0: 99, 1: 99}, journal=JournalFacts(capacity_eps=2.5)))
    assert not found.stops
    assert "in about 2 seconds at the 2/s last seen" in found.fix


def test_a_first_start_has_nothing_unread_to_lose() -> None:
    assert told(replace(expiring({0: 95, 1: 90}, {0: 99, 1: 99}), checkpoints=())) == []
    fresh = replace(FACTS, checkpoints=(), kafka=replace(KAFKA, first={0: 50, 1: 50}, ends={0: 60, 1: 60}))
    assert told(fresh) == []


@pytest.mark.parametrize(
    ("first", "eps", "severity"),
    [
        (60, 30 / 3_000, "error"),
        (60, 30 / 80_000, "warning"),
        (60, 30 / 90_000, None),
        (0, 30 / 3_000, None),  # nothing has been deleted yet
        (60, 0.0, None),  # nothing comes in
    ],
)
def test_a_topic_without_room_deletes_as_fast_as_records_come_in(
    first: int, eps: float, severity: str | None
) -> None:
    facts = with_topic("clicks", settings={"retention_bytes": 1_000_000})
    assert not isinstance(facts.kafka, Away)
    facts = replace(
        facts,
        kafka=replace(facts.kafka, first={0: first, 1: first}),
        journal=JournalFacts(added_eps={0: eps, 1: 0.0}),
    )
    assert [found.severity for found in matters(facts)] == ([severity] if severity else [])
    assert not any(found.stops for found in matters(facts))


@given(
    st.dictionaries(st.integers(0, 3), st.integers(0, 50), min_size=1),
    st.dictionaries(st.integers(0, 3), st.integers(0, 50)),
    st.dictionaries(st.integers(0, 3), st.integers(0, 50)),
)
def test_offsets_are_right_exactly_when_they_lie_between_the_first_and_the_end(
    next_: dict[int, int], first: dict[int, int], sizes: dict[int, int]
) -> None:
    first = {p: first.get(p, 0) for p in range(4)}
    ends = {p: first[p] + sizes.get(p, 0) for p in range(4)}
    facts = with_checkpoint(next=next_)
    facts = replace(facts, kafka=replace(KAFKA, first=first, ends=ends))
    is_right = all(first[p] <= at <= ends[p] for p, at in next_.items())
    assert (told(facts) == []) == is_right
