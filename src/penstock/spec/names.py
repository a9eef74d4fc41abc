"""Names a description may use: what is legal, and which known name a person probably meant."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Annotated

from pydantic import AfterValidator, PlainSerializer

from penstock.spec.secret import Secret


def nearest(name: str, known: Collection[str]) -> str:
    """`; did you mean "gap"?`, or nothing when no known name is close."""
    by_lower = {item.lower(): item for item in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f'; did you mean "{by_lower[close[0]]}"?' if close else ""


def nearest_or_all(name: str, known: Collection[str]) -> str:
    """The nearest known name, or all of them when none is close."""
    return nearest(name, known) or f" (known: {', '.join(known)})"


def quoted(text: str, limit: int = 60) -> str:
    """Text as it is shown in a problem: on one line, cut when long."""
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= limit else f'"{line[: limit - 1]}…"'


def _legal(pattern: str, expected: str) -> AfterValidator:
    compiled = re.compile(pattern, re.ASCII)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(f"expected {expected}")
        return text

    return AfterValidator(check)


def _address(pattern: str, expected: str) -> AfterValidator:
    return _legal(rf"embedded|{pattern}", f'"embedded" or {expected}')


_HOST_PORT = r"[\w.-]+:\d{1,5}"

# Pipeline and sink names end up in paths, transactional ids and metric labels.
Name = Annotated[
    str,
    _legal(r"[A-Za-z0-9][\w.-]{0,99}", "a name of letters, digits, - _ and . (at most 100, no leading sign)"),
]
Identifier = Annotated[
    str, _legal(r"[A-Za-z]\w{0,127}", "a name of letters, digits and _ that starts with a letter")
]
TableName = Annotated[str, _legal(r"[A-Za-z]\w{0,62}(\.[A-Za-z]\w{0,62})?", 'a table, or "schema.table"')]
Topic = Annotated[
    str, _legal(r"(?!\.{1,2}$)[\w.-]{1,249}", "a Kafka topic name: at most 249 letters, digits, . _ or -")
]
KafkaAddress = Annotated[str, _address(rf"{_HOST_PORT}(,{_HOST_PORT})*", '"host:port", several with commas')]
_kept_secret = (AfterValidator(Secret), PlainSerializer(str, when_used="json"))
ClickHouseAddress = Annotated[
    str,
    _address(rf"(https?://([^@/\s]+@)?)?{_HOST_PORT}/?", '"host:port" or "http://user:password@host:port"'),
    *_kept_secret,
]
PostgresAddress = Annotated[
    str,
    _address(r"postgres(ql)?://\S+", '"postgresql://user:password@host:port/database"'),
    *_kept_secret,
]


def listed(given: object) -> object:
    """One text for a list of one, or commas between several: how lists are written in the environment."""
    if isinstance(given, str):
        return [part.strip() for part in given.split(",")]
    return given
