"""What an experiment found: rows for a table, a file and a page."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import psutil

from penstock import __version__


@dataclass(frozen=True)
class Spread:
    """The median of what several rounds measured, and how far they were apart."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median(values), min(values), max(values))


def in_words(rounds: int) -> str:
    return "1 round" if rounds == 1 else f"{rounds} rounds"


Value = str | int | float | bool | Spread | None
Row = Mapping[str, Value]


@dataclass(frozen=True)
class Column:
    """One number, or one word, of each row."""

    key: str
    heading: str
    digits: int = 0
    """Behind the point."""
    drawn: bool = False
    """Whether a page has bars of it."""

    def text(self, value: Value) -> str:
        """For a person."""
        match value:
            case None:
                return ""
            case bool():
                return "yes" if value else "no"
            case str():
                return value
            case Spread():
                return f"{value.middle:,.{self.digits}f}"
            case _:
                return f"{value:,.{self.digits}f}"

    def spread(self, value: Value) -> str:
        """How far rounds were apart; empty where there was one."""
        if not isinstance(value, Spread) or value.low == value.high:
            return ""
        return f"{value.low:,.{self.digits}f} to {value.high:,.{self.digits}f}"


@dataclass(frozen=True)
class Result:
    """Of one experiment."""

    bench: str
    about: str
    """What was done, in a sentence or two."""
    columns: Sequence[Column]
    """Those of words come first: they name a row."""
    rows: Sequence[Row]
    findings: Sequence[str] = ()
    """What the rows come to."""

    def to_json(self) -> dict[str, Any]:
        return {
            "bench": self.bench,
            "about": self.about,
            "machine": machine(),
            "rows": [_flat(row) for row in self.rows],
            "findings": list(self.findings),
        }


def _flat(row: Row) -> dict[str, Any]:
    """A spread as its median, with the rest beside it."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Spread):
            flat[key] = value.middle
            flat[f"{key}_spread"] = [value.low, value.high]
        else:
            flat[key] = value
    return flat


def machine() -> dict[str, str | int | float]:
    """What the figures are of."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "penstock": __version__,
    }
