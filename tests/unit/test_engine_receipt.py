"""Receipts, and the rules a record is judged by."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.engine.cleanse import TS, reason
from penstock.engine.decode import ERROR
from penstock.engine.receipt import Receipt, SinkReceipt
from penstock.paths import shipped
from penstock.spec import PipelineSpec, Tier, load
from penstock.spec.sql import columns_of

RECEIPT = Receipt(
    query="clickstream",
    batch=3,
    offsets={0: (10, 30), 11: (5, 5), 2: (0, 7)},
    decoded=25,
    rejected=2,
    late=1,
    duplicates=2,
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
    assert RECEIPT.unaccounted == 0  # late ones and duplicates are among the decoded
    assert replace(RECEIPT, decoded=20).unaccounted == 5
    assert replace(RECEIPT, rejected=3).unaccounted == -1


def test_the_first_broken_rule_is_malformed_then_required_then_the_time_then_where_in_its_order() -> None:
    sql = reason(spec(cleanse__past="7 days", cleanse__where__cheap="price < 9"))
    rules = [
        "malformed: ",
        "required: event_id is missing",
        "required: user_id is missing",
        "required: ts is missing",
        "future: ts is ",
        "past: ts is ",
        "condition: known_type does not hold",
        "condition: price_not_negative does not hold",
        "condition: cheap does not hold",
    ]
    places = [sql.index(rule) for rule in rules]
    assert places == sorted(places)
    assert sql.startswith("CASE WHEN ")
    assert sql.endswith(" END")
    assert sql.count("WHEN ") == len(rules)


def test_key_and_event_time_are_required_even_when_the_spec_does_not_say_so() -> None:
    ours = spec()
    bare = ours.model_copy(update={"cleanse": ours.cleanse.model_copy(update={"require": (), "where": {}})})
    sql = reason(bare)
    assert "WHEN `user_id` IS NULL" in sql
    assert "WHEN `ts` IS NULL" in sql
    assert "event_id" not in sql
    assert "condition" not in sql


def test_a_condition_that_is_null_does_not_hold() -> None:
    assert "WHEN NOT coalesce((price >= 0 OR page = 'x'), false) THEN" in reason(
        spec(cleanse__where__price_not_negative="price >= 0 OR page = 'x'")
    )


def test_the_future_is_bounded_by_the_brokers_clock_so_that_a_replay_agrees() -> None:
    sql = reason(spec(cleanse__future="7 seconds"))
    assert f"WHEN {TS} > unix_millis(_timestamp) + 7000 THEN" in sql
    assert "past:" not in sql  # unbounded unless the spec says so
    assert "current_timestamp" not in sql
    assert "now()" not in sql


def test_the_past_is_bounded_by_the_brokers_clock_too() -> None:
    assert f"WHEN {TS} < unix_millis(_timestamp) - 604800000 THEN" in reason(spec(cleanse__past="7 days"))


@pytest.mark.parametrize("tier", ["groups", "events"])
@pytest.mark.parametrize("key", ["user_id", "producer", "brand"])
def test_a_record_is_judged_by_columns_that_the_tier_reads(tier: Tier, key: str) -> None:
    given = spec(sessions__key=key).model_dump(by_alias=True)
    given["sink"][0].update({"rows": ("events",), "key": "event_id", "columns": ("event_id",)})
    ours = PipelineSpec(**given)
    engine = {ERROR, TS, "_timestamp"}
    assert set(columns_of(reason(ours))) <= ours.used_columns(tier) | engine


def test_a_pipeline_without_sessions_requires_the_time_only() -> None:
    ours = spec()
    cleanse = ours.cleanse.model_copy(update={"require": ()})
    sql = reason(ours.model_copy(update={"cleanse": cleanse, "sessions": None}))
    assert "WHEN `ts` IS NULL" in sql
    assert "user_id" not in sql
