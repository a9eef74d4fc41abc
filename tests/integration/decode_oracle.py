"""What a record must decode to, by Python's own json module and exact arithmetic; and records to try it on.

Values are compared as to_json writes them, parsed: from_json gives times that Python's datetime cannot hold.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any, TypeVar

from pyspark.sql import types as t

T = TypeVar("T")

MAX_DEPTH = 64
WHOLE: dict[type[t.DataType], int] = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(?:\.(\d+))?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_EPOCH = datetime(1970, 1, 1)


class Refused(Exception):
    """The record has to be set aside."""


class Number(str):
    """The text of a number."""


class Pairs(list[tuple[str, Any]]):
    """An object with its keys as often as they stand in it."""


def decoded(schema: t.StructType, record: bytes) -> Any:
    """The record's values, or Refused."""
    try:
        read = json.loads(
            record.decode(),
            object_pairs_hook=Pairs,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_no_constant,
        )
    except (ValueError, RecursionError) as problem:
        raise Refused from problem
    _check(read, 0)
    if read is None:
        raise Refused
    return value(schema, read)


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _check(node: Any, depth: int) -> None:
    """What json accepts and UTF-8 or the depth does not."""
    if isinstance(node, list):
        if depth >= MAX_DEPTH:
            raise Refused
        for item in node:
            for part in item if isinstance(item, tuple) else (item,):
                _check(part, depth + 1)
    elif isinstance(node, str) and re.search("[\ud800-\udfff]", node):
        raise Refused


def value(type_: t.DataType, node: Any) -> Any:
    if node is None:
        return None
    number, text = isinstance(node, Number), type(node) is str
    match type_:
        case t.StructType() if isinstance(node, Pairs):
            known = {field.name: field.dataType for field in type_.fields}
            read = {key: value(known[key], item) for key, item in node if key in known}
            return {name: read.get(name) for name in known}
        case t.MapType() if isinstance(node, Pairs):
            return {key: value(type_.valueType, item) for key, item in node}
        case t.ArrayType() if isinstance(node, list) and not isinstance(node, Pairs):
            return [value(type_.elementType, item) for item in node]
        case t.StringType() if text:
            return node
        case t.BooleanType() if isinstance(node, bool):
            return node
        case t.BinaryType() if text and _BASE64.fullmatch(node):
            return base64.b64encode(base64.b64decode(node)).decode()
        case t.DateType() if text:
            return _iso_date(node)
        case t.TimestampType() if number:
            return _time(_micros(node))
        case t.TimestampType() | t.TimestampNTZType() if text:
            return _iso_time(node, zoned=isinstance(type_, t.TimestampType))
        case t.DecimalType() if number:
            return _decimal(node, type_.precision, type_.scale)
        case t.DoubleType() if number and abs(float(node)) != float("inf"):
            return float(node)
        case t.FloatType() if number:
            return nearest_float(node)
        case _ if number and type(type_) in WHOLE and not re.search("[.eE]", node):
            bits = WHOLE[type(type_)]
            if len(node) <= 20 and -(2 ** (bits - 1)) <= int(node) < 2 ** (bits - 1):
                return int(node)
    raise Refused


def _iso_date(text: str) -> str:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        raise Refused
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as problem:
        raise Refused from problem


def _iso_time(text: str, *, zoned: bool) -> str:
    found = _ISO.fullmatch(text)
    if not found or (found[5] and not zoned) or (found[5] and not found[2]):
        raise Refused
    try:
        clock = f"{found[2] or '00:00'}{found[3] or ':00'}.{(found[4] or '0')[:6]:0<6}"
        wall = datetime.fromisoformat(f"{_iso_date(found[1])}T{clock}")
    except ValueError as problem:
        raise Refused from problem
    micros = (wall - _EPOCH) // timedelta(microseconds=1)
    if found[5] and found[5] != "Z":
        hours, minutes = int(found[5][1:3]), int(found[5][-2:])
        if minutes > 59 or hours * 60 + minutes > 18 * 60:
            raise Refused
        micros -= (hours * 60 + minutes) * 60_000_000 * (-1 if found[5][0] == "-" else 1)
    return _time(micros)


