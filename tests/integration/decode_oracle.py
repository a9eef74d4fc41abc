"""What a record must decode to, by Python's own json module and exact arithmetic.

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
from typing import Any

from pyspark.sql import types as t

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
