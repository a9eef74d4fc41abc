"""Rows that came against rows that must come, in words."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from penstock.testing.events import Row

RELATIVE = 1e-9


def differences(expected: Sequence[Row], actual: Sequence[Row], relative: float = RELATIVE) -> list[str]:
    """One line a difference; none when every row came, once, and no other.

    Only the columns that an expected row has are compared. A reason need only begin as expected, and floats
    agree to `relative`. The order of rows does not matter.
    """
    came: dict[object, list[Row]] = defaultdict(list)
    for row in actual:
        came[_identity(row)].append(row)
    found = []
    for row in expected:
        same = came[_identity(row)]
        if not same:
            found.append(f"missing: {_name(row)}")
            continue
        other = same.pop(0)
        found += [
            f"{_name(row)}: {column} is {other.get(column)!r}, expected {value!r}"
            for column, value in row.items()
            if not _agree(column, value, other.get(column), relative)
        ]
    return found + [f"unexpected: {_name(row)}" for rows in came.values() for row in rows]


def differences_by_batch(
    expected: Sequence[Sequence[Row]], actual: Sequence[Sequence[Row]], relative: float = RELATIVE
) -> list[str]:
    """The same for the rows of many batches, each of which must hold its own."""
    found = [
        f"batch {number}: {line}"
        for number, (wanted, came) in enumerate(zip(expected, actual, strict=False))
        for line in differences(wanted, came, relative)
    ]
    if len(expected) != len(actual):
        found.append(f"{len(actual)} batches came, expected {len(expected)}")
    return found


def _identity(row: Row) -> tuple[object, ...]:
    """What tells a row apart from all others of its pipeline."""
    return _id(row), row.get("version"), row.get("partition"), row.get("offset")


def _id(row: Row) -> str | None:
    return row.get("session_id") or row.get("window_id")


def _name(row: Row) -> str:
    if _id(row) is not None:
        return f"{row.get('kind')} {_id(row)} version {row.get('version')}"
    return f"{row.get('kind')} record {row.get('partition')}/{row.get('offset')}"


def _agree(column: str, expected: Any, actual: Any, relative: float) -> bool:
    if column == "reason" and isinstance(expected, str) and isinstance(actual, str):
        return actual.startswith(expected)
    if isinstance(expected, float) and isinstance(actual, float | int):
        both_nan = math.isnan(expected) and math.isnan(actual)
        return both_nan or math.isclose(expected, actual, rel_tol=relative)
    return bool(expected == actual)
