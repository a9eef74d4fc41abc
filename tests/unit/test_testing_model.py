"""Records to events to rows in the model, and rows against rows in words."""

from __future__ import annotations

import math
from typing import Any

import pytest

from penstock.testing import (
    Cleanse,
    Model,
    Sessions,
    Topic,
    count,
    decode,
    differences,
    differences_by_batch,
)

GOOD: dict[str, Any] = {"user": "u", "ts": 1_000, "price": 1.5}
CLEANSE = Cleanse(
    key="user",
    event_time="ts",
    schema={"user": str, "ts": int, "price": float},
    set={"price": lambda v: None if v["price"] is None else v["price"] * 2},
    require=["price"],
    where={"cheap": lambda v: v["price"] < 100, "named": lambda v: v["user"] != "?"},
    future_ms=10,
    past_ms=1_000,
)


def test_a_topic_numbers_the_records_of_each_partition() -> None:
    topic = Topic(now_ms=5)
    records = [topic.record(b"a"), topic.record({"x": 1}, partition=1), topic.record(None, timestamp_ms=9)]
    assert [(r.value, r.partition, r.offset, r.timestamp_ms) for r in records] == [
        (b"a", 0, 0, 5),
        (b'{"x": 1}', 1, 0, 5),
        (None, 0, 1, 9),
    ]


@pytest.mark.parametrize(
    "value", [None, b"", b"{", b"[1]", b"1", b'{"a": NaN}', b"\xff", b'{"a": "1"}', b'{"a": true}']
)
def test_what_is_no_object_of_the_schema_is_malformed(value: bytes | None) -> None:
    assert decode(value, {"a": int}) is None


def test_a_good_object_decodes_with_a_whole_number_for_a_double_and_null_for_anything() -> None:
    assert decode(b'{"a": null, "b": 2, "c": []}', {"a": int, "b": float}) == {"a": None, "b": 2, "c": []}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"ts": "now"}, "malformed"),
        ({"price": None, "user": None}, "required: price"),
        ({"user": None}, "required: user"),
        ({"ts": None}, "required: ts"),
        ({"ts": 2_011}, "future"),
        ({"ts": 1_000}, None),
        ({"ts": 999}, "past"),
        ({"price": 50, "user": "?"}, "condition: cheap"),
        ({"user": "?"}, "condition: named"),
    ],
)
def test_a_record_is_rejected_by_the_first_rule_that_it_breaks(
    change: dict[str, Any], rule: str | None
) -> None:
    record = Topic(now_ms=2_000).record(GOOD | change, partition=3)
    good, rejected = CLEANSE.split([record])
    assert [r["reason"] for r in rejected] == ([rule] if rule else [])
    assert len(good) == (rule is None)
    assert all((r["partition"], r["offset"], r["raw"]) == (3, 0, record.value) for r in rejected)


def test_set_makes_columns_from_the_columns_as_they_came() -> None:
    swap = Cleanse("user", "ts", set={"user": lambda v: v["other"], "other": lambda v: v["user"]})
    [event], _ = swap.split([Topic().record({"user": 1, "other": 2, "ts": 0})])
    assert (event.key, event.values["other"]) == ("2", 1)


def test_the_model_of_a_pipeline_tells_of_every_record_and_goes_on_after_a_restart() -> None:
    topic = Topic()
    model = Model(Cleanse("user", "ts"), Sessions(10, 20, {"events": count()}), out_of_order_ms=3)
    first_run = [[topic.record({"user": "u", "ts": 10}), topic.record(b"{")]]
    second_run = [[topic.record({"user": "u", "ts": 40})]]
    rows = model.run(first_run, second_run)
    assert [[(r["kind"], r.get("session_id")) for r in batch] for batch in rows] == [
        [("rejected", None), ("live", "u@10")],
        [],
        [("live", "u@40")],
        [("final", "u@10")],
    ]


ROW = {"kind": "live", "session_id": "u@0", "version": 1, "sum": 0.3, "reason": None}
LATE = {"kind": "late", "partition": 0, "offset": 7, "reason": "late: 5 ms"}


def test_rows_agree_in_any_order_with_more_columns_longer_reasons_and_rounded_floats() -> None:
    came = [LATE | {"reason": "late: 5 ms behind", "raw": b""}, ROW | {"sum": 0.1 + 0.2}]
    assert differences([ROW, LATE], came) == []
    assert differences([ROW], [ROW | {"sum": 0.1 + 0.2}], relative=0.0)
    assert differences([ROW | {"sum": math.nan}], [ROW | {"sum": math.nan}]) == []


@pytest.mark.parametrize(
    ("came", "line"),
    [
        ([], "missing: live u@0 version 1"),
        ([ROW, ROW], "unexpected: live u@0 version 1"),
        ([ROW, LATE], "unexpected: late record 0/7"),
        ([ROW | {"kind": "final"}], "live u@0 version 1: kind is 'final', expected 'live'"),
        ([ROW | {"sum": 0.4}], "live u@0 version 1: sum is 0.4, expected 0.3"),
        ([ROW | {"sum": None}], "live u@0 version 1: sum is None, expected 0.3"),
        ([ROW | {"reason": "x"}], "live u@0 version 1: reason is 'x', expected None"),
    ],
)
def test_a_difference_is_said_in_one_line(came: list[dict[str, Any]], line: str) -> None:
    assert differences([ROW], came) == [line]


def test_a_row_in_another_batch_is_a_difference() -> None:
    assert differences_by_batch([[ROW], []], [[], [ROW]]) == [
        "batch 0: missing: live u@0 version 1",
        "batch 1: unexpected: live u@0 version 1",
    ]
    assert differences_by_batch([[ROW]], [[ROW], []]) == ["2 batches came, expected 1"]
