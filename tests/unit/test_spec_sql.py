"""The schema of a description: which types it may name, how they are written, and where one is wrong."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spec.column_types import is_number
from penstock.spec.sql import Column, columns_of, parse_schema


@pytest.mark.parametrize(
    ("written", "type_"),
    [
        ("byte", "tinyint"),
        ("SHORT", "smallint"),
        ("integer", "int"),
        ("long", "bigint"),
        ("real", "float"),
        ("timestamp_ltz", "timestamp"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("decimal", "decimal(10,0)"),
        ("numeric(5)", "decimal(5,0)"),
        ("decimal( 38 , 38 )", "decimal(38,38)"),
        ("array<array<long>>", "array<array<bigint>>"),
        ("map<string, struct<a: int>>", "map<string,struct<a:int>>"),
        ("struct<_id string, from: date, At: array<decimal(4,2)>>", None),
        ("struct<\n  a: int,\n  b: int\n>", "struct<a:int,b:int>"),
    ],
)
def test_a_type_is_kept_as_spark_writes_it(written: str, type_: str | None) -> None:
    expected = type_ or "struct<_id:string,from:date,At:array<decimal(4,2)>>"
    assert parse_schema(f"x {written}, y int") == (Column("x", expected), Column("y", "int"))


@pytest.mark.parametrize(
    ("ddl", "problem"),
    [
        ("x strng", 'column x (line 1, column 3): no type "strng"; did you mean "string"?'),
        ("x array<lng>", 'column x (line 1, column 9): no type "lng"; did you mean "long"?'),
        ("x\n struct<a:\n  intt>", 'column x (line 3, column 3): no type "intt"; did you mean "int"?'),
        ("x array", 'column x (line 1, column 3): expected "<", got the end'),
        ("x array<int", 'column x (line 1, column 9): expected ">", got the end'),
        ("x array<int, y int", 'column x (line 1, column 12): expected ">", got ","'),
        ("x array<", "column x (line 1, column 8): expected a type, got the end"),
        ("x struct<>", 'column x (line 1, column 9): expected "<", got "<>"'),
        ("x struct<a>", 'column x (line 1, column 11): no type ">"'),
        ("x struct<1a: int>", "column x (line 1, column 10): expected a field's name, got"),
        ("x struct<a: int, b: int, A: int>", "column x (line 1, column 26): field A is there twice"),
        ("x map<int, int>", 'column x (line 1, column 7): expected string: keys in JSON are text, got "int"'),
        ("x map<string>", 'column x (line 1, column 13): expected ",", got ">"'),
        ("x decimal(0)", 'column x (line 1, column 11): expected a number from 1 to 38, got "0"'),
        ("x decimal(4,5)", 'column x (line 1, column 13): expected a number from 0 to 4, got "5"'),
        ("x int not null", 'column x (line 1, column 7): expected a comma or the end, got "not"'),
        ("x int>", 'column x (line 1, column 6): expected a comma or the end, got ">"'),
        ("x " + "array<" * 40 + "int" + ">" * 40, "expected at most 32 types around one another"),
        ("x " + "array<" * 10_000, "expected at most 32 types around one another"),
        ("x xml", 'no type "xml" (known: tinyint, smallint,'),
    ],
)
def test_a_wrong_type_is_named_with_its_place(ddl: str, problem: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_schema(ddl)
    assert problem in str(caught.value)


def test_every_column_tells_its_own_problem() -> None:
    with pytest.raises(ValueError) as caught:
        parse_schema("a array<strng>, b int, c map<int,int>, b long")
    assert [problem.split(" (")[0] for problem in str(caught.value).split("; column ")] == [
        "column a",
        "c",
        "b",
    ]


_scalars = st.sampled_from(["string", "bigint", "double", "date", "timestamp", "decimal(12,2)", "binary"])
_names = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True)
_types: st.SearchStrategy[str] = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        inner.map("array<{}>".format),
        inner.map("map<string,{}>".format),
        st.builds(
            lambda names, types: f"struct<{','.join(map('{}:{}'.format, names, types))}>",
            _names,
            st.lists(inner, min_size=4, max_size=4),
        ),
    ),
    max_leaves=8,
)


@given(_types)
def test_what_spark_writes_reads_as_itself(type_: str) -> None:
    assert parse_schema(f"x {type_}") == (Column("x", type_),)


@given(st.text("<>(),: abint struc9", max_size=30))
def test_any_text_is_a_schema_or_a_problem(ddl: str) -> None:
    with suppress(ValueError):
        assert parse_schema(ddl)


def test_decimals_are_numbers_and_containers_of_numbers_are_not() -> None:
    assert is_number("tinyint")
    assert is_number("decimal(12,2)")
    assert not any(map(is_number, ("array<int>", "struct<a:int>", "date", "timestamp", "boolean", "string")))


@pytest.mark.parametrize(
    ("expression", "columns"),
    [
        ("payment.amount > 3", ["payment"]),
        ("a.b.c.d.e = tags['x']", ["a", "tags"]),
        ("items[0].qty + items[1].qty", ["items"]),
        ("exists(items, x -> x.qty > least_qty)", ["items", "least_qty"]),
    ],
)
def test_a_nested_field_is_read_from_its_column(expression: str, columns: list[str]) -> None:
    assert sorted(columns_of(expression)) == sorted(columns)
