"""The Spark SQL inside a description: the schema, the conditions and the measures.

Text is parsed to find mistakes early and to know which columns it reads; what Spark runs is the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, cast, get_args

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.spec.column_types import place, read_type
from penstock.spec.names import nearest, quoted

Aggregate = Literal["count", "sum", "min", "max", "first", "last", "distinct"]

AGGREGATES: tuple[Aggregate, ...] = get_args(Aggregate)
TIMES: frozenset[str] = frozenset({"bigint", "timestamp"})
_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)

# A batch must give the same rows when it is replayed, so nothing may depend on chance, clock or place.
_NOT_OF_THE_EVENT = frozenset(
    {
        *("rand", "randn", "random", "shuffle", "uuid"),
        *("curdate", "current_date", "current_datetime", "current_time", "current_timestamp"),
        *("localtimestamp", "now"),
        *("input_file_name", "monotonically_increasing_id", "spark_partition_id"),
    }
)


@dataclass(frozen=True)
class Column:
    """One column of the source: its name and its type as Spark writes it, e.g. "bigint", "array<int>"."""

    name: str
    type: str


@dataclass(frozen=True)
class Measure:
    """One measure of a session or window: an aggregate of an expression; None is the star of count(*)."""

    name: str
    function: Aggregate
    expression: str | None

    @property
    def text(self) -> str:
        return f"{self.function}({self.expression or '*'})"

    @property
    def columns(self) -> list[str]:
        """The columns that a row has of it."""
        return [self.name, f"{self.name}_exact"] if self.function == "distinct" else [self.name]


def parse_schema(ddl: str) -> tuple[Column, ...]:
    """Read "a string, b struct<c: long>"; the first problem of each column goes into one ValueError."""
    columns: list[Column] = []
    problems: list[str] = []
    for tokens in _items(ddl):
        first = tokens[0]
        if len(tokens) < 2 or tokens[1].text == ":" or not _NAME.fullmatch(first.text):
            text = quoted(ddl[first.start : tokens[-1].end + 1])
            problems.append(f'{text} ({place(first)}): expected a name and a type, e.g. "price double"')
            continue
        if first.text.lower() in {column.name.lower() for column in columns}:
            problems.append(f"column {first.text} ({place(first)}) is there twice (Spark ignores case)")
        try:
            columns.append(Column(first.text, read_type(tokens[1:])))
        except ValueError as problem:
            problems.append(f"column {first.text} {problem}")
    if not columns and not problems:
        problems.append('expected columns, e.g. "user_id string, ts long"')
    if problems:
        raise ValueError("; ".join(problems))
    return tuple(columns)


def _items(ddl: str) -> Iterator[list[Token]]:
    """The tokens of each item of a list, split at the commas that no bracket encloses."""
    try:
        tokens = sqlglot.tokenize(ddl, dialect="spark")
    except TokenError:
        raise ValueError("not a schema: a quote or a comment is not closed") from None
    depth = item = 0
    labelled: list[tuple[int, Token]] = []
    for token in tokens:
        depth += (token.text in ("(", "<")) - (token.text in (")", ">"))
        if token.token_type is TokenType.COMMA and depth == 0:
            item += 1
        else:
            labelled.append((item, token))
    for _, group in groupby(labelled, key=lambda pair: pair[0]):
        yield [token for _, token in group]


def parse_expression(text: str) -> exp.Condition:
    """One Spark SQL expression over the columns of one event."""
    parsed = _parse(text)
    if aggregate := parsed.find(exp.AggFunc):
        raise ValueError(
            f"{aggregate.sql(dialect='spark')} spans many events; expected an expression over one event"
        )
    return parsed


def parse_measure(text: str) -> tuple[Aggregate, str | None]:
    """Split "sum(price)" into its aggregate and its argument."""
    call = _CALL.fullmatch(text)
    function = call[1].lower() if call else ""
    if call and function == "distinct":  # a keyword, not a function, to Spark
        parse_expression(call[2].strip())
        return "distinct", call[2].strip()
    parsed = _parse(text)
    if call is None or not isinstance(parsed, exp.Func):
        raise ValueError(f'expected one aggregate, e.g. "sum(price)" (known: {", ".join(AGGREGATES)})')
    if function not in AGGREGATES:
        raise ValueError(
            f"no aggregate {quoted(function)}{nearest(function, AGGREGATES)} (known: {', '.join(AGGREGATES)})"
        )
    argument = call[2].strip()
    if argument == "*" and function == "count":
        return "count", None
    if isinstance(parsed.this, exp.Distinct) or parsed.expressions:
        raise ValueError(f"{function} takes one argument, without DISTINCT; distinct(x) counts values")
    parse_expression(argument)
    return cast(Aggregate, function), argument


def columns_of(text: str) -> list[str]:
    """The columns an expression reads, each once; of `payment.amount` the column is `payment`."""
    columns = _parse(text).find_all(exp.Column, bfs=False)
    return list(dict.fromkeys(column.parts[0].name for column in columns))


def _parse(text: str) -> exp.Condition:
    try:
        parsed = sqlglot.parse_one(text, dialect="spark")
    except TokenError:
        raise ValueError("not Spark SQL: a quote or a comment is not closed") from None
    except ParseError as error:
        raise ValueError(_syntax_error(error)) from None
    closed = text.rstrip().endswith(";")  # sqlglot forgives it, Spark does not
    if closed or not isinstance(parsed, exp.Condition) or parsed.find(exp.Query, exp.Window):
        raise ValueError("expected one Spark SQL expression, without SELECT, OVER, AS or semicolon")
    # The engine puts expressions into larger ones, where a comment would swallow what follows it.
    if any(node.comments for node in parsed.walk()):
        raise ValueError("expected an expression without comments; a TOML comment can stand beside it")
    for function in parsed.find_all(exp.Func):
        name = (function.name if isinstance(function, exp.Anonymous) else function.sql_name()).lower()
        if name in _NOT_OF_THE_EVENT:
            raise ValueError(
                f"{name}() is not a function of the event, so a replayed batch would give other rows"
            )
    return parsed


def _syntax_error(error: ParseError) -> str:
    if not error.errors:
        return "expected a Spark SQL expression"
    first = error.errors[0]
    # sqlglot names its own classes in "Required keyword: 'expression' missing for <class ...>".
    what = "incomplete" if "<class" in first["description"] else first["description"].lower()
    return (
        f"not Spark SQL: {what} at {quoted(first['highlight'])} (line {first['line']}, column {first['col']})"
    )
