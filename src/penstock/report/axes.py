"""Where the ticks of an axis stand: round numbers of the unit that is shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from penstock.report.words import length, moment, number, percent, short, size

Unit = Literal["count", "rate", "time", "bytes", "share", "cores"]

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_TIME_STEPS = (
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 182, 365)),
)
_TOP_MAX = 1e18
_FINE, _COARSE = 10, 5


@dataclass(frozen=True)
class Tick:
    """A place on an axis, as a share of its length, and what it says."""

    at: float
    label: str
    is_fine: bool = False
    """Only where there is room."""


def say(unit: Unit, value: float | None) -> str:
    match unit:
        case "count":
            return short(value)
        case "rate":
            return f"{short(value)}/s" if value is not None else short(None)
        case "time":
            return length(value)
        case "bytes":
            return size(value)
        case "share":
            return percent(value)
        case "cores":
            return number(value)


def upright(high: float, floor: float, unit: Unit) -> tuple[float, list[Tick]]:
    """The top of an axis that begins at 0, and its ticks, four at most."""
    top = min(max(high, floor), _TOP_MAX)
    step = next(step for step in _steps(unit, top) if step * 4 >= top)
    if unit == "count":
        step = max(1, step)
    rows = max(1, math.ceil(top / step - 1e-9))
    return step * rows, [Tick(row / rows, _label(unit, step * row, step)) for row in range(rows + 1)]


def _steps(unit: Unit, top: float) -> Sequence[float]:
    if unit == "time" and top > 4 * _SECOND:
        whole = [step for step in _TIME_STEPS if step * 4 >= top]
        if whole:
            return whole
    base = 1024.0 if unit == "bytes" else 1000.0
    power = base ** math.floor(math.log(max(top, 1e-9), base))
    rounds = (
        (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if unit == "bytes" else (1, 2, 5, 10, 20, 50, 100, 200, 500)
    )
    fine = [power * part for part in (0.05, 0.1, 0.2, 0.25, 0.5)]
    return [*fine, *(power * part for part in rounds), power * base]


def _label(unit: Unit, value: float, step: float) -> str:
    if value == 0:
        return "0"
    if unit == "cores":
        return f"{value:g}"
    if unit in ("count", "rate"):
        return _round(value) + ("/s" if unit == "rate" else "")
    if unit == "time":
        for unit_ms, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (_SECOND, "s"), (1, "ms")):
            if value >= unit_ms:
                return (
                    f"{value / unit_ms:,.0f} {name}" if step >= unit_ms else f"{value / unit_ms:.3g} {name}"
                )
        return f"{value:g} ms"
    if unit == "bytes":
        for unit_bytes, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
            if value >= unit_bytes:
                return f"{value / unit_bytes:.4g} {name}"
    return say(unit, value)


def _round(value: float) -> str:
    for size_, name in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size_:
            return f"{value / size_:.4g}{name}"
    return f"{value:.4g}"


def decades(low: float, high: float) -> tuple[float, float, list[Tick]]:
    """The powers of ten around what is shown, in milliseconds: bottom, top (as logarithms), ticks."""
    bottom = math.floor(math.log10(max(1.0, low)))
    top = max(bottom + 1, math.ceil(math.log10(max(10.0, min(high, _TOP_MAX)))))
    powers = range(bottom, top + 1)
    return bottom, top, [Tick((power - bottom) / (top - bottom), _decade(power)) for power in powers]


def _decade(power: int) -> str:
    return f"{10**power:,} ms" if power < 3 else f"{10 ** (power - 3):,} s"


def over_time(from_ms: int, to_ms: int) -> list[Tick]:
    """Ten ticks at most, of which no more than five are there where there is little room."""
    span_ms = max(1, to_ms - from_ms)
    step_ms = next((step for step in _TIME_STEPS if span_ms / step <= _FINE), max(1, span_ms // _FINE))
    first = -(-from_ms // step_ms)
    steps = list(range(first, to_ms // step_ms + 1))[: _FINE + 1]
    # Of every so many one: those that are left out would stand between the others, never beside them.
    every = next(many for many in range(1, _FINE + 2) if sum(step % many == 0 for step in steps) <= _COARSE)
    return [
        Tick(
            (step * step_ms - from_ms) / span_ms, _clock(step * step_ms, step_ms, span_ms), step % every != 0
        )
        for step in steps
    ]


def _clock(at_ms: int, step_ms: int, span_ms: int) -> str:
    at = moment(at_ms)
    if step_ms >= _DAY or (span_ms > _DAY and at.hour == at.minute == 0):
        return at.strftime("%d %b")
    return at.strftime("%H:%M" if step_ms >= _MINUTE else "%H:%M:%S")
