"""The kernel's decoder: it names what is wrong and where, keeps its limits, and never raises."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

pytestmark = pytest.mark.integration

DDL = "s string, l bigint, i int, d double, f float, b boolean"
GOOD = b'{"s":"x","l":1,"i":2,"d":3.5,"f":4.5,"b":true}'


def decode(
    spark: SparkSession,
    values: Sequence[bytes | None],
    ddl: str = DDL,
    epoch: str = "ms",
    passed: Sequence[str] = (),
) -> list[Row]:
    functions = spark._jvm.penstock.kernel.Functions  # type: ignore[union-attr]
    functions.decode("test", ddl, list(passed), epoch)
    frame = spark.createDataFrame([(i, v) for i, v in enumerate(values)], "n int, value binary").coalesce(1)
    rows = frame.select("n", F.expr("penstock.decode.test(value)").alias("r")).select("n", "r.*").collect()
    return sorted(rows, key=lambda row: row["n"])


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
        (b'{"l":1.5}', "l: expected a whole number, got a fraction, at byte 5"),
        (b'{"l":9223372036854775808}', "l: 9223372036854775808 does not fit bigint, at byte 5"),
        (b'{"i":2147483648}', "i: 2147483648 does not fit int, at byte 5"),
        (b'{"l":01}', "l: number with a leading zero, at byte 5"),
        (b'{"l":-}', "l: expected a number, at byte 5"),
        (b'{"d":1.}', "d: expected digits after the point, at byte 7"),
        (b'{"d":1e}', "d: expected digits in the exponent, at byte 7"),
        (b'{"s":"a\nb"}', "s: control character in a string, at byte 7"),
        (b'{"s":"\\x"}', "s: unknown escape 'x', at byte 6"),
        (b'{"s":"\\ud800"}', "s: lone surrogate in an escape, at byte 6"),
        (b'{"s":"\\u12g4"}', "s: expected four hex digits, at byte 10"),
        (b'{"s":"\xff"}', "s: not UTF-8, at byte 6"),
        (b'{"s":"\xc0\xaf"}', "s: not UTF-8, at byte 6"),
        (b'{"s":"\xed\xa0\x80"}', "s: not UTF-8, at byte 6"),
        (b'{"s":"\xe2\x82"}', "s: not UTF-8, at byte 6"),
        (GOOD + b"}", f"bytes after the end, at byte {len(GOOD)}"),
        (b'{"s":"x",}', "expected '\"', got '}', at byte 9"),
        (b'{"x":' + b"[" * 100 + b"]" * 100 + b"}", "nested deeper than 64, at byte 68"),
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
            b' { "l" : -9223372036854775808 , "i":-2147483648, "d":1e-400 } ',
            b'{"s":"\\ud83d\\ude00 \\"\\\\\\/\\b\\f\\r\\t","s\\u0078":1}',
            b'{"s":"first","s":"last","\\u006c":7}',
            b'{"d":0.1,"f":16777217}',
            b'{"s":null,"unknown":{"s":"inner"}}',
            b"{}",
        ],
    )
    assert [row["_error"] for row in rows] == [None] * 6
    assert (rows[0]["l"], rows[0]["i"], rows[0]["d"]) == (-(2**63), -(2**31), 0.0)
    assert rows[1]["s"] == '\U0001f600 "\\/\b\f\r\t'
    assert (rows[2]["s"], rows[2]["l"]) == ("last", 7)
    assert (rows[3]["d"], rows[3]["f"]) == (0.1, 16777216.0)
    assert rows[4]["s"] is None
    assert rows[5]["s"] is None


NESTED = (
    "payment struct<amount decimal(12,2), at timestamp>, items array<struct<qty int>>, tags map<string,int>"
)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (
            b'{"payment":{"amount":"1.00"}}',
            "payment.amount: expected decimal(12,2), got string, at byte 21",
        ),
        (b'{"payment":{"amount":1.005}}', "payment.amount: 1.005 does not fit decimal(12,2), at byte 21"),
        (b'{"payment":{"at":"12:00"}}', "payment.at: expected a time in ISO 8601, at byte 17"),
        (b'{"payment":{"at":1,"x":[1,}}', "payment: expected a value, got '}', at byte 26"),
        (b'{"payment":[]}', "payment: expected struct, got array, at byte 11"),
        (
            b'{"items":[{"qty":1},null,{},{"qty":1.5}]}',
            "items[3].qty: expected a whole number, got a fraction, at byte 35",
        ),
        (b'{"items":[1]}', "items[0]: expected struct, got number, at byte 10"),
        (b'{"items":[{"qty":1]}', "items[0]: expected '}', got ']', at byte 18"),
        (b'{"tags":{"a":1,"\\u0078":"1"}}', "tags['x']: expected int, got string, at byte 24"),
        (
            b'{"tags":{"' + b"k" * 99 + b'":true}}',
            f"tags['{'k' * 37}...']: expected int, got boolean, at byte 111",
        ),
        (b'{"tags":{"n":' + b"9" * 99 + b"}}", f"tags['n']: {'9' * 37}... does not fit int, at byte 13"),
        (b'{"tags":' + b"{" * 99, "tags: expected '\"', got object, at byte 9"),
        (b'{"x":' + b'{"x":' * 99, "nested deeper than 64, at byte 320"),
    ],
)
def test_a_wrong_value_inside_others_is_named_with_its_path(
    spark: SparkSession, value: bytes, reason: str
) -> None:
    [row] = decode(spark, [value], NESTED)
    assert row["_error"] == reason
    assert (row["payment"], row["items"], row["tags"]) == (None, None, None)


@pytest.mark.parametrize(
    ("epoch", "number", "seconds"),
    [
        ("ms", "1700000000123", "1700000000.123"),
        ("ms", "1700000000123.4567", "1700000000.123456"),
        ("ms", "1.7e12", "1700000000"),
        ("ms", "-1", "-0.001"),
        ("s", "1700000000", "1700000000"),
        ("s", "1700000000.1234567890123456789012345", "1700000000.123456"),
        ("s", "0.0000009", "0"),
        ("s", "1e-999999999", "0"),
    ],
)
def test_a_number_counts_the_time_in_the_unit_of_the_source(
    spark: SparkSession, epoch: str, number: str, seconds: str
) -> None:
    [row] = decode(spark, [f'{{"at":{number}}}'.encode()], "at timestamp", epoch)
    assert row["_error"] is None
    assert row["at"] == datetime.fromtimestamp(0) + timedelta(microseconds=int(Decimal(seconds) * 10**6))


@pytest.mark.parametrize(
    ("epoch", "number"),
    [("s", "1700000000000"), ("ms", "253402300800000"), ("s", "1e99999999"), ("s", "-1e11")],
)
def test_a_number_of_another_unit_is_found_by_its_year(spark: SparkSession, epoch: str, number: str) -> None:
    [row] = decode(spark, [f'{{"at":{number}}}'.encode()], "at timestamp", epoch)
    year = f"as {epoch} since 1970 it is in no year from 1 to 9999"
    assert row["_error"] == f"at: {number} does not fit timestamp: {year}, at byte 6"


def test_numbers_of_a_million_digits_and_huge_exponents_are_judged_at_once(spark: SparkSession) -> None:
    """BigDecimal, which from_json uses, multiplies such exponents out."""
    digits = b"1" + b"0" * 1_000_000
    numbers = [digits + b"e-1000000", b"0e99999999", digits, b"12e99999999", b"12e-99999999"]
    for type_ in ("decimal(38,10)", "decimal(10,2)", "timestamp", "double", "float", "bigint"):
        one, zero, *others = decode(
            spark, [b'{"x":' + number + b"}" for number in numbers], f"x {type_}", "s"
        )
        assert all(len(row["_error"]) < 150 for row in (one, zero, *others) if row["_error"])
        assert all(row["_error"] for row in others[:2])
        if type_ == "timestamp":
            assert one["x"] - zero["x"] == timedelta(seconds=1)
        elif type_ != "bigint":
            assert (one["x"], zero["x"]) == (1, 0)


def test_a_record_above_the_limit_is_rejected_and_one_at_it_is_not(spark: SparkSession) -> None:
    limit = 16 * 2**20
    frame = b'{"i":1,"x":"%s"}'
    filled = frame % (b"x" * (limit - len(frame) + 2))
    at, above = decode(spark, [filled, filled + b" "])
    assert (at["_error"], at["i"]) == (None, 1)
    assert above["_error"] == f"a record of {limit + 1} bytes, at most {limit}"


def test_fields_in_another_order_each_time_find_their_columns(spark: SparkSession) -> None:
    """The decoder guesses the next field from the records before; a wrong guess must not show."""
    fields = ['"s":"x"', '"l":1', '"i":2', '"d":3.5', '"f":4.5', '"b":true', '"sl":9', '"S":8']
    orders = [Random(seed).sample(fields, len(fields)) for seed in range(200)]
    for row in decode(spark, [f"{{{','.join(order)}}}".encode() for order in orders]):
        assert list(row)[1:] == ["x", 1, 2, 3.5, 4.5, True, None]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=30) | st.text(max_size=20).map(str.encode), min_size=100, max_size=100))
def test_arbitrary_bytes_never_raise_and_are_only_accepted_where_python_accepts_them(
    spark: SparkSession, values: list[bytes]
) -> None:
    for value, row in zip(values, decode(spark, values), strict=True):
        if row["_error"] is None:
            assert isinstance(json.loads(value), dict)


def test_a_name_that_is_passed_over_changes_nothing_wherever_it_stands(spark: SparkSession) -> None:
    """Known or not, its value is checked to be JSON, and is nobody's."""
    chance = random.Random(3)
    fields = ['"s":"x"', '"l":1', '"d":3.5', '"p":"\\u0041"', '"q":{"s":[1,{"l":2}]}', '"r":null', '"p2":1e3']
    records = [
        f"{{{','.join(chance.sample(fields, chance.randrange(len(fields) + 1)))}}}".encode()
        for _ in range(200)
    ]
    records += [b'{"p":}', b'{"l":1,"q":[1}', b'{"r":nul,"s":"x"}', b'{"p":1,"p":2,"l":7}']
    plain = decode(spark, records)
    assert decode(spark, records, passed=["p", "q", "r"]) == plain
    assert [row["_error"] is None for row in plain[-4:]] == [False, False, False, True]
    assert plain[-1]["l"] == 7
