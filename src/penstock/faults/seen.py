"""What a reader that was there all along saw, against what is there in the end: pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

_EXAMPLES_MAX = 3


@dataclass(frozen=True)
class Row:
    """A row as a reader knows it: what it is called, and a fingerprint of all it says."""

    name: tuple[Hashable, ...]
    content: Hashable


def twice(rows: Iterable[Row]) -> list[Row]:
    """The rows whose name came before."""
    known, again = set[tuple[Hashable, ...]](), []
    for row in rows:
        if row.name in known:
            again.append(row)
        known.add(row.name)
    return again


def differences(reader: str, seen: Mapping[Hashable, Row], final: Mapping[Hashable, Row]) -> list[str]:
    """What is wrong with rows by their place: each must still be there, as it was, and none twice."""
    gone = [row for place, row in seen.items() if final.get(place) != row]
    problems = []
    if not seen:
        problems.append(f"{reader}: the reader saw nothing")
    if gone:
        problems.append(f"{reader}: {len(gone)} rows were seen and taken back, e.g. {_named(gone)}")
    if again := twice(final.values()):
        problems.append(f"{reader}: {len(again)} rows came twice, e.g. {_named(again)}")
    return problems


def _named(rows: list[Row]) -> str:
    return ", ".join("/".join(map(str, row.name)) for row in rows[:_EXAMPLES_MAX])
