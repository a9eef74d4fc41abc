"""The sums of a plan as they are written down, and numbers as people write them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_RATES = ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s")
_TIMES = (("days", 86_400), ("h", 3_600), ("min", 60))


@dataclass(frozen=True)
class Step:
    """One sum: its name, the formula, the same with numbers, and what comes out."""

    name: str
    value: float
    unit: str
    formula: str
    numbers: str = ""

    @property
    def text(self) -> str:
        return amount(self.value, self.unit)


@dataclass
class Sheet:
    """Steps by subject, in the order in which they are taken."""

    steps: dict[str, list[Step]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """Keys of a description, as `--set` takes them."""
    problems: list[str] = field(default_factory=list)

    def about(self, subject: str) -> None:
        self.steps[subject] = []

    def step(self, name: str, value: float, unit: str, formula: str, numbers: str = "") -> float:
        """Write a sum down under the last subject; what comes out."""
        list(self.steps.values())[-1].append(Step(name, value, unit, formula, numbers))
        return value


def amount(value: float, unit: str) -> str:
    """A number with its unit."""
    if unit == "B":
        return _scaled(value, 1024, _SIZES)
    if unit == "B/s":
        return _scaled(value, 1000, _RATES)
    if unit == "s":
        return _time(value)
    if unit in ("us", "ms", "%", "x"):
        return f"{value:.3g} {unit}"
    return f"{value:,.0f}{unit}" if unit.startswith("/") else f"{value:,.0f} {unit}".strip()


def _scaled(value: float, base: int, units: tuple[str, ...]) -> str:
    power = 0
    while value >= base and power < len(units) - 1:
        value, power = value / base, power + 1
    return f"{value:.3g} {units[power]}" if value < 1000 else f"{value:,.0f} {units[power]}"


def _time(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "never"
    for unit, length in _TIMES:
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
