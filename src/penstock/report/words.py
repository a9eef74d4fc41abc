"""Numbers and moments for people. What is not known, or is no number, is a dash. Times are UTC."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime

NONE = "\N{EN DASH}"
_TEXT_MAX = 600
_BEYOND = 1e18
_MEASURED = re.compile(r"(\d) (%|[kMGT]?/s|[kMGT]|ms|s|min|h|d|B|[KMGT]iB)(?!\w)")
_UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""What no XML may hold, and what turns the direction of writing."""


def text(value: object, most: int = _TEXT_MAX) -> str:
    """Whatever a pipeline wrote, as text of a page."""
    plain = _UNSAFE.sub("\ufffd", str(value))
    return html.escape(plain if len(plain) <= most else f"{plain[:most]} …")


def prose(value: object) -> str:
    """The same of what we say: a number and its unit stay on one line."""
    return _MEASURED.sub("\\1\u00a0\\2", text(value))


def _known(value: float | None) -> bool:
    return value is not None and abs(value) < _BEYOND


def count(value: float | None) -> str:
    return f"{value:,.0f}" if value is not None and _known(value) else NONE


def short(value: float | None) -> str:
    """In four signs: 12.3 k, 4.50 M."""
    if value is None or not _known(value):
        return NONE
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            scaled = value / unit
            return f"{scaled:,.{0 if abs(scaled) >= 100 else 1 if abs(scaled) >= 10 else 2}f} {name}"
    return f"{value:,.0f}" if abs(value) >= 10 or value == round(value) else f"{value:.2g}"


def rate(value: float | None) -> str:
    return f"{short(value)}/s" if _known(value) else NONE


def length(ms: float | None) -> str:
    """Of time."""
    if ms is None or not _known(ms):
        return NONE
    for unit, below, name in ((1, 1_000, "ms"), (1e3, 1e5, "s"), (6e4, 5.4e6, "min"), (3.6e6, 1.728e8, "h")):
        if abs(ms) < below:
            return f"{ms / unit:,.0f} {name}" if unit == 1 else f"{ms / unit:,.1f} {name}"
    return f"{ms / 8.64e7:,.1f} d"


def size(value: float | None) -> str:
    """Of memory."""
    if value is None or not _known(value):
        return NONE
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if abs(value) >= unit:
            return f"{value / unit:,.{0 if abs(value) / unit >= 100 else 1}f} {name}"
    return f"{value:,.0f} B"


def percent(share: float | None, digits: int = 0) -> str:
    return f"{share * 100:,.{digits}f} %" if share is not None and _known(share) else NONE


def number(value: float | None) -> str:
    return f"{value:,.2f}" if _known(value) else NONE


def plural(many: int, noun: str, nouns: str = "") -> str:
    return f"{many:,} {noun if many == 1 else nouns or noun + 's'}"


def moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def clock(at_ms: int) -> str:
    return moment(at_ms).strftime("%H:%M:%S")


def day(at_ms: int) -> str:
    return moment(at_ms).strftime("%Y-%m-%d %H:%M:%S")


def period(from_ms: int, to_ms: int) -> str:
    """From when to when; the second day only where it is another."""
    same = moment(from_ms).date() == moment(to_ms).date()
    return f"{day(from_ms)} to {clock(to_ms) if same else day(to_ms)}"
