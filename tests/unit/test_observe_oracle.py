"""The oracle of sessions against a fold that anybody can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.paths import shipped
from penstock.produce.clickstream import ClickstreamPlan
from penstock.produce.oracle import expected_sessions
from penstock.spec import load

GAP_MS = 10


@dataclass(frozen=True)
class Event:
    user_id: str
    ts_ms: int
    page: str = "/"
    event_type: str = "view"
    price_cents: int | None = None


def table(events: list[Event], *, cut: int = 0) -> pa.Table:
    schema = pa.schema(
        [
            ("user_id", pa.string()),
            ("ts_ms", pa.int64()),
            ("page", pa.string()),
            ("event_type", pa.string()),
            ("price_cents", pa.int32()),
        ]
    )
    rows = pa.Table.from_pylist([vars(event) for event in events], schema)
    return pa.concat_tables([rows.slice(0, cut), rows.slice(cut)])


def naive(events: list[Event], length_ms: int) -> list[dict[str, Any]]:
    by_user: dict[str, list[list[Event]]] = {}
    for event in sorted(events, key=lambda event: event.ts_ms):  # stable: ties stay as they were sent
        sessions = by_user.setdefault(event.user_id, [])
        before = sessions[-1][-1].ts_ms if sessions else 0
        cut = length_ms and before // length_ms != event.ts_ms // length_ms
        if sessions and event.ts_ms - before <= GAP_MS and not cut:
            sessions[-1].append(event)
        else:
            sessions.append([event])
    return [
        {
            "session_id": f"{user}@{session[0].ts_ms}",
            "user_id": user,
            "start_ms": session[0].ts_ms,
            "end_ms": session[-1].ts_ms,
            "events": len(session),
            "purchases": sum(event.event_type == "purchase" for event in session),
            "revenue": sum((e.price_cents or 0) for e in session if e.event_type == "purchase") / 100,
            "first_page": session[0].page,
            "last_page": session[-1].page,
        }
        for user, sessions in by_user.items()
        for session in sessions
    ]


def oracle(events: list[Event]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = expected_sessions(table(events), GAP_MS).to_pylist()
    return found


EVENTS = st.lists(
    st.builds(
        Event,
        user_id=st.sampled_from(["u1", "u2", "u3", "u4"]),
        ts_ms=st.integers(1_000, 1_120),
        page=st.sampled_from(["/a", "/b", "/c", "/d"]),
        event_type=st.sampled_from(["view", "cart", "purchase"]),
        price_cents=st.none() | st.integers(0, 10_000),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(EVENTS, st.sampled_from([0, 5, 37]), st.integers(0, 40))
def test_the_oracle_agrees_with_a_plain_fold(events: list[Event], length_ms: int, cut: int) -> None:
    found = expected_sessions(table(events, cut=cut), GAP_MS, length_ms=length_ms).to_pylist()

    def place(session: dict[str, Any]) -> tuple[str, int]:
        return session["user_id"], session["start_ms"]

    assert sorted(found, key=place) == sorted(naive(events, length_ms), key=place)


@pytest.mark.parametrize(("apart_ms", "sessions"), [(GAP_MS - 1, 1), (GAP_MS, 1), (GAP_MS + 1, 2)])
def test_two_events_exactly_a_gap_apart_belong_together(apart_ms: int, sessions: int) -> None:
    assert len(oracle([Event("u1", 100), Event("u1", 100 + apart_ms)])) == sessions


def test_events_of_one_moment_stay_as_they_were_sent() -> None:
    pages = [f"/{number}" for number in range(20)]
    [session] = oracle([Event("u1", 100, page) for page in pages])
    assert (session["first_page"], session["last_page"]) == ("/0", "/19")
    [session] = oracle([Event("u1", 100, page) for page in reversed(pages)])
    assert (session["first_page"], session["last_page"]) == ("/19", "/0")


@pytest.mark.parametrize(("clock_ms", "final"), [(109, 0), (110, 1), (111, 1)])
def test_a_session_is_final_when_the_clock_reaches_a_gap_after_its_end(clock_ms: int, final: int) -> None:
    spec = load(shipped("pipelines") / "clickstream.toml", environ={}, overrides={"sessions.gap": "10 ms"})
    expected = ClickstreamPlan().expected(spec, table([Event("u1", 90), Event("u1", 100)]), clock_ms)
    assert (expected["final"].rows.num_rows, expected["live"].rows.num_rows) == (final, 1)


def test_users_next_to_each_other_do_not_share_a_session() -> None:
    assert [s["events"] for s in oracle([Event("u1", 100), Event("u2", 100), Event("u1", 101)])] == [2, 1]


def test_only_purchases_make_revenue() -> None:
    bought, looked = Event("u1", 100, "/", "purchase", 1_999), Event("u1", 101, "/", "view", 5_000)
    free = Event("u1", 102, "/", "purchase", None)
    [session] = oracle([bought, looked, free])
    assert (session["purchases"], session["revenue"]) == (2, 19.99)


def test_no_events_are_no_sessions_with_the_same_columns() -> None:
    empty = expected_sessions(table([]), GAP_MS)
    full = expected_sessions(table([Event("u1", 1)]), GAP_MS)
    assert empty.num_rows == 0
    assert empty.schema == full.schema
    assert expected_sessions(table([Event("u1", 1)]).slice(0, 0), GAP_MS).num_rows == 0
