"""The Spark types that a schema may name, nested as deep as anyone needs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot.tokenizer_core import Token

from penstock.spec.names import nearest_or_all, quoted

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_SCALARS = (*_NUMBERS, "string", "boolean", "date", "timestamp", "timestamp_ntz", "binary")
_SYNONYMS = {
    **{"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float"},
    **{"dec": "decimal", "numeric": "decimal", "timestamp_ltz": "timestamp"},
}
_MOST_NESTED = 32  # the decoder refuses records nested deeper than 64
_MOST_DIGITS = 38
_FIELD = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def is_number(type_: str) -> bool:
    return type_ in _NUMBERS or type_.startswith("decimal(")


def read_type(tokens: Sequence[Token]) -> str:
    """The type that these tokens are, as Spark writes it; ValueError says where it is wrong, and how."""
    reader = _Reader(tokens)
    type_ = reader.type(nested=0)
    reader.expect_end()
    return type_


def place(token: Token) -> str:
    # sqlglot counts a token's column at its last character.
    return f"line {token.line}, column {token.col - (token.end - token.start)}"


class _Reader:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._index = 0

    def type(self, nested: int) -> str:
        if nested > _MOST_NESTED:
            raise self._wrong(f"expected at most {_MOST_NESTED} types around one another")
        written = self._next.lower()
        name = _SYNONYMS.get(written, written)
        inside = {"array": self.type, "map": self._entry, "struct": self._fields}
        if name not in (*_SCALARS, "decimal", *inside):
            known = [*_SCALARS, "decimal", *inside, *_SYNONYMS]
            if not written:
                raise self._unexpected("a type")
            raise self._wrong(f"no type {quoted(written)}{nearest_or_all(written, known)}")
        self._index += 1
        if name == "decimal":
            return self._decimal()
        if name in _SCALARS:
            return name
        self._expect("<")
        parts = inside[name](nested + 1)
        self._expect(">")
        return f"{name}<{parts}>"

    def _decimal(self) -> str:
        precision, scale = 10, 0  # as in Spark
        if self._accept("("):
            precision = self._number(1, _MOST_DIGITS)
            scale = self._number(0, precision) if self._accept(",") else 0
            self._expect(")")
        return f"decimal({precision},{scale})"

    def _number(self, least: int, most: int) -> int:
        text = self._next
        if not text.isdecimal() or not least <= int(text) <= most:
            raise self._unexpected(f"a number from {least} to {most}")
        self._index += 1
        return int(text)

    def _entry(self, nested: int) -> str:
        if not self._accept("string"):
            raise self._unexpected("string: keys in JSON are text")
        self._expect(",")
        return f"string,{self.type(nested)}"

    def _fields(self, nested: int) -> str:
        fields: dict[str, str] = {}
        while not fields or self._accept(","):
            name = self._next
            if not _FIELD.fullmatch(name):
                raise self._unexpected("a field's name")
            if name.lower() in map(str.lower, fields):
                raise self._wrong(f"field {name} is there twice (Spark ignores case)")
            self._index += 1
            self._accept(":")
            fields[name] = self.type(nested)
        return ",".join(f"{name}:{type_}" for name, type_ in fields.items())

    @property
    def _next(self) -> str:
        return self._tokens[self._index].text if self._index < len(self._tokens) else ""

    def _accept(self, text: str) -> bool:
        found = self._next.lower() == text
        self._index += found
        return found

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._unexpected(f'"{text}"')

    def expect_end(self) -> None:
        if self._index < len(self._tokens):
            raise self._unexpected("a comma or the end")

    def _unexpected(self, expected: str) -> ValueError:
        got = quoted(self._next) if self._next else "the end"
        return self._wrong(f"expected {expected}, got {got}")

    def _wrong(self, what: str) -> ValueError:
        return ValueError(f"({place(self._tokens[min(self._index, len(self._tokens) - 1)])}): {what}")
