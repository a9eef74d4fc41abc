"""The kernel's decoder: agrees with from_json on what is right, and names what is wrong and where."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

pytestmark = pytest.mark.integration

DDL = "s string, l bigint, i int, d double, f float, b boolean"
GOOD = b'{"s":"x","l":1,"i":2,"d":3.5,"f":4.5,"b":true}'


def decode(spark: SparkSession, values: Sequence[bytes | None]) -> list[Row]:
    spark._jvm.penstock.kernel.Functions.decode("test", DDL)  # type: ignore[union-attr]
    frame = spark.createDataFrame([(i, v) for i, v in enumerate(values)], "n int, value binary").coalesce(1)
    rows = frame.select("n", F.expr("penstock.decode.test(value)").alias("r")).select("n", "r.*").collect()
    return sorted(rows, key=lambda row: row["n"])


def from_json(spark: SparkSession, values: list[bytes]) -> list[Row]:
    frame = spark.createDataFrame([(i, v) for i, v in enumerate(values)], "n int, value binary").coalesce(1)
    decoded = F.from_json(F.col("value").cast("string"), DDL).alias("r")
    return sorted(frame.select("n", decoded).select("n", "r.*").collect(), key=lambda row: row["n"])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "empty record"),
        (b"", "empty record, at byte 0"),
        (b"   ", "ends too early, at byte 3"),
        (b"nonsense", "expected '{', got null, at byte 0"),
        (b"[1]", "expected '{', got array, at byte 0"),
        (b'{"l":"1"}', "l: expected bigint, got string, at byte 5"),
        (b'{"s":1}', "s: expected string, got number, at byte 5"),
        (b'{"b":"true"}', "b: expected boolean, got string, at byte 5"),
        (b'{"d":{}}', "d: expected double, got object, at byte 5"),
        (b'{"l":1.5}', "expected a whole number, got a fraction, at byte 5"),
        (b'{"l":9223372036854775808}', "number too large for a long, at byte 5"),
        (b'{"i":2147483648}', "i: number too large for an int, at byte 5"),
        (b'{"l":01}', "number with a leading zero, at byte 5"),
        (b'{"l":-}', "expected a number, at byte 5"),
        (b'{"d":1.}', "expected digits after the point, at byte 7"),
        (b'{"d":1e}', "expected digits in the exponent, at byte 7"),
        (b'{"s":"a\nb"}', "control character in a string, at byte 7"),
        (b'{"s":"\\x"}', "unknown escape 'x', at byte 6"),
        (b'{"s":"\\ud800"}', "lone surrogate in an escape, at byte 6"),
        (b'{"s":"\\u12g4"}', "expected four hex digits, at byte 10"),
        (b'{"s":"\xff"}', "not UTF-8, at byte 6"),
        (b'{"s":"\xc0\xaf"}', "not UTF-8, at byte 6"),
        (b'{"s":"\xed\xa0\x80"}', "not UTF-8, at byte 6"),
        (b'{"s":"\xe2\x82"}', "not UTF-8, at byte 6"),
        (GOOD + b"}", f"bytes after the end, at byte {len(GOOD)}"),
        (b'{"s":"x",}', "expected '\"', got '}', at byte 9"),
        (b'{"x":' + b"[" * 100 + b"]" * 100 + b"}", "nested deeper than 64, at byte 69"),
    ],
)
def test_a_record_that_is_wrong_is_named_with_its_place(
    spark: SparkSession, value: bytes | None, reason: str
) -> None:
    [row] = decode(spark, [value])
    assert row["_error"] == reason
    assert all(row[name] is None for name in "slidfb")


def test_a_record_cut_off_at_any_byte_is_rejected(spark: SparkSession) -> None:
    record = '{"s":"é\\u00e9\\n","l":-12,"x":[{"y":null},1.5e3,false],"d":0.25}'.encode()
    *cut, whole = decode(spark, [record[:end] for end in range(len(record) + 1)])
    assert [row["n"] for row in cut if row["_error"] is None] == []
    assert (whole["_error"], whole["s"], whole["l"], whole["d"]) == (None, "éé\n", -12, 0.25)


def test_limits_escapes_and_repeated_keys_decode_to_their_values(spark: SparkSession) -> None:
    rows = decode(
        spark,
        [
            b' { "l" : -9223372036854775808 , "i":-2147483648, "d":1e400 } ',
            b'{"s":"\\ud83d\\ude00 \\"\\\\\\/\\b\\f\\r\\t","s\\u0078":1}',
            b'{"s":"first","s":"last","\\u006c":7}',
            b'{"d":0.1,"f":16777217}',
            b'{"s":null,"unknown":{"s":"inner"}}',
            b"{}",
        ],
    )
    assert [row["_error"] for row in rows] == [None] * 6
    assert (rows[0]["l"], rows[0]["i"], rows[0]["d"]) == (-(2**63), -(2**31), float("inf"))
    assert rows[1]["s"] == '\U0001f600 "\\/\b\f\r\t'
    assert (rows[2]["s"], rows[2]["l"]) == ("last", 7)
    assert (rows[3]["d"], rows[3]["f"]) == (0.1, 16777216.0)
    assert rows[4]["s"] is None
    assert rows[5]["s"] is None


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_values = {
    "s": _text,
    "l": st.integers(-(2**63), 2**63 - 1),
    "i": st.integers(-(2**31), 2**31 - 1),
    "d": st.floats(allow_nan=False, allow_infinity=False),
    "f": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "b": st.booleans(),
}
_anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
)
_unknown = st.dictionaries(_text.filter(lambda name: name not in _values), _anything, max_size=2)
_known = st.fixed_dictionaries({}, optional={name: st.none() | value for name, value in _values.items()})


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(_known, _unknown, st.booleans(), st.sampled_from([None, 1])), min_size=40, max_size=60)
)
def test_well_formed_records_decode_as_from_json_does(
    spark: SparkSession, records: list[tuple[dict[str, Any], dict[str, Any], bool, int | None]]
) -> None:
    values = [
        json.dumps({**known, **unknown}, ensure_ascii=ascii_only, indent=indent).encode()
        for known, unknown, ascii_only, indent in records
    ]
    ours, theirs = decode(spark, values), from_json(spark, values)
    for value, mine, other in zip(values, ours, theirs, strict=True):
        assert mine["_error"] is None, value
        assert [mine[name] for name in "slidfb"] == [other[name] for name in "slidfb"], value


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=30) | st.text(max_size=20).map(str.encode), min_size=100, max_size=100))
def test_arbitrary_bytes_never_raise_and_are_only_accepted_where_python_accepts_them(
    spark: SparkSession, values: list[bytes]
) -> None:
    for value, row in zip(values, decode(spark, values), strict=True):
        if row["_error"] is None:
            assert isinstance(json.loads(value), dict)
