"""Rows as messages, and columns as ClickHouse types."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sinks.chcolumns import column_type
from penstock.sinks.encode import dead_letters, json_rows
from penstock.sinks.jsontext import rows_json, value_json

SESSIONS = pa.table(
    {
        "session_id": ["u1@10", "u2@20"],
        "user_id": ["u1", "ü2"],
        "events": [3, 1],
        "revenue": [1.5, None],
        "batch": [7, 7],
    }
)


def dead(raw: list[bytes | None], reason: str = "malformed: eof") -> pa.Table:
    size = len(raw)
    return pa.table(
        {
            "kind": ["rejected"] * size,
            "reason": [reason] * size,
            "partition": pa.array([3] * size, pa.int32()),
            "offset": list(range(40, 40 + size)),
            "raw": pa.array(raw, pa.binary()),
            "query": ["clickstream"] * size,
            "batch": [7] * size,
        }
    )


def test_a_row_is_one_json_object_keyed_by_its_column() -> None:
    messages = list(json_rows("user_id")(SESSIONS))
    assert [message["key"] for message in messages] == [b"u1", "ü2".encode()]
    assert [json.loads(message["value"] or b"") for message in messages] == SESSIONS.to_pylist()
    assert all(message.keys() == {"key", "value"} for message in messages)


def test_json_rows_keep_their_order_and_have_no_spaces_or_newlines() -> None:
    first, second = json_rows("session_id")(SESSIONS)
    assert (first["key"], second["key"]) == (b"u1@10", b"u2@20")
    assert b" " not in (first["value"] or b"")
    assert b"\n" not in (first["value"] or b"")


def test_a_key_that_is_a_number_is_written_as_text() -> None:
    assert [message["key"] for message in json_rows("events")(SESSIONS)] == [b"3", b"1"]


def test_rows_of_every_type_become_json() -> None:
    rows = pa.table(
        {
            "id": ["a"],
            "amount": pa.array([Decimal("12.30")]),
            "at": pa.array([datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "day": pa.array([date(2026, 1, 2)]),
            "raw": pa.array([b"\x00\xff"]),
            "ratio": [float("nan")],
            "tags": pa.array([[("k", "v")]], pa.map_(pa.string(), pa.string())),
            "items": [[{"qty": 2}]],
        }
    )
    [message] = json_rows("id")(rows)
    assert message["key"] == b"a"
    assert json.loads(message["value"] or b"", parse_constant=None) == {
        "id": "a",
        "amount": "12.30",
        "at": "2026-01-02 03:04:05+00:00",
        "day": "2026-01-02",
        "raw": "00ff",
        "ratio": "nan",
        "tags": {"k": "v"},
        "items": [{"qty": 2}],
    }


COLUMNS = (
    (pa.string(), st.text()),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
    (pa.list_(pa.string()), st.lists(st.text(), max_size=3)),
)


@given(st.data(), st.integers(1, 5), st.lists(st.text(), min_size=1, max_size=4, unique=True))
def test_rows_are_the_same_json_column_by_column_as_one_by_one(
    data: st.DataObject, size: int, names: list[str]
) -> None:
    columns = {}
    for name in names:
        type_, values = data.draw(st.sampled_from(COLUMNS))
        drawn = data.draw(st.lists(st.none() | values, min_size=size, max_size=size))
        columns[name] = pa.array(drawn, type_)
    rows = pa.table(columns)
    one_by_one = [{name: json.loads(value_json(row[name])) for name in names} for row in rows.to_pylist()]
    assert [json.loads(text) for text in rows_json(rows)] == one_by_one


def test_no_rows_are_no_messages() -> None:
    assert list(json_rows("user_id")(SESSIONS.slice(0, 0))) == []
    assert list(dead_letters("clicks")(dead([]))) == []


@pytest.mark.parametrize("raw", [b'{"half":', b"\x00\xff\xfe", b"", None])
def test_a_dead_letter_keeps_the_bytes_as_they_came(raw: bytes | None) -> None:
    [message] = dead_letters("clicks")(dead([raw]))
    assert message["value"] == raw


def test_the_headers_of_a_dead_letter_say_why_and_where_it_stood() -> None:
    [_, second] = dead_letters("clicks")(dead([b"a", b"b"], reason="required: ümlaut is missing"))
    assert dict(second["headers"]) == {
        "penstock.kind": b"rejected",
        "penstock.reason": "required: ümlaut is missing".encode(),
        "penstock.topic": b"clicks",
        "penstock.partition": b"3",
        "penstock.offset": b"41",
        "penstock.query": b"clickstream",
        "penstock.batch": b"7",
    }


def test_dead_letters_of_one_batch_have_different_keys() -> None:
    messages = list(dead_letters("clicks")(dead([b"same", b"same"])))
    assert [message["key"] for message in messages] == [b"3:40", b"3:41"]


@pytest.mark.parametrize(
    ("field", "type_"),
    [
        (pa.field("x", pa.string(), nullable=False), "String"),
        (pa.field("x", pa.string()), "Nullable(String)"),
        (pa.field("x", pa.int64(), nullable=False), "Int64"),
        (pa.field("x", pa.int32(), nullable=False), "Int32"),
        (pa.field("x", pa.float64()), "Nullable(Float64)"),
        (pa.field("x", pa.bool_()), "Nullable(Bool)"),
        (pa.field("x", pa.binary()), "Nullable(String)"),
    ],
)
def test_a_column_gets_the_clickhouse_type_that_holds_it(field: pa.Field, type_: str) -> None:
    assert column_type(field) == type_
