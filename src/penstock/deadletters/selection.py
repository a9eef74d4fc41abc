"""Which dead letters are meant, and what there is to say of many at once."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from dataclasses import dataclass, field

from penstock.deadletters.letter import Letter, Place

_MOST_GROUPS = 200
OTHER = "(other reasons)"

# Numbers and quoted keys differ from record to record; "col1" is a name and no number.
_VARYING = re.compile(r"\['[^']*'\]|(?<![\w.-])[-+]?\d[\d.]*(?:[eE][-+]?\d+)?(?:\.\.\.)?(?!\w)")


@dataclass(frozen=True)
class Selection:
    """Letters of a kind, with a reason that contains a text, set aside since a moment."""

    kind: str | None = None
    reason: str = ""
    since_ms: int | None = None

    def takes(self, letter: Letter) -> bool:
        return (
            self.kind in (None, letter.kind)
            and self.reason.lower() in letter.reason.lower()
            and (self.since_ms is None or letter.at_ms >= self.since_ms)
        )


def reason_group(reason: str) -> str:
    """A reason without what is one record's own, so that reasons can be counted."""
    return _VARYING.sub(lambda found: "['…']" if found[0].startswith("[") else "N", reason)


@dataclass
class Summary:
    """How many letters there are of what kind and why, and the newest of them. Its size is bounded."""

    newest_count: int
    total: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    groups: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Letters by kind and group of reasons."""
    _newest: list[tuple[int, Place, Letter]] = field(default_factory=list)

    def add(self, letter: Letter) -> None:
        self.total += 1
        self.first_ms = letter.at_ms if self.first_ms is None else min(self.first_ms, letter.at_ms)
        self.last_ms = letter.at_ms if self.last_ms is None else max(self.last_ms, letter.at_ms)
        group = (letter.kind, reason_group(letter.reason))
        if group not in self.groups and len(self.groups) >= _MOST_GROUPS:
            group = (letter.kind, OTHER)
        self.groups[group] += 1
        if self.newest_count > 0:
            # No two letters share a place, so letters themselves are never compared.
            heapq.heappush(self._newest, (letter.at_ms, letter.place, letter))
            if len(self._newest) > self.newest_count:
                heapq.heappop(self._newest)

    @property
    def newest(self) -> list[Letter]:
        """The newest first."""
        return [letter for _, _, letter in sorted(self._newest, reverse=True)]

    @property
    def kinds(self) -> Counter[str]:
        counted: Counter[str] = Counter()
        for (kind, _), count in self.groups.items():
            counted[kind] += count
        return counted
