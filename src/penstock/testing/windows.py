"""What the rows of a pipeline with windows must be: every window is the list of its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.testing.clock import Batch
from penstock.testing.dedupe import Dedupe, Seen
from penstock.testing.events import Event, Row, aside
from penstock.testing.measures import Measure


@dataclass
class _Window:
    events: list[Event] = field(default_factory=list)
    version: int = 0
    closed: bool = False


@dataclass
class _Key:
    name: str
    seen: Seen
    windows: dict[int, _Window] = field(default_factory=dict)


@dataclass(frozen=True)
class Windows:
    """Events of one key in spans of fixed length; see `[windows]` in a pipeline's description."""

    size_ms: int
    lateness_ms: int
    measures: Mapping[str, Measure]
    slide_ms: int | None = None
    """How far apart windows start; the size unless given, and never more than it."""
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
                self._batch(key, [event for event in events if event.key == key.name], clock_ms, rows[-1])
        return rows

    def starts(self, ts_ms: int) -> list[int]:
        """The windows that a time is in: all multiples of the slide in (ts - size, ts]."""
        slide_ms = self.slide_ms or self.size_ms
        newest = ts_ms // slide_ms * slide_ms
        return sorted(range(newest, ts_ms - self.size_ms, -slide_ms))

    def _batch(self, key: _Key, events: Sequence[Event], clock_ms: int, out: list[Row]) -> None:
        key.seen.forget(clock_ms)
        changed: set[int] = set()
        new_events: Counter[int] = Counter()
        fresh, repeated = key.seen.split(events)
        out += [aside("duplicate", event, "duplicate") for event in repeated]
        for event in fresh:
            taking = [start for start in self.starts(event.ts_ms) if not self._forgotten(start, clock_ms)]
            if not taking:
                out.append(aside("late", event, f"late: {clock_ms - event.ts_ms} ms behind the clock"))
                continue
            key.seen.take(event)
            new_events[taking[0]] += 1
            changed.update(taking)
            for start_ms in taking:
                key.windows.setdefault(start_ms, _Window()).events.append(event)
        for start_ms, window in sorted(key.windows.items()):
            due = start_ms + self.size_ms <= clock_ms
            if start_ms in changed or (due and not window.closed):
                out.append(self._row(key.name, start_ms, window, due, new_events[start_ms]))
                window.version += 1
                window.closed |= due
            if self._forgotten(start_ms, clock_ms):
                del key.windows[start_ms]

    def _forgotten(self, start_ms: int, clock_ms: int) -> bool:
        return start_ms + self.size_ms + self.lateness_ms <= clock_ms

    def _row(self, key: str, start_ms: int, window: _Window, due: bool, new_events: int) -> Row:
        events = sorted(window.events, key=lambda event: event.position)
        return {
            "kind": "live" if not due else "corrected" if window.closed else "final",
            "window_id": f"{key}@{start_ms}",
            "key": key,
            "start_ms": start_ms,
            "end_ms": start_ms + self.size_ms,
            "version": window.version + 1,
            "is_final": due,
            "new_events": new_events,
            "reason": None,
            **{name: measure(events) for name, measure in self.measures.items()},
        }
