"""Actions of users as they are drawn, written and expected."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.paths import shipped
from penstock.produce.behaviour import ACTIONS, HOT_USER, ActionChunk, BehaviourPlan
from penstock.produce.chunk import FATE_OF_FLAW, Fate, Flaw
from penstock.produce.ledger import LedgerWriter, read_ledger
from penstock.produce.oracle import expected_windows
from penstock.produce.wire import Message
from penstock.spec import PipelineSpec, load

PLAN = BehaviourPlan(users=1_000, pages=50, malformed=0.05, invalid=0.05, hot_share=0.8)
NOW_MS = 1_800_000_000_000


def behaviour(**overrides: str) -> PipelineSpec:
    keys = {name.replace("__", "."): value for name, value in overrides.items()}
    return load(shipped("pipelines") / "behaviour.toml", environ={}, overrides=keys)


@pytest.fixture(scope="module")
def chunk() -> ActionChunk:
    return PLAN.records("p1", 1_000).chunk(20_000, NOW_MS)


@pytest.fixture(scope="module")
def messages(chunk: ActionChunk) -> list[Message]:
    return PLAN.encoder("p1").encode(chunk)


def decoded(value: bytes) -> Any:
    """The action, or None where a decoder must not accept it."""
    try:
        event = json.loads(value)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("ts"), int) else None


def accepted(event: Any) -> bool:
    """The cleansing of pipelines/behaviour.toml."""
    return (
        event.get("user_id") is not None
        and event["action"] in ACTIONS
        and (event["duration_ms"] is None or event["duration_ms"] >= 0)
    )


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 1.0])
def test_one_user_does_the_share_of_all_that_was_asked_for(share: float) -> None:
    chunk = BehaviourPlan(users=1_000, hot_share=share).records("p1", 1_000).chunk(20_000, NOW_MS)
    counts = np.bincount(chunk.user, minlength=1_000) / len(chunk)
    assert abs(counts[HOT_USER] - share) < 0.02
    assert np.delete(counts, HOT_USER).max() < 0.01


def test_a_good_record_says_what_the_ledger_says(
    chunk: ActionChunk, messages: list[Message], tmp_path: Path
) -> None:
    with LedgerWriter(tmp_path, PLAN, "p1") as ledger:
        ledger.record(chunk)
    found = read_ledger(tmp_path)
    assert found.plan == PLAN
    good = 0
    for row, message in zip(found.records.to_pylist(), messages, strict=True):
        assert message["key"] == row["user_id"].encode()
        if row["fate"] == "ok":
            good += 1
            event = decoded(message["value"])
            said = ("user_id", "action", "page", "duration_ms", "created_ms", "seq")
            assert accepted(event)
            assert {name: event[name] for name in said} == {name: row[name] for name in said}
            assert (event["ts"], event["event_id"]) == (row["ts_ms"], f"p1-{row['seq']}")
    assert good > 15_000


def test_a_malformed_record_cannot_be_decoded(chunk: ActionChunk, messages: list[Message]) -> None:
    rows = np.flatnonzero(FATE_OF_FLAW[chunk.flaw] == Fate.MALFORMED).tolist()
    assert len(rows) > 500
    assert [row for row in rows if decoded(messages[row]["value"]) is not None] == []


def test_an_invalid_record_decodes_and_fails_cleansing(chunk: ActionChunk, messages: list[Message]) -> None:
    rows = np.flatnonzero(FATE_OF_FLAW[chunk.flaw] == Fate.INVALID).tolist()
    assert len(rows) > 500
    assert {Flaw(chunk.flaw[row]) for row in rows} == {Flaw.UNKNOWN_VALUE, Flaw.NEGATIVE, Flaw.NO_ID}
    assert [row for row in rows if accepted(decoded(messages[row]["value"]))] == []


def test_the_clock_is_a_good_action_by_a_user_of_its_own() -> None:
    [message] = PLAN.encoder("p9").encode(PLAN.clock_chunk(ts_ms=NOW_MS + 5, created_ms=NOW_MS))
    event = decoded(message["value"])
    assert accepted(event)
    assert (message["key"], event["user_id"], event["ts"]) == (b"clock", "clock", NOW_MS + 5)


def test_delays_fit_the_windows_of_the_spec() -> None:
    spec = behaviour(windows__size="10 seconds", windows__lateness="20 seconds")
    plan = BehaviourPlan.fitting(spec, seed=3)
    assert (plan.seed, plan.delayed_max_ms, plan.late_min_ms) == (3, 20_000, 66_000)


@dataclass(frozen=True)
class Action:
    user_id: str
    ts_ms: int
    page: str = "/"
    action: str = "read"
    duration_ms: int | None = None


def table(events: list[Action], *, cut: int = 0) -> pa.Table:
    schema = pa.schema(
        [
            ("user_id", pa.string()),
            ("ts_ms", pa.int64()),
            ("page", pa.string()),
            ("action", pa.string()),
            ("duration_ms", pa.int32()),
        ]
    )
    rows = pa.Table.from_pylist([vars(event) for event in events], schema)
    return pa.concat_tables([rows.slice(0, cut), rows.slice(cut)])


def naive(events: list[Action], size_ms: int, step_ms: int) -> list[dict[str, Any]]:
    starts = range(-size_ms, 2_000, step_ms)
    found = []
    for user in {event.user_id for event in events}:
        for start in starts:
            inside = [e for e in events if e.user_id == user and start <= e.ts_ms < start + size_ms]
            if not inside:
                continue
            inside.sort(key=lambda event: event.ts_ms)  # stable: ties stay as they were sent
            durations = [e.duration_ms for e in inside if e.duration_ms is not None]
            found.append(
                {
                    "window_id": f"{user}@{start}",
                    "user_id": user,
                    "start_ms": start,
                    "end_ms": start + size_ms,
                    "events": len(inside),
                    "dwell_ms": sum(durations) if durations else None,
                    "longest_ms": max(durations, default=None),
                    "pages": len({event.page for event in inside}),
                    "pages_exact": True,
                    "last_action": inside[-1].action,
                }
            )
    return found


EVENTS = st.lists(
    st.builds(
        Action,
        user_id=st.sampled_from(["u1", "u2", "u3"]),
        ts_ms=st.integers(1_000, 1_120),
        page=st.sampled_from(["/a", "/b", "/c", "/d"]),
        action=st.sampled_from(ACTIONS),
        duration_ms=st.none() | st.integers(0, 600_000),
    ),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(EVENTS, st.sampled_from([(10, 10), (30, 10), (50, 25)]), st.integers(0, 30))
def test_the_oracle_agrees_with_a_plain_fold(events: list[Action], shape: tuple[int, int], cut: int) -> None:
    found = expected_windows(table(events, cut=cut), *shape).to_pylist()
    assert sorted(found, key=lambda w: w["window_id"]) == sorted(
        naive(events, *shape), key=lambda w: str(w["window_id"])
    )


@pytest.mark.parametrize(("clock_ms", "final"), [(9_999, 0), (10_000, 1), (19_999, 1), (20_000, 2)])
def test_a_window_is_final_when_the_clock_reaches_its_end(clock_ms: int, final: int) -> None:
    spec = behaviour(windows__size="10 seconds")
    events = table([Action("u1", 0), Action("u1", 9_999), Action("u1", 10_000)])
    expected = PLAN.expected(spec, events, clock_ms)
    assert (expected["final"].rows.num_rows, expected["live"].rows.num_rows) == (final, 2)
    assert expected["live"].weight == "events"


def test_events_of_windows_that_overlap_are_not_counted_as_records() -> None:
    spec = behaviour(windows__size="30 seconds", windows__slide="10 seconds")
    assert PLAN.expected(spec, table([Action("u1", 0)]), 0)["live"].weight is None


def test_no_events_are_no_windows_with_the_same_columns() -> None:
    empty, full = expected_windows(table([]), 10, 10), expected_windows(table([Action("u1", 1)]), 10, 10)
    assert empty.num_rows == 0
    assert empty.schema == full.schema


def test_an_impossible_plan_is_refused_with_every_reason() -> None:
    with pytest.raises(PenstockError, match=r"(?s)pages.*hot_share.*shares"):
        BehaviourPlan(pages=0, hot_share=1.1, malformed=3)
