"""Events that come a second time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.testing.events import Event, Value, value_of


@dataclass(frozen=True)
class Dedupe:
    """An id counts once for its key, until the clock is `within_ms` past the event that took it."""

    on: Value
    within_ms: int


class Seen:
    """The ids that events of one key have taken, with the times of those events."""

    def __init__(self, dedupe: Dedupe | None) -> None:
        self._dedupe = dedupe
        self._taken: dict[Any, int] = {}

    def forget(self, clock_ms: int) -> None:
        """Called before the events of each batch."""
        if self._dedupe:
            within_ms = self._dedupe.within_ms
            self._taken = {id_: ts for id_, ts in self._taken.items() if ts + within_ms > clock_ms}

    def split(self, events: Iterable[Event]) -> tuple[list[Event], list[Event]]:
        """Events with an id that is new, and those with one that was taken or comes again among them."""
        fresh: list[Event] = []
        repeated: list[Event] = []
        came: set[Any] = set(self._taken)
        for event in sorted(events, key=lambda event: event.position):
            id_ = value_of(event, self._dedupe.on) if self._dedupe else None
            (repeated if id_ in came else fresh).append(event)
            if id_ is not None:
                came.add(id_)
        return fresh, repeated

    def take(self, event: Event) -> None:
        """Called for events that were let in; a null is no id."""
        if self._dedupe and (id_ := value_of(event, self._dedupe.on)) is not None:
            self._taken[id_] = event.ts_ms
