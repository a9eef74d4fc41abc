"""What the rows of a pipeline with sessions must be.

Nothing here is clever on purpose: each batch, the sessions are made anew from all events that are kept, by
sorting them and cutting where a pause is longer than the gap. The engine's rules are in Sessions.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.testing.clock import Batch
from penstock.testing.dedupe import Dedupe, Seen
from penstock.testing.events import Event, Row, aside
from penstock.testing.measures import Measure


@dataclass(frozen=True)
class _Told:
    """What readers know of a session."""

    start_ms: int
    end_ms: int
    version: int
    closed: bool
    """They have had a final row, under this identity or one that became part of it."""
    reopened: bool
    """Since then a live row; another final one is owed."""


@dataclass
class _Key:
    name: str
    seen: Seen
    events: list[Event] = field(default_factory=list)
    told: list[_Told] = field(default_factory=list)


@dataclass(frozen=True)
class Sessions:
    """Events of one key with no pause longer than the gap; see `[sessions]` in a pipeline's description."""

    gap_ms: int
    lateness_ms: int
    measures: Mapping[str, Measure]
    max_length_ms: int | None = None
    dedupe: Dedupe | None = None

    def run(self, batches: Iterable[Batch]) -> list[list[Row]]:
        """The rows of every batch; `clocked` gives batches as Spark makes them."""
        keys: dict[str, _Key] = {}
        rows: list[list[Row]] = []
        for events, clock_ms in batches:
            for event in events:
                keys.setdefault(event.key, _Key(event.key, Seen(self.dedupe)))
            rows.append([])
            for _, key in sorted(keys.items()):
                fresh = list(self._let_in(key, events, clock_ms, rows[-1]))
                self._tell(key, fresh, clock_ms, rows[-1])
        return rows

    def groups(self, events: Iterable[Event]) -> list[list[Event]]:
        """The sessions of one key's events, each in order."""
        groups: list[list[Event]] = []
        for event in sorted(events, key=lambda event: event.position):
            if groups and self._together(groups[-1][-1], event):
                groups[-1].append(event)
            else:
                groups.append([event])
        return groups

    def _together(self, a: Event, b: Event) -> bool:
        near = abs(a.ts_ms - b.ts_ms) <= self.gap_ms
        length = self.max_length_ms
        return near and (length is None or a.ts_ms // length == b.ts_ms // length)

    def _let_in(self, key: _Key, batch: Sequence[Event], clock_ms: int, out: list[Row]) -> Iterator[Event]:
        """The batch's events of a key that go into a session; the others get their row here.

        An event is saved from being late by any kept one near it: kept by the batch before, whatever this
        batch's clock says, or let in earlier in this one.
        """
        key.seen.forget(clock_ms)
        for event in sorted((e for e in batch if e.key == key.name), key=lambda event: event.position):
            behind_ms, allowed_ms = clock_ms - event.ts_ms, self.gap_ms + self.lateness_ms
            if key.seen.knows(event):
                out.append(aside("duplicate", event, "duplicate"))
            elif behind_ms >= allowed_ms and not any(self._together(event, kept) for kept in key.events):
                reason = f"late: {behind_ms} ms behind the clock, {allowed_ms} allowed"
                out.append(aside("late", event, reason))
            else:
                key.seen.take(event)
                key.events.append(event)
                yield event

    def _tell(self, key: _Key, fresh: Sequence[Event], clock_ms: int, out: list[Row]) -> None:
        """Rows for the sessions that changed or are due; those past their lateness are then forgotten."""
        before, events = key.told, key.events
        key.told, key.events = [], []
        arrived = {event.position for event in fresh}
        for group in self.groups(events):
            start_ms, end_ms = group[0].ts_ms, group[-1].ts_ms
            parts = [told for told in before if start_ms <= told.start_ms <= end_ms]
            known = _Told(
                start_ms,
                end_ms,
                version=max((part.version for part in parts), default=0),
                closed=any(part.closed for part in parts),
                reopened=any(part.reopened for part in parts),
            )
            due = end_ms + self.gap_ms <= clock_ms
            new_events = sum(event.position in arrived for event in group)
            if new_events or (due and (not known.closed or known.reopened)):
                out += _retractions(key.name, parts, start_ms)
                out.append(self._row(key.name, group, known, due, new_events))
                known = replace(
                    known,
                    version=known.version + 1,
                    closed=known.closed or due,
                    reopened=known.closed and not due,
                )
            if end_ms + self.gap_ms + self.lateness_ms > clock_ms:
                key.told.append(known)
                key.events += group

    def _row(self, key: str, group: Sequence[Event], known: _Told, due: bool, new_events: int) -> Row:
        return {
            "kind": "live" if not due else "corrected" if known.closed else "final",
            "session_id": f"{key}@{known.start_ms}",
            "key": key,
            "start_ms": known.start_ms,
            "end_ms": known.end_ms,
            "version": known.version + 1,
            "is_final": due,
            "new_events": new_events,
            "reason": None,
            **{name: measure(group) for name, measure in self.measures.items()},
        }


def _retractions(key: str, parts: Sequence[_Told], start_ms: int) -> Iterator[Row]:
    """The identities that end here. One identity lives on: the one of this start, or else the earliest."""
    survivor_ms = min((part.start_ms for part in parts), default=start_ms)
    for part in parts:
        if part.start_ms == start_ms:
            continue
        verb = "moved to" if part.start_ms == survivor_ms else "merged into"
        yield {
            "kind": "retracted",
            "session_id": f"{key}@{part.start_ms}",
            "key": key,
            "start_ms": part.start_ms,
            "end_ms": part.end_ms,
            "version": part.version + 1,
            "is_final": part.closed,
            "new_events": 0,
            "reason": f"{verb} {key}@{start_ms}",
        }
