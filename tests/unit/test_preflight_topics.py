"""The rules on topics that must keep what they acknowledged, and on transactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.preflight.facts import Facts, JournalFacts, MissingTopic, SinkCost, Unreadable
from penstock.sinks.kafka import TRANSACTION_TIMEOUT_MS
from tests.unit.preflight_facts import (
    DAY_MS,
    FACTS,
    KAFKA,
    matters,
    only,
    respecified,
    told,
    topic,
    with_kafka,
    with_topic,
)

EACH = {
    "clicks": "source",
    "sessions": "sink sessions",
    "penstock-positions": "positions",
    "__consumer_offsets": "positions",
    "__transaction_state": "positions",
}
ONLY_AT_LEAST_ONCE = respecified(
    sink=[{"kind": "kafka", "topic": "sessions", "guarantee": "at_least_once"}],
)


def at_least_once(facts: Facts) -> Facts:
    return replace(facts, spec=ONLY_AT_LEAST_ONCE, clickhouse=None, postgres=None)


@pytest.mark.parametrize("name", EACH)
def test_one_replica_on_several_brokers_is_a_risk(name: str) -> None:
    facts = with_topic(name, replicas=1, in_sync=1)
    # min.insync.replicas of 2 cannot be had with one replica: that is told of too.
    warning, error = matters(facts)
    assert (warning.severity, warning.about) == ("warning", EACH[name])
    assert warning.what == f"topic {name} has one replica on a cluster of 3 brokers"
    assert error.what == f"topic {name} wants min.insync.replicas = 2 and has 1 replica"
    assert error.stops


def test_one_replica_on_one_broker_is_all_there_can_be() -> None:
    alone = {name: topic(name, replicas=1, in_sync=1, settings={"min_in_sync": 1}) for name in KAFKA.topics}
    assert told(with_kafka(brokers=1, topics=alone)) == []


def in_sync(name: str, least: int, **changes: Any) -> Facts:
    return with_topic(name, settings={"min_in_sync": least}, **changes)


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize(
    ("least", "changes", "severity", "what"),
    [
        (1, {}, "warning", "has 3 replicas, and min.insync.replicas = 1"),
        (2, {"in_sync": 1}, "warning", "has 1 replica in sync, and min.insync.replicas = 2"),
        (3, {"in_sync": 2}, "warning", "has 2 replicas in sync, and min.insync.replicas = 3"),
        (4, {}, "error", "wants min.insync.replicas = 4 and has 3 replicas"),
    ],
)
def test_what_is_acknowledged_must_be_on_two_brokers(
    name: str, least: int, changes: dict[str, int], severity: str, what: str
) -> None:
    found = only(in_sync(name, least, **changes))
    assert (found.severity, found.about, found.what) == (severity, EACH[name], f"topic {name} {what}")


def test_without_a_promise_one_broker_is_enough() -> None:
    assert told(at_least_once(in_sync("sessions", 1))) == []


def test_a_partition_without_a_leader_is_told_of_once() -> None:
    found = only(with_topic("sessions", in_sync=0, leaderless=1))
    assert (found.severity, found.what) == ("warning", "1 partition of topic sessions without a leader")


@pytest.mark.parametrize("name", EACH)
def test_a_leader_that_lags_breaks_exactly_once(name: str) -> None:
    facts = with_topic(name, settings={"unclean_election": True})
    found = only(facts)
    assert found.stops
    assert found.what == f"topic {name} has unclean.leader.election.enable = true"
    assert f"--topic {name} --add-config unclean.leader.election.enable=false" in found.fix
    assert told(at_least_once(facts)) == []


def test_results_told_apart_by_more_than_their_key_must_not_be_compacted() -> None:
    found = only(with_topic("sessions", settings={"compacted": True}))
    assert (found.severity, found.about) == ("warning", "sink sessions")
    assert "keyed by user" in found.why


@pytest.mark.parametrize(
    ("name", "about"),
    [("sessions", "sink sessions"), ("penstock-positions", "positions"), ("visits-clock", "clock")],
)
def test_a_topic_that_cannot_be_created_stops_a_start(name: str, about: str) -> None:
    refused = with_kafka(topics={**KAFKA.topics, name: MissingTopic(name, "policy")})
    assert told(refused) == [
        ("error", about, f"topic {name} is not there, and the cluster will not create it: policy")
    ]
    assert told(with_kafka(topics={**KAFKA.topics, name: MissingTopic(name)})) == []


def test_a_topic_whose_settings_are_hidden_is_not_judged_by_them() -> None:
    hidden = {name: replace(topic(name), settings=Unreadable("no")) for name in KAFKA.topics}
    assert [found.severity for found in matters(with_kafka(topics=hidden))] == ["note"]


@pytest.mark.parametrize(
    ("allowed_ms", "stops"),
    [(TRANSACTION_TIMEOUT_MS - 1, True), (TRANSACTION_TIMEOUT_MS, False), (None, False)],
)
def test_the_cluster_must_allow_the_timeout_of_transactions(allowed_ms: int | None, stops: bool) -> None:
    facts = with_kafka(transaction_timeout_max_ms=allowed_ms)
    assert [found.stops for found in matters(facts)] == ([True] if stops else [])
    assert told(at_least_once(facts)) == []


@pytest.mark.parametrize(
    ("longest_ms", "is_told"), [(TRANSACTION_TIMEOUT_MS / 2, False), (TRANSACTION_TIMEOUT_MS / 2 + 1, True)]
)
def test_a_write_that_takes_half_the_timeout_is_a_risk(longest_ms: float, is_told: bool) -> None:
    costs = {"sessions": SinkCost(10, 5.0, 0.1, longest_ms), "table": SinkCost(10, 5.0, 0.1, 1e9)}
    found = matters(replace(FACTS, journal=JournalFacts(costs=costs)))
    assert [(one.severity, one.about) for one in found] == ([("warning", "sink sessions")] if is_told else [])


@pytest.mark.parametrize(
    ("kept_ms", "what"),
    [
        (7 * DAY_MS, "the cluster forgets them 7 days after the last batch (offsets.retention.minutes)"),
        (30 * DAY_MS, None),
        (None, None),
    ],
)
def test_positions_that_a_cluster_forgets_are_told_of_with_the_days(
    kept_ms: int | None, what: str | None
) -> None:
    facts = with_kafka(offsets_retention_ms=kept_ms)
    assert told(facts) == ([("warning", "positions", what)] if what else [])
    assert told(at_least_once(facts)) == []


@pytest.mark.parametrize(
    ("readers", "left_out", "what"),
    [
        (("billing", "report"), 0, "topic sessions is read by billing, report"),
        (("billing",), 3, "topic sessions is read by billing; 3 groups more were not looked at"),
        ((), 1, "topic sessions is read by no group that was looked at; 1 group more were not looked at"),
    ],
)
def test_the_readers_of_what_is_written_once_are_named(
    readers: tuple[str, ...], left_out: int, what: str
) -> None:
    facts = with_kafka(readers={"sessions": readers}, groups_left_out=left_out)
    assert told(facts) == [("note", "sink sessions", what)]
    assert "read_committed" in only(facts).fix
    assert told(at_least_once(facts)) == []
