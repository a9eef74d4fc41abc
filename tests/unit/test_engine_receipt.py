"""Receipts, and the rules a record is judged by."""

from __future__ import annotations

import json
from dataclasses import replace

from penstock.engine.cleanse import reason
from penstock.engine.receipt import Receipt, SinkReceipt
from penstock.paths import shipped
from penstock.spec import PipelineSpec, load

RECEIPT = Receipt(
    query="clickstream",
    batch=3,
    offsets={0: (10, 30), 11: (5, 5), 2: (0, 7)},
    decoded=25,
    rejected=2,
    late=1,
    opened=4,
    closed=3,
    corrected=2,
    merged=1,
    sinks=(
        SinkReceipt("sessions", 3, "00ff", replayed=False, write_ms=12.5, visible_at_ms=1_000),
        SinkReceipt("dead-letters", 3, "ff00", replayed=True, write_ms=1.0, visible_at_ms=1_001),
    ),
    started_at_ms=900,
    compute_ms=80.0,
    total_ms=101.5,
    latency_ms=((3, 20), (9, 5)),
)


def spec(**overrides: str) -> PipelineSpec:
    settings = {key.replace("__", "."): value for key, value in overrides.items()}
    return load(shipped("pipelines") / "clickstream.toml", environ={}, overrides=settings)


def test_a_receipt_comes_back_from_json_as_it_was() -> None:
    assert Receipt.from_json(json.loads(json.dumps(RECEIPT.to_json()))) == RECEIPT


def test_a_receipt_without_sinks_or_latency_comes_back_from_json() -> None:
    bare = replace(RECEIPT, sinks=(), latency_ms=(), offsets={})
    assert Receipt.from_json(json.loads(json.dumps(bare.to_json()))) == bare


def test_records_are_the_sum_over_partitions() -> None:
    assert RECEIPT.records == 20 + 0 + 7


def test_records_that_are_neither_decoded_nor_rejected_are_unaccounted_for() -> None:
    assert RECEIPT.unaccounted == 0  # late ones are among the decoded
    assert replace(RECEIPT, decoded=20).unaccounted == 5
    assert replace(RECEIPT, rejected=3).unaccounted == -1


def test_the_first_broken_rule_is_malformed_then_required_then_future_then_where() -> None:
    sql = reason(spec(cleanse__where="price >= 0"))
    rules = [
        "malformed: ",
        "required: event_id is missing",
        "required: user_id is missing",
        "required: ts is missing",
        "future: ts is ",
        "condition: where does not hold",
    ]
    places = [sql.index(rule) for rule in rules]
    assert places == sorted(places)
    assert sql.startswith("CASE WHEN ")
    assert sql.endswith(" END")
    assert sql.count("WHEN ") == len(rules)


def test_key_and_event_time_are_required_even_when_the_spec_does_not_say_so() -> None:
    ours = spec()
    bare = ours.model_copy(update={"cleanse": ours.cleanse.model_copy(update={"require": (), "where": None})})
    sql = reason(bare)
    assert "WHEN `user_id` IS NULL" in sql
    assert "WHEN `ts` IS NULL" in sql
    assert "event_id" not in sql
    assert "condition" not in sql


def test_a_condition_that_is_null_does_not_hold() -> None:
    assert "WHEN NOT coalesce((price >= 0 OR page = 'x'), false) THEN" in reason(
        spec(cleanse__where="price >= 0 OR page = 'x'")
    )


def test_the_future_is_bounded_by_the_brokers_clock_so_that_a_replay_agrees() -> None:
    sql = reason(spec(cleanse__future="7 seconds"))
    assert "WHEN `ts` > unix_millis(timestamp) + 7000 THEN" in sql
    assert "current_timestamp" not in sql
    assert "now()" not in sql