def _exact(number: str) -> Decimal:
    """The number; an exponent too large for Decimal is one that is large enough for every check."""
    digits, _, exponent = number.lower().partition("e")
    return Decimal(f"{digits}e{max(-(10**9), min(10**9, int(exponent or 0)))}")


def _micros(seconds: str) -> int:
    exact = _exact(seconds)
    if exact.adjusted() > 20:
        raise Refused
    return int(Fraction(exact) * 10**6) if exact.adjusted() > -20 else 0


def _time(micros: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds")
    except OverflowError as problem:
        raise Refused from problem


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    sign, digits, exponent = _exact(text).as_tuple()
    assert isinstance(exponent, int)
    kept = "".join(map(str, digits)).rstrip("0")
    if not kept.strip("0"):
        return Decimal(0)
    exponent += len(digits) - len(kept)
    if exponent < -scale or len(kept) + exponent > precision - scale:
        raise Refused
    return Decimal((sign, tuple(map(int, kept)), exponent))


def nearest_float(text: str) -> float:
    """The nearest number of 32 bits, ties to even; not by way of a double."""
    rough = abs(float(text))
    if rough >= 2.0**128 - 2.0**103:
        raise Refused
    if rough < 1e-60:
        return 0.0
    exact = abs(Fraction(_exact(text)))
    (bits,) = struct.unpack("<I", struct.pack("<f", min(rough, 2.0**128 - 2.0**104)))
    # One bit pattern above the largest float is that of infinity, which stands for 2^128.
    near = [(bit, _float32(bit)) for bit in range(max(0, bits - 1), bits + 2)]
    best = min(near, key=lambda pair: (abs(pair[1] - exact), pair[0] % 2))[1]
    if best == 2**128:
        raise Refused
    return -float(best) if text.startswith("-") else float(best)


def _float32(bits: int) -> Fraction:
    infinite = bits == 0x7F800000
    return Fraction(2**128) if infinite else Fraction(struct.unpack("<f", struct.pack("<I", bits))[0])


def shown(type_: t.DataType, node: Any) -> Any:
    """What to_json wrote, with numbers of the oracle's types."""
    if node is None:
        return None
    match type_:
        case t.StructType():
            return {field.name: shown(field.dataType, node.get(field.name)) for field in type_.fields}
        case t.MapType():
            return {key: shown(type_.valueType, item) for key, item in node.items()}
        case t.ArrayType():
            return [shown(type_.elementType, item) for item in node]
        case t.DoubleType():
            return float(node)
        case t.FloatType():
            return struct.unpack("<f", struct.pack("<f", float(node)))[0]
    return node


_SPECIAL = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"0",
    b"-",
    b"e",
    b".",
    b"\\",
    b"\\u",
    b"\\ud83d",
    b"\\u0000",
]
_SPECIAL += [
    b"\xff",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    b"\x00",
    b"\t",
    b"\n" * 9,
]
_SPECIAL += [
    b"null",
    b"NaN",
    b"true",
    b"1e999999999",
    b"9" * 400,
    b"/**/",
    b"'",
    b'"q":[[{}]],',
    b"\xef\xbb\xbf",
]
_LETTERS = 'abz059 "\\/\b\f\n\r\t\x00\x1f\x7féß߿漢\u2028\uffff\U0001f600'


