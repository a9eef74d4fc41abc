"""The bytes of a record as text that is safe on a terminal: whoever sent it chose them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from rich.cells import cell_len

_HEX_WIDTH = 16
_CARET_AROUND = 36
"""Bytes shown on each side of the one that a reason names."""


def visible(text: str) -> str:
    """Text on one line, with escapes in the place of whatever a terminal would obey or not show."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def snippet(value: bytes | None, width: int = 60) -> str:
    """The beginning of a record, on one line."""
    if value is None:
        return "(no value)"
    # A character takes four bytes at most.
    text = visible(value[: 4 * width].decode(errors="replace"))
    return text if len(text) <= width and len(value) <= 4 * width else text[: width - 1] + "…"


def lines(value: bytes | None) -> list[str]:
    """The whole record: JSON over several lines, other text as it is, anything else as a hex dump."""
    if not value:
        return ["(no value)" if value is None else "(empty)"]
    text = _text(value)
    if text is None:
        return list(hex_dump(value))
    try:
        pretty = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    # Brackets may be nested deeper than Python's own reader can follow.
    except (ValueError, RecursionError):
        pretty = text
    return [visible(line) for line in pretty.splitlines()]


def _text(value: bytes) -> str | None:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c in "\t\r\n" for c in text) else None


def hex_dump(value: bytes) -> Iterator[str]:
    for start in range(0, len(value), _HEX_WIDTH):
        row = value[start : start + _HEX_WIDTH]
        ascii_ = "".join(chr(b) if 0x20 <= b < 0x7F else "." for b in row)
        yield f"{start:08x}  {row.hex(' '):<{3 * _HEX_WIDTH - 1}}  {ascii_}"


def byte_named(reason: str) -> int | None:
    """The byte that a reason points at."""
    found = re.search(r", at byte (\d+)$", reason)
    return int(found[1]) if found else None


def caret(value: bytes | None, at: int) -> tuple[str, str]:
    """The bytes around one of them, and a line with a caret under it."""
    value = value or b""
    at = min(at, len(value))
    start = _boundary(value, at - _CARET_AROUND, step=-1)
    end = _boundary(value, at + _CARET_AROUND, step=1)
    before = visible(value[start:at].decode(errors="replace"))
    after = visible(value[at:end].decode(errors="replace"))
    head, tail = "…" if start > 0 else "", "…" if end < len(value) else ""
    return head + before + after + tail, " " * cell_len(head + before) + "^"


def _boundary(value: bytes, at: int, step: int) -> int:
    """The nearest place in this direction that is not inside a character, which has four bytes at most."""
    for _ in range(3):
        if 0 < at < len(value) and value[at] & 0xC0 == 0x80:
            at += step
    return min(max(at, 0), len(value))
