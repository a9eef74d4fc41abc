"""What the rows of a pipeline with sessions must be.

Nothing here is clever on purpose: each batch, the sessions are made anew from all events that are kept, by
sorting them and cutting where a pause is longer than the gap. The engine's rules are in Spans.java.
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

    name: str
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
        for number, (events, clock_ms) in enumerate(batches):
            for event in events:
                keys.setdefault(event.key, _Key(event.key, Seen(self.dedupe)))
            rows.append([])
            for _, key in sorted(keys.items()):
                fresh = list(self._let_in(key, events, clock_ms, rows[-1]))
                self._tell(key, fresh, number, clock_ms, rows[-1])
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

        Events of one batch that belong together are late together: when the last of them is too old, and
        none of them is near an event that the batch before kept, whatever this batch's clock says.
        """
        key.seen.forget(clock_ms)
        fresh, repeated = key.seen.split(event for event in batch if event.key == key.name)
        out += [aside("duplicate", event, "duplicate") for event in repeated]
        kept, allowed_ms = list(key.events), self.gap_ms + self.lateness_ms
        for group in self.groups(fresh):
            reaches = any(self._together(event, other) for event in group for other in kept)
            if group[-1].ts_ms + allowed_ms <= clock_ms and not reaches:
                for event in group:
                    reason = f"late: {clock_ms - event.ts_ms} ms behind the clock, {allowed_ms} allowed"
                    out.append(aside("late", event, reason))
            else:
                for event in group:
                    key.seen.take(event)
                key.events += group
                yield from group

    def _name(self, key: str, start_ms: int, parts: Sequence[_Told], number: int, clock_ms: int) -> str:
        """A session is named by its start; by the batch too where that start may have been forgotten."""
        for part in parts:
            if part.start_ms == start_ms:
                return part.name
        old = start_ms + self.gap_ms + self.lateness_ms <= clock_ms
        return f"{key}@{start_ms}#{number}" if old and number else f"{key}@{start_ms}"

    def _tell(self, key: _Key, fresh: Sequence[Event], number: int, clock_ms: int, out: list[Row]) -> None:
        """Rows for the sessions that changed or are due; those past their lateness are then forgotten."""
        before, events = key.told, key.events
        key.told, key.events = [], []
        arrived = {event.position for event in fresh}
        for group in self.groups(events):
            start_ms, end_ms = group[0].ts_ms, group[-1].ts_ms
            parts = [told for told in before if start_ms <= told.start_ms <= end_ms]
            known = _Told(
                self._name(key.name, start_ms, parts, number, clock_ms),
                start_ms,
                end_ms,
                version=max((part.version for part in parts), default=0),
                closed=any(part.closed for part in parts),
                reopened=any(part.reopened for part in parts),
            )
            due = end_ms + self.gap_ms <= clock_ms
            new_events = sum(event.position in arrived for event in group)
            if new_events or (due and (not known.closed or known.reopened)):
                out += _retractions(key.name, parts, known)
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
            "session_id": known.name,
            "key": key,
            "start_ms": known.start_ms,
            "end_ms": known.end_ms,
            "version": known.version + 1,
            "is_final": due,
            "new_events": new_events,
            "reason": None,
            **{name: measure(group) for name, measure in self.measures.items()},
        }


def _retractions(key: str, parts: Sequence[_Told], now: _Told) -> Iterator[Row]:
    """The identities that end here. One identity lives on: the one of this start, or else the earliest."""
    survivor_ms = min((part.start_ms for part in parts), default=now.start_ms)
    for part in parts:
        if part.start_ms == now.start_ms:
            continue
        verb = "moved to" if part.start_ms == survivor_ms else "merged into"
        yield {
            "kind": "retracted",
            "session_id": part.name,
            "key": key,
            "start_ms": part.start_ms,
            "end_ms": part.end_ms,
            "version": part.version + 1,
            "is_final": part.closed,
            "new_events": 0,
            "reason": f"{verb} {now.name}",
        }
