"""The sessions that a clickstream must give, computed from what was sent and nothing else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def expected_sessions(events: pa.Table, gap_ms: int, clock_ms: int) -> pa.Table:
    """Sessions of the events that are final when the clock stands at `clock_ms`.

    Events (user_id, event_type, page, price_cents, ts_ms) stand in the order they were sent, which decides
    between events of one moment. Two events of a user belong together when at most a gap lies between them.
    """
    users = pc.dictionary_encode(events["user_id"].cast(pa.string())).combine_chunks()
    user, ts = np.asarray(users.indices), events["ts_ms"].to_numpy()
    order = np.lexsort((np.arange(len(ts)), ts, user))
    user, ts = user[order], ts[order]
    new_user = np.diff(user, prepend=-1) != 0
    first = np.flatnonzero(new_user | (np.diff(ts, prepend=0) > gap_ms))
    last = np.append(first[1:], len(ts)) - 1 if len(first) else first
    purchase = pc.equal(events["event_type"].cast(pa.string()), "purchase").to_numpy()[order]
    cents = pc.fill_null(events["price_cents"], 0).to_numpy()[order]
    page = events["page"]
    sessions = pa.table(
        {
            "user_id": users.dictionary.take(pa.array(user[first])),
            "start_ms": ts[first],
            "end_ms": ts[last],
            "events": last - first + 1,
            "purchases": _sums(purchase.astype(np.int64), first),
            "revenue": _sums(np.where(purchase, cents, 0).astype(np.int64), first) / 100,
            "first_page": page.take(pa.array(order[first])),
            "last_page": page.take(pa.array(order[last])),
        }
    )
    return sessions.filter(pc.less_equal(pc.add(sessions["end_ms"], gap_ms), clock_ms))


def _sums(
    values: np.ndarray[tuple[int], np.dtype[np.int64]], starts: np.ndarray[tuple[int], np.dtype[np.intp]]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.add.reduceat(values, starts) if len(starts) else np.zeros(0, np.int64)