class Writer:
    """Writes schemas and records by chance: mostly good ones, in all the ways JSON allows."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def schema(self) -> t.StructType:
        return self._struct(self.random.randint(1, 8), depth=0)

    def _struct(self, size: int, depth: int) -> t.StructType:
        names = self.random.sample(
            ["a", "b", "id", "at", "price", "event_id", "user_name", "a_long_field_name"], size
        )
        return t.StructType([t.StructField(name, self._type(depth)) for name in names])

    def _type(self, depth: int) -> t.DataType:
        chosen = self.random.randint(0, 19 if depth < 3 else 14)
        scalars: list[type[t.DataType]] = [
            *WHOLE,
            t.StringType,
            t.FloatType,
            t.DoubleType,
            t.BooleanType,
            t.DateType,
            t.BinaryType,
        ]
        scalars += [t.TimestampType, t.TimestampType, t.TimestampNTZType]
        if chosen < len(scalars):
            return scalars[chosen]()
        if chosen < 15:
            precision = self.random.choice([1, 5, 18, 19, 38])
            return t.DecimalType(precision, self.random.randint(0, precision))
        if chosen < 17:
            return t.ArrayType(self._type(depth + 1))
        if chosen < 18:
            return t.MapType(t.StringType(), self._type(depth + 1))
        return self._struct(self.random.randint(1, 4), depth + 1)

    def record(self, schema: t.StructType) -> bytes:
        wrong = self.random.choice([0, 0, 0.02, 0.1])
        written = self._space(self._value(schema, wrong)).encode("utf-8", "surrogatepass")
        return self._damaged(written) if self.random.random() < 0.3 else written

    def _damaged(self, record: bytes) -> bytes:
        at = self.random.randint(0, len(record))
        match self.random.randint(0, 3):
            case 0:
                return record[:at]
            case 1:
                return record[:at] + record[at + self.random.randint(1, 3) :]
            case 2:
                return record[:at] + self.random.choice(_SPECIAL) + record[at:]
        return record[:at] + self.random.choice(_SPECIAL) + record[at + 1 :]

    def _value(self, type_: t.DataType, wrong: float) -> str:
        if self.random.random() < 0.07:
            return "null"
        if self.random.random() < wrong:
            return self._anything()
        match type_:
            case t.StructType():
                return self._object([(field.name, field.dataType) for field in type_.fields], wrong)
            case t.MapType():
                keys = [self._text() for _ in range(self.random.randint(0, 3))]
                return self._braces(
                    [f"{self._quoted(key)}:{self._value(type_.valueType, wrong)}" for key in keys]
                )
            case t.ArrayType():
                items = [self._value(type_.elementType, wrong) for _ in range(self.random.randint(0, 3))]
                return f"[{','.join(map(self._space, items))}]"
            case t.BooleanType():
                return self.random.choice(["true", "false"])
            case t.StringType():
                return self._quoted(self._text())
            case t.BinaryType():
                encoded = base64.b64encode(self.random.randbytes(self.random.randint(0, 9))).decode()
                return self._quoted(encoded[: self._mostly(len(encoded), len(encoded) - 1)])
            case t.DateType():
                return self._quoted(self._date())
            case t.TimestampType() if self.random.random() < 0.3:
                return self._whole(40) + self._mostly("", ".5", ".1234567", "e1", "e-3", "E+9")
            case t.TimestampType() | t.TimestampNTZType():
                return self._quoted(self._date() + self._mostly(self._clock(), ""))
            case t.DecimalType():
                return self._digits(
                    self.random.randint(1, type_.precision + 1), self.random.randint(0, type_.scale)
                )
            case t.DoubleType() | t.FloatType():
                return self._real()
        return self._whole(WHOLE[type(type_)] - 1) + self._mostly("", ".0", "e0")

    def _object(self, fields: list[tuple[str, t.DataType]], wrong: float) -> str:
        given = [field for field in fields if self.random.random() < 0.9]
        if self.random.random() < 0.3:
            self.random.shuffle(given)
        if given and self.random.random() < 0.1:
            given.append(self.random.choice(given))
        parts = [
            f"{self._quoted(name)}{self._space(':')}{self._value(type_, wrong)}" for name, type_ in given
        ]
        for _ in range(self._mostly(0, 1, 3)):
            name = self._mostly("unknown", *(field[0].upper() for field in fields), self._text())
            if name not in dict(fields):
                parts.insert(self.random.randint(0, len(parts)), f"{self._quoted(name)}:{self._anything()}")
        return self._braces(parts)

    def _braces(self, parts: list[str]) -> str:
        return f"{{{','.join(map(self._space, parts))}}}"

    def _anything(self, depth: int = 0) -> str:
        match self.random.randint(0, 8 if depth < 3 else 4):
            case 0:
                return self._quoted(self._text())
            case 1:
                return self._real()
            case 2:
                return self._whole(70)
            case 3:
                return self.random.choice(
                    ["null", "true", "false", '""', "[]", "{}", '"NaN"', '"12"', "0", "-0"]
                )
            case 4:
                return self._quoted(self._mostly(self._date(), "12:00", "2024-1-1", "2024-01-01T00:00:00UTC"))
            case 5:
                depth_ = self.random.choice([1, 60, 61, 62, 63, 64, 65, 90, 2000])
                return "[" * depth_ + "]" * depth_
            case 6:
                return f"[{','.join(self._anything(depth + 1) for _ in range(3))}]"
        return self._braces([f"{self._quoted(self._text())}:{self._anything(depth + 1)}" for _ in range(2)])

    def _space(self, text: str) -> str:
        blank = self._mostly("", " ", "\n\t\r ")
        return f"{blank}{text}{blank}"

    def _quoted(self, text: str) -> str:
        plain = json.dumps(text, ensure_ascii=self.random.random() < 0.3)
        if self.random.random() > 0.1 or "\\" in plain:
            return plain
        escaped = "".join(
            f"\\u{ord(c):04X}" if c.isascii() and self.random.random() < 0.3 else c for c in plain[1:-1]
        )
        return f'"{escaped}"'.replace("/", "\\/")

    def _text(self) -> str:
        size = self.random.choice([0, 1, 3, 7, 8, 9, 17])
        return "".join(
            self.random.choice(_LETTERS if self.random.random() < 0.3 else "user-12") for _ in range(size)
        )

    def _date(self) -> str:
        year = self._mostly(2024, 1969, 1900, 1, 9999, 0, 10000)
        day = self._mostly(self.random.randint(1, 28), 29, 31, 0)
        return f"{year:04}-{self._mostly(self.random.randint(1, 12), 2, 13):02}-{day:02}"

    def _clock(self) -> str:
        hour, minute = (
            self._mostly(self.random.randint(0, 23), 24),
            self._mostly(self.random.randint(0, 59), 60),
        )
        second = self._mostly(f":{self.random.randint(0, 59):02}", "", ":60")
        fraction = self._mostly("", ".1", ".123", ".123456", ".999999999", ".")
        zone = self._mostly("Z", "", "+05:30", "-0800", "+18:00", "-18:01", "+5:3", "z")
        return f"{self._mostly('T', ' ', 't')}{hour:02}:{minute:02}{second}{fraction}{zone}"

    def _whole(self, bits: int) -> str:
        edge = 2**bits
        return str(
            self._mostly(self.random.randint(-edge, edge - 1), 0, 1, -1, edge - 1, edge, -edge, -edge - 1)
        )

    def _digits(self, count: int, behind: int) -> str:
        digits = "".join(self.random.choice("0123456789") for _ in range(count))
        whole, fraction = digits[: max(0, count - behind)], digits[max(0, count - behind) :]
        sign, zeros = self._mostly("", "-"), self._mostly("", "0", "0" * 30)
        exponent = self._mostly("", "e0", "E-1", "e+2", "e-30", "e999999999", "e-999999999")
        written = f"{sign}{whole.lstrip('0') or '0'}"
        return written + (f".{fraction}{zeros}" if fraction else "") + exponent

    def _real(self) -> str:
        match self.random.randint(0, 4):
            case 0:
                return self.random.choice(
                    ["0", "-0", "0.1", "1e400", "-1e-400", "3.4028236e38", "16777217", "1E+2"]
                )
            case 1:
                found = struct.unpack("<d", self.random.randbytes(8))[0]
                return repr(found) if abs(found) < float("inf") else "1.5"
            case 2:
                found = struct.unpack("<f", self.random.randbytes(4))[0]
                return repr(found) if abs(found) < float("inf") else "2.5"
        return self._digits(self.random.choice([1, 3, 8, 15, 16, 19, 40]), self.random.choice([0, 1, 2, 20]))

    def _mostly(self, usual: T, *others: T) -> T:
        return usual if not others or self.random.random() < 0.8 else self.random.choice(others)
