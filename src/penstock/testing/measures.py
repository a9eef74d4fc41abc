"""What is measured: a function from all events of a session or window, in order, to a value.

Nulls are passed over. Any function of this shape is a measure; these say what the engine's aggregates are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from penstock.testing.events import Event, Value, value_of

Measure = Callable[[Sequence[Event]], Any]


def _over(of: Value, fold: Callable[[list[Any]], Any]) -> Measure:
    def measure(events: Sequence[Event]) -> Any:
        values = (value_of(event, of) for event in events)
        return fold([value for value in values if value is not None])

    return measure


def count(of: Value | None = None) -> Measure:
    """How many events, or how many values that are not null."""
    return len if of is None else _over(of, len)


def total(of: Value) -> Measure:
    """The sum; of doubles it is rounded once, so that it depends on no order.

    Null of no values, and where a sum of whole numbers does not fit 64 bits.
    """

    def add(values: list[Any]) -> Any:
        if not values:
            return None
        if any(isinstance(value, float) for value in values):
            return math.fsum(values)
        whole = sum(values)
        return None if isinstance(whole, int) and not -(2**63) <= whole < 2**63 else whole

    return _over(of, add)


def lowest(of: Value) -> Measure:
    """The least value; null of no values."""
    return _over(of, lambda values: min(values, default=None))


def highest(of: Value) -> Measure:
    """The greatest value; null of no values."""
    return _over(of, lambda values: max(values, default=None))


def first(of: Value) -> Measure:
    """The earliest value, by event time, then partition and offset."""
    return _over(of, lambda values: values[0] if values else None)


def last(of: Value) -> Measure:
    """The latest value, by event time, then partition and offset."""
    return _over(of, lambda values: values[-1] if values else None)


def distinct(of: Value) -> Measure:
    """How many different values. Exact always; above 1,024 of them the engine estimates."""
    return _over(of, lambda values: len(set(values)))
