"""Quantities as people write them: "30 minutes", "5 MB", "20k/s", "200,000".

Each reads text, and writes text that reads back as the same value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from operator import itemgetter
from typing import Annotated, Any, ClassVar, Self, TypeGuard

from pydantic import BeforeValidator, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

# A comma only ever parts thousands: "1,5 seconds" must not be read as 15.
_NUMBER = r"(?P<number>(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d+)?)"
_WORD = r"(?P<word>[A-Za-z]*)"
_QUANTITY = re.compile(rf"\s*{_NUMBER}\s*{_WORD}\s*", re.ASCII)
_RATE = re.compile(rf"\s*{_NUMBER}\s*{_WORD}\s*(?:/|\bper\b)\s*(?P<per>[A-Za-z]+)\s*", re.ASCII)

_MULTIPLES = {
    "": 1,
    "k": 1_000,
    "thousand": 1_000,
    "m": 1_000_000,
    "million": 1_000_000,
    "billion": 1_000_000_000,
}
_DURATION_MS = {"ms": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_DURATION_WORDS = {
    "ms": ("ms", "millisecond", "milliseconds"),
    "second": ("s", "sec", "secs", "second", "seconds"),
    "minute": ("m", "min", "mins", "minute", "minutes"),
    "hour": ("h", "hour", "hours"),
    "day": ("d", "day", "days"),
}
_SIZE_BYTES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


def _is_number(given: object) -> TypeGuard[int | float]:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _number(text: str) -> Fraction:
    return Fraction(text.replace(",", "").replace("_", ""))


def _duration_unit(word: str) -> str | None:
    """The name in _DURATION_MS that a person's word stands for."""
    return next((unit for unit, words in _DURATION_WORDS.items() if word.lower() in words), None)


class _Unit:
    """Lets a pydantic field hold the unit: text and the unit itself go in, text comes out."""

    example: ClassVar[str]

    @classmethod
    def parse(cls, given: object) -> Self:
        raise NotImplementedError

    @classmethod
    def _accept(cls, given: object) -> Self:
        return given if isinstance(given, cls) else cls.parse(given)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._accept, serialization=core_schema.to_string_ser_schema()
        )


@dataclass(frozen=True, order=True)
class Duration(_Unit):
    """A length of time, in whole milliseconds."""

    ms: int
    example: ClassVar[str] = "30 minutes"

    @property
    def seconds(self) -> float:
        return self.ms / 1000

    @classmethod
    def parse(cls, given: object) -> Self:
        match = _QUANTITY.fullmatch(given) if isinstance(given, str) else None
        if _is_number(given) or (match and not match["word"]):
            raise ValueError(f'a duration without a unit; write e.g. "{cls.example}"')
        unit = _duration_unit(match["word"]) if match else None
        if match is None or unit is None:
            raise ValueError(f'expected a duration, e.g. "{cls.example}" (units: {", ".join(_DURATION_MS)})')
        ms = _number(match["number"]) * _DURATION_MS[unit]
        if ms.denominator != 1:
            raise ValueError("expected a duration of whole milliseconds")
        return cls(int(ms))

    def __str__(self) -> str:
        if self.ms == 0:
            return "0 seconds"
        unit, size = max((item for item in _DURATION_MS.items() if self.ms % item[1] == 0), key=itemgetter(1))
        count = self.ms // size
        return f"{count:,} {unit}{'s' if unit != 'ms' and count != 1 else ''}"


@dataclass(frozen=True, order=True)
class Size(_Unit):
    """An amount of data, in bytes. MB is a million bytes, MiB is 1,048,576."""

    bytes: int
    example: ClassVar[str] = "5 MB"

    @classmethod
    def parse(cls, given: object) -> Self:
        units = {name.lower(): size for name, size in _SIZE_BYTES.items()} | {"byte": 1, "bytes": 1}
        match = _QUANTITY.fullmatch(given) if isinstance(given, str) else None
        if _is_number(given) or (match and not match["word"]):
            raise ValueError(f'a size without a unit; write e.g. "{cls.example}"')
        if match is None or match["word"].lower() not in units:
            raise ValueError(f'expected a size, e.g. "{cls.example}" (units: {", ".join(_SIZE_BYTES)})')
        size = _number(match["number"]) * units[match["word"].lower()]
        if size.denominator != 1:
            raise ValueError("expected a size of whole bytes")
        return cls(int(size))

    def __str__(self) -> str:
        if self.bytes == 0:
            return "0 B"
        unit, size = max(
            (item for item in _SIZE_BYTES.items() if self.bytes % item[1] == 0), key=itemgetter(1)
        )
        return f"{self.bytes // size:,} {unit}"


@dataclass(frozen=True, order=True)
class Rate(_Unit):
    """Events per second. A bare number is already per second."""

    eps: float
    example: ClassVar[str] = "5,000/s"

    @classmethod
    def parse(cls, given: object) -> Self:
        try:
            eps = _per_second(given)
        except OverflowError:
            eps = None
        if eps is None or not 0 < eps < float("inf"):
            raise ValueError(
                f'expected a rate above 0, e.g. "{cls.example}", "20k/s" or "1.2 million/minute"'
            )
        return cls(eps)

    def __str__(self) -> str:
        for unit, seconds in (("s", 1), ("minute", 60), ("hour", 3600)):
            count = round(self.eps * seconds)
            if count and count / seconds == self.eps:
                return f"{count:,}/{unit}"
        # repr has the fewest digits that read back as the same float; Decimal takes its exponent out.
        return f"{Decimal(repr(self.eps)):f}/s"


def _per_second(given: object) -> float | None:
    if _is_number(given):
        return float(given)
    if not isinstance(given, str):
        return None
    match = _RATE.fullmatch(given)
    if match is None:
        bare = _QUANTITY.fullmatch(given)
        if bare is None or bare["word"].lower() not in _MULTIPLES:
            return None
        return float(_number(bare["number"]) * _MULTIPLES[bare["word"].lower()])
    unit = _duration_unit(match["per"])
    multiple = _MULTIPLES.get(match["word"].lower())
    if unit is None or multiple is None:
        return None
    return float(_number(match["number"]) * multiple * 1000 / _DURATION_MS[unit])


def parse_count(given: object) -> int:
    """A whole number of at least 1, as a number or as text: 8, "200,000", "200k", "1 million"."""
    value: Fraction | None = None
    if isinstance(given, int) and not isinstance(given, bool):
        value = Fraction(given)
    elif isinstance(given, str) and (match := _QUANTITY.fullmatch(given)):
        multiple = _MULTIPLES.get(match["word"].lower())
        value = _number(match["number"]) * multiple if multiple else None
    if value is None or value.denominator != 1 or value < 1:
        raise ValueError("expected a whole number of at least 1")
    return int(value)


Count = Annotated[int, BeforeValidator(parse_count)]
