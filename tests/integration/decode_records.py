"""Schemas and records by chance, to try the decoder on."""

from __future__ import annotations

import base64
import json
import struct
from random import Random
from typing import TypeVar

from pyspark.sql import types as t

from tests.integration.decode_oracle import WHOLE

T = TypeVar("T")

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
