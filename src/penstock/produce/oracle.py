"""What pipelines must make of what was sent, computed from that and nothing else: NumPy, no Spark.

Events stand in the order they were sent, which decides between events of one moment: those of one key are in
one partition, in that order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.spec import PipelineSpec

Ints = NDArray[np.int64]
_LEAST = np.iinfo(np.int64).min


def expected_sessions(events: pa.Table, gap_ms: int, *, length_ms: int = 0) -> pa.Table:
    """Sessions of clicks (user_id, event_type, page, price_cents, ts_ms), open ones too.

    Two events of a user belong together when at most a gap lies between them and no multiple of `length_ms`
    (0 for never).
    """
    users, user = _numbered(events["user_id"])
    ts = events["ts_ms"].to_numpy()
    order = np.lexsort((np.arange(len(ts)), ts, user))
    user, ts = user[order], ts[order]
    breaks = _changes(user) | (np.diff(ts, prepend=0) > gap_ms)
    if length_ms:
        breaks |= _changes(ts // length_ms)
    first, last = _runs(breaks)
    purchase = pc.equal(events["event_type"].cast(pa.string()), "purchase").to_numpy()[order]
    cents = pc.fill_null(events["price_cents"], 0).to_numpy()[order]
    page = events["page"]
    user_id = users.take(pa.array(user[first]))
    return pa.table(
        {
            "session_id": _ids(user_id, ts[first]),
            "user_id": user_id,
            "start_ms": ts[first],
            "end_ms": ts[last],
            "events": last - first + 1,
            "purchases": _sums(purchase.astype(np.int64), first),
            "revenue": _sums(np.where(purchase, cents, 0).astype(np.int64), first) / 100,
            "first_page": page.take(pa.array(order[first])),
            "last_page": page.take(pa.array(order[last])),
        }
    )


def expected_windows(events: pa.Table, size_ms: int, step_ms: int) -> pa.Table:
    """Windows of behaviour (user_id, action, page, duration_ms, ts_ms), open ones too.

    Every event is in all windows that hold its time: right as long as an event late for one is late for all,
    which is always so when windows do not overlap.
    """
    users, user_of = _numbered(events["user_id"])
    pages, page_of = _numbered(events["page"])
    ts_of = events["ts_ms"].to_numpy()
    copies = size_ms // step_ms
    event = np.repeat(np.arange(len(ts_of)), copies)
    start = (ts_of // step_ms * step_ms - size_ms + step_ms).repeat(copies)
    start += np.tile(np.arange(copies) * step_ms, len(ts_of))
    order = np.lexsort((event, ts_of[event], start, user_of[event]))
    event, start = event[order], start[order]
    user = user_of[event]
    first, last = _runs(_changes(user) | _changes(start))
    window = np.repeat(np.arange(len(first)), last - first + 1)
    timed = events["duration_ms"].is_valid().to_numpy()[event]
    duration = pc.fill_null(events["duration_ms"], 0).to_numpy()[event].astype(np.int64)
    untimed = _sums(timed.astype(np.int64), first) == 0
    longest = np.maximum.reduceat(np.where(timed, duration, _LEAST), first) if len(first) else first
    pairs = np.unique(window * (len(pages) + 1) + page_of[event])
    user_id = users.take(pa.array(user[first]))
    return pa.table(
        {
            "window_id": _ids(user_id, start[first]),
            "user_id": user_id,
            "start_ms": start[first],
            "end_ms": start[first] + size_ms,
            "events": last - first + 1,
            "dwell_ms": pa.array(_sums(duration, first), mask=untimed),
            "longest_ms": pa.array(longest, pa.int64(), mask=untimed),
            "pages": np.bincount(pairs // (len(pages) + 1), minlength=len(first)),
            "pages_exact": np.ones(len(first), dtype=bool),
            "last_action": events["action"].cast(pa.string()).take(pa.array(event[last])),
        }
    )


def newest_by_id(events: pa.Table, key: str) -> pa.Table:
    """The last event of each id."""
    _, code = _numbered(events[key])
    _, from_end = np.unique(code[::-1], return_index=True)
    return events.take(pa.array(np.sort(len(code) - 1 - from_end)))


def forgotten_ms(spec: PipelineSpec, ts_ms: Ints) -> Ints:
    """Where the clock must stand for an event of this time to be late."""
    if spec.sessions is not None:
        return ts_ms + spec.sessions.gap.ms + spec.sessions.lateness.ms
    if spec.windows is not None:
        step_ms = spec.windows.step.ms
        return ts_ms // step_ms * step_ms + spec.windows.size.ms + spec.windows.lateness.ms
    return np.full(len(ts_ms), np.iinfo(np.int64).max)


def _numbered(column: pa.ChunkedArray) -> tuple[pa.Array, Ints]:
    """The different texts of a column, and the number of each row's."""
    encoded = pc.dictionary_encode(column.cast(pa.string())).combine_chunks()
    return encoded.dictionary, np.asarray(encoded.indices).astype(np.int64)


def _changes(values: Ints) -> NDArray[np.bool_]:
    """Where a value differs from the one before it; the first one does."""
    return np.concatenate([np.ones(min(1, len(values)), dtype=bool), values[1:] != values[:-1]])


def _runs(starts: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first and the last place of each run."""
    first = np.flatnonzero(starts)
    return first, np.append(first[1:], len(starts)) - 1 if len(first) else first


def _sums(values: Ints, first: NDArray[np.intp]) -> Ints:
    return np.add.reduceat(values, first) if len(first) else np.zeros(0, np.int64)


def _ids(keys: pa.Array, start_ms: Ints) -> pa.Array:
    return pc.binary_join_element_wise(keys, pc.cast(pa.array(start_ms), pa.string()), "@")
