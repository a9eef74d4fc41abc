"""The decoder against two judges: an oracle in Python, which is as strict, and from_json, which is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

from penstock.spec.sql import parse_schema
from tests.integration.decode_oracle import Refused, decoded, shown
from tests.integration.decode_records import Writer

pytestmark = pytest.mark.integration

_MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_SHOWN = {
    "ignoreNullFields": "false",
    "timestampFormat": _MICROSECONDS,
    "timestampNTZFormat": _MICROSECONDS,
}
_TOLERANT = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}


def both(spark: SparkSession, ddl: str, records: Sequence[bytes], good: Sequence[bool]) -> list[Row]:
    """Each record by the decoder (ours, error) and by from_json (theirs, corrupt), as to_json shows them.

    from_json gets the good ones only: for a decimal of 12e9999999 it took 56 s, on a busy machine.
    """
    columns = parse_schema(ddl)
    canonical = ", ".join(f"{column.name} {column.type}" for column in columns)
    spark._jvm.penstock.kernel.Functions.decode("twin", canonical, [], "s")  # type: ignore[union-attr]
    rows = zip(range(len(records)), records, good, strict=True)
    frame = spark.createDataFrame(list(rows), "n int, value binary, good boolean").coalesce(1)
    text = F.when(F.col("good"), F.col("value").cast("string"))
    read = frame.select(
        "n",
        F.expr("penstock.decode.twin(value)").alias("o"),
        F.from_json(text, f"{canonical}, _corrupt string", _TOLERANT).alias("t"),
    )

    def shown_by(side: str) -> Column:
        return F.to_json(F.struct(*(F.col(f"{side}.{column.name}") for column in columns)), _SHOWN)

    answers = read.select(
        "n", shown_by("o").alias("ours"), "o._error", shown_by("t").alias("theirs"), "t._corrupt"
    ).collect()
    return sorted(answers, key=lambda row: row["n"])


def values(schema: t.StructType, text: str) -> Any:
    return shown(schema, json.loads(text, parse_float=Decimal))


def judged(schema: t.StructType, record: bytes) -> Any:
    try:
        return decoded(schema, record)
    except Refused as refused:
        return refused


def check(spark: SparkSession, schema: t.StructType, records: Sequence[bytes], origin: str = "") -> None:
    """The oracle judges each record; where from_json has a value too, it is the same one."""
    ddl = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema)
    expected = [judged(schema, record) for record in records]
    good = [not isinstance(value, Refused) for value in expected]
    for record, value, row in zip(records, expected, both(spark, ddl, records, good), strict=True):
        case = f"{origin}, {ddl}\n{record[:2000]!r}\n{row}"
        assert (row["_error"] is not None) == isinstance(value, Refused), case
        if row["_error"] is None:
            ours = values(schema, row["ours"])
            assert ours == value, case
            # from_json knows fewer ways to write a time.
            assert row["_corrupt"] is None or "timestamp" in ddl, case
            assert row["_corrupt"] is not None or ours == values(schema, row["theirs"]), case


ASIDE = "set aside"
# Where the decoder and from_json differ, on purpose: better a record set aside than a value guessed.
CHOICES = [
    # what from_json changes without a word
    ("a tinyint", '{"a":128}', ASIDE, '{"a":-128}'),
    ("a decimal(12,2)", '{"a":1.005}', ASIDE, '{"a":1.01}'),
    ("a decimal(12,2)", '{"a":1e-3}', ASIDE, '{"a":0.00}'),
    ("a double", '{"a":1e309}', ASIDE, '{"a":"Infinity"}'),
    ("a float", '{"a":1e39}', ASIDE, '{"a":"Infinity"}'),
    ("a string", r'{"a":"\ud800"}', ASIDE, '{"a":"?"}'),
    ("a map<string,int>", '{"a":{"k":1,"k":2}}', '{"a":{"k":2}}', '{"a":{"k":1,"k":2}}'),
    # text and numbers are not taken for one another
    ("a string", '{"a":1}', ASIDE, '{"a":"1"}'),
    ("a string", '{"a":{"b":[1]}}', ASIDE, '{"a":"{\\"b\\":[1]}"}'),
    ("a decimal(12,2)", '{"a":"1.5"}', ASIDE, '{"a":1.50}'),
    ("a double", '{"a":"NaN"}', ASIDE, '{"a":"NaN"}'),
    # a date is a date, a time has a date, and both are in the years 1 to 9999
    ("a date", '{"a":"5"}', ASIDE, '{"a":"1970-01-06"}'),
    ("a date", '{"a":"2024-01-01T00:00:00"}', ASIDE, '{"a":"2024-01-01"}'),
    ("a date", '{"a":"2024-1-1"}', ASIDE, '{"a":"2024-01-01"}'),
    ("a timestamp", '{"a":"2024"}', ASIDE, '{"a":"2024-01-01T00:00:00.000000"}'),
    ("a timestamp", '{"a":"2024-01-01 00:00:00 Europe/Paris"}', ASIDE, '{"a":"2023-12-31T23:00:00.000000"}'),
    ("a timestamp", '{"a":"0000-01-01"}', ASIDE, '{"a":"0000-01-01T00:00:00.000000"}'),
    ("a timestamp", '{"a":1700000000000}', ASIDE, '{"a":"+55840-11-08T22:13:20.000000"}'),
    ("a timestamp", '{"a":1.5}', '{"a":"1970-01-01T00:00:01.500000"}', ASIDE),
    ("a timestamp", '{"a":"2024-01-01T00:00+0100"}', '{"a":"2023-12-31T23:00:00.000000"}', ASIDE),
    # JSON is RFC 8259, and one record is one value
    ("a string", "{'a':\"x\"}", ASIDE, '{"a":"x"}'),
    ("a int", '{"a":1}{"a":2}', ASIDE, '{"a":1}'),
    ("a int", '{"a":1,"b":' + "[" * 70 + "]" * 70 + "}", ASIDE, '{"a":1}'),
]


@pytest.mark.parametrize(("ddl", "record", "ours", "theirs"), CHOICES)
def test_the_decoder_differs_from_from_json_by_choice(
    spark: SparkSession, ddl: str, record: str, ours: str, theirs: str
) -> None:
    [row] = both(spark, ddl, [record.encode()], [True])
    assert (ASIDE if row["_error"] else row["ours"]) == ours
    assert (ASIDE if row["_corrupt"] else row["theirs"]) == theirs


# A seed has no simpler seed: a failure is shown as it was found.
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 2**32))
def test_a_record_decodes_to_what_it_says_or_is_set_aside(spark: SparkSession, seed: int) -> None:
    writer = Writer(seed)
    schema = writer.schema()
    check(spark, schema, [writer.record(schema) for _ in range(300)], f"seed {seed}")


def test_every_byte_at_every_place_of_a_string_is_judged_as_json_judges_it(spark: SparkSession) -> None:
    """Strings are read eight bytes at a time, the last ones singly."""
    schema = t.StructType([t.StructField("s", t.StringType())])
    around = "0123456789abcdef"
    records = [
        b'{"s":"%b%c%b"%b}' % (around[:place].encode(), byte, around[place:size].encode(), b" " * tail)
        for size in (8, 16)
        for tail in (0, 9)
        for place in range(size + 1)
        for byte in range(256)
    ]
    check(spark, schema, records)


def test_decimals_are_exact_up_to_their_edges(spark: SparkSession) -> None:
    types = [t.DecimalType(p, s) for p in (1, 5, 17, 18, 19, 38) for s in sorted({0, 1, p // 2, p})]
    schema = t.StructType([t.StructField(f"d{index}", type_) for index, type_ in enumerate(types)])
    records = []
    for index, type_ in enumerate(types):
        most = 10**type_.precision
        for unscaled in (0, 1, most // 3, most - 1, most, most * 10):
            for zeros in (0, 1, 3, 20, 40):
                digits = f"{unscaled}{'0' * zeros}"
                point = max(0, len(digits) - type_.scale - zeros)
                fraction = digits[point:].rjust(type_.scale + zeros, "0")
                plain = f"{digits[:point] or '0'}.{fraction or '0'}"
                for text in (plain, f"-{plain}", f"{digits}e-{type_.scale + zeros}", f"{plain}1"):
                    records.append(f'{{"d{index}":{text}}}'.encode())
    check(spark, schema, records)
