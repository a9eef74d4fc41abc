"""Rows of a batch, put in order, routed and counted. They are shaped as Told.java or events.py makes them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.rows import for_sink, in_order, latency_counts, tally, with_originals
from penstock.paths import shipped
from penstock.sinks.protocol import digest
from penstock.spec import KafkaSink, PipelineSpec, load
from tests.unit.test_spec_checks import EVENTS, WINDOWS

SPEC = load(shipped("pipelines") / "clickstream.toml", environ={})
assert SPEC.sessions is not None
MEASURES = [measure.name for measure in SPEC.sessions.measures]
_TYPES = {
    "events": pa.int64(),
    "purchases": pa.int64(),
    "revenue": pa.float64(),
    "top_price": pa.float64(),
}
KERNEL_ROW = pa.schema(
    [
        ("kind", pa.string()),
        ("span_id", pa.string()),
        ("key", pa.string()),
        ("start_ms", pa.int64()),
        ("end_ms", pa.int64()),
        ("version", pa.int64()),
        ("is_final", pa.bool_()),
        ("new_events", pa.int64()),
        ("oldest_created_ms", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("ts", pa.int64()),
        ("reason", pa.string()),
        ("raw", pa.binary()),
        *((name, _TYPES.get(name, pa.string())) for name in MEASURES),
    ]
)


def session(kind: str, user: str = "u1", **other: Any) -> dict[str, Any]:
    row = {
        "kind": kind,
        "span_id": f"{user}@10",
        "key": user,
        "start_ms": 10,
        "end_ms": 20,
        "version": 1,
        "is_final": kind in ("final", "corrected"),
        "new_events": 1,
        "oldest_created_ms": 1_000,
        "events": 1,
        "segment": None,
    }
    return row | other


def aside(kind: str, offset: int, **other: Any) -> dict[str, Any]:
    row = {"kind": kind, "key": "u9", "is_final": False, "new_events": 0, "oldest_created_ms": 1_000}
    return row | {"partition": 2, "offset": offset, "reason": f"{kind}: because", "raw": b"{}"} | other


def retracted(user: str, reason: str, *, was_final: bool) -> dict[str, Any]:
    return session(
        "retracted", user, is_final=was_final, version=2, new_events=0, events=None, reason=reason
    ) | {"oldest_created_ms": None}


def sink(*rows: str) -> KafkaSink:
    return KafkaSink.model_validate({"topic": "out", "rows": rows})


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), KERNEL_ROW)


ALL = table(
    session("live", "u1"),
    session("final", "u2", new_events=0, oldest_created_ms=None),
    session("corrected", "u3", version=3),
    retracted("u4", "merged into u4@5", was_final=False),
    retracted("u5", "merged into u5@5", was_final=True),
    retracted("u6", "moved to u6@5", was_final=False),
    aside("late", 7, raw=None),
    aside("rejected", 8),
    aside("duplicate", 9, raw=None),
)


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(ALL.num_rows)), st.integers(0, ALL.num_rows))
def test_the_order_and_the_digest_do_not_depend_on_how_rows_were_delivered(
    order: list[int], cut: int
) -> None:
    delivered = ALL.take(order)
    delivered = pa.concat_tables([delivered.slice(0, cut), delivered.slice(cut)])
    assert in_order(delivered).equals(in_order(ALL))
    for wanted in (["final"], ["live"], ["late", "rejected", "duplicate"]):
        one, other = (for_sink(in_order(rows), sink(*wanted), SPEC, "q", 1) for rows in (ALL, delivered))
        assert digest(one) == digest(other)


def test_versions_of_a_session_and_offsets_of_a_partition_are_put_in_order() -> None:
    rows = table(
        *(session("live", version=version) for version in (3, 1, 2)),
        *(aside("late", offset, partition=p) for offset, p in ((9, 0), (5, 1), (4, 0))),
    )
    ordered = in_order(rows)
    assert ordered["kind"].to_pylist() == ["late"] * 3 + ["live"] * 3
    assert ordered["version"].to_pylist()[3:] == [1, 2, 3]
    assert list(zip(ordered["partition"].to_pylist(), ordered["offset"].to_pylist(), strict=True))[:3] == [
        (0, 4),
        (0, 9),
        (1, 5),
    ]


@pytest.mark.parametrize(
    ("wanted", "users"),
    [
        pytest.param(
            ["final"], ["u2", "u3", "u5"], id="final: closed, corrected, and closed ones taken back"
        ),
        pytest.param(["live"], ["u1", "u2", "u3", "u4", "u5", "u6"], id="live: all that tells of a session"),
        pytest.param(["live", "final"], ["u1", "u2", "u3", "u4", "u5", "u6"], id="live includes final"),
    ],
)
def test_a_sink_of_sessions_gets_the_kinds_that_it_asked_for(wanted: list[str], users: list[str]) -> None:
    assert for_sink(ALL, sink(*wanted), SPEC, "clickstream", 4)["user_id"].to_pylist() == users


@pytest.mark.parametrize(
    ("wanted", "offsets"),
    [
        (["late"], [7]),
        (["rejected"], [8]),
        (["duplicate"], [9]),
        (["duplicate", "rejected", "late"], [7, 8, 9]),
    ],
)
def test_a_sink_of_dead_letters_gets_the_kinds_that_it_asked_for(
    wanted: list[str], offsets: list[int]
) -> None:
    rows = for_sink(ALL, sink(*wanted), SPEC, "clickstream", 4)
    assert rows["offset"].to_pylist() == offsets
    assert rows.column_names == ["kind", "reason", "partition", "offset", "raw", "query", "batch", "slot"]


def test_a_session_has_its_identity_its_key_by_name_its_measures_and_its_stamps() -> None:
    rows = for_sink(ALL, sink("final"), SPEC, "clickstream", 4)
    identity = ["session_id", "start_ms", "end_ms", "kind", "version"]
    assert rows.column_names == [*identity, "user_id", *MEASURES, "query", "batch", "slot"]
    assert set(rows["query"].to_pylist()) == {"clickstream"}
    assert set(rows["batch"].to_pylist()) == {4}
    assert set(rows["slot"].to_pylist()) == {0}


def test_identity_and_stamps_are_never_null_and_measures_may_be() -> None:
    rows = for_sink(ALL, sink("final"), SPEC, "clickstream", 4)
    required = {field.name for field in rows.schema if not field.nullable}
    assert required == {"session_id", "start_ms", "end_ms", "kind", "version", "query", "batch", "slot"}


@pytest.mark.parametrize("wanted", [["final"], ["live"], ["rejected", "late"]])
def test_a_batch_without_rows_has_the_same_columns(wanted: list[str]) -> None:
    empty, full = (for_sink(rows, sink(*wanted), SPEC, "q", 4) for rows in (ALL.slice(0, 0), ALL))
    assert empty.num_rows == 0
    assert empty.schema == full.schema


def test_a_window_is_named_by_its_own_id_and_a_distinct_says_whether_it_is_exact() -> None:
    spec = PipelineSpec(**WINDOWS)
    types = [("paid", pa.float64()), ("owners", pa.int64()), ("owners_exact", pa.bool_())]
    made = pa.schema(
        [field for field in KERNEL_ROW if field.name not in MEASURES] + [pa.field(*t) for t in types]
    )
    window = session("final", "a1", paid=9.5, owners=2, owners_exact=True)
    rows = for_sink(pa.Table.from_pylist([window], made), spec.sink[0], spec, "payments", 4)
    assert rows.column_names[:5] == ["window_id", "start_ms", "end_ms", "kind", "version"]
    assert rows.select(["window_id", "account", "paid", "owners", "owners_exact"]).to_pylist() == [
        {"window_id": "a1@10", "account": "a1", "paid": 9.5, "owners": 2, "owners_exact": True}
    ]


EVENT_ROW = pa.schema(
    [
        ("kind", pa.string()),
        ("span_id", pa.string()),
        ("version", pa.int64()),
        ("is_final", pa.bool_()),
        ("new_events", pa.int64()),
        ("oldest_created_ms", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("reason", pa.string()),
        ("raw", pa.binary()),
        ("event.kind", pa.string()),
        ("event.amount", pa.float64()),
        ("event.id", pa.string()),
    ]
)


def event(offset: int, **columns: Any) -> dict[str, Any]:
    row = {"kind": "event", "is_final": False, "new_events": 1, "oldest_created_ms": 1_000}
    return row | {"partition": 0, "offset": offset} | {f"event.{name}": v for name, v in columns.items()}


EVENT_ROWS = pa.Table.from_pylist(
    [
        event(2, id="e2", amount=2.5, kind="refund"),
        event(0, id="e0", amount=None, kind="rejected"),
        {**event(1), "kind": "rejected", "new_events": 0, "reason": "malformed: no", "raw": b"{"},
    ],
    EVENT_ROW,
)


def events_sink(**other: Any) -> KafkaSink:
    return KafkaSink.model_validate({"topic": "out", "rows": "events", "key": "id", **other})


def test_a_sink_of_events_gets_the_good_ones_with_the_columns_that_it_asked_for() -> None:
    """In its own order, under their own names, even where one of them is a name of ours."""
    chosen = events_sink(columns=["id", "kind", "amount"])
    rows = for_sink(in_order(EVENT_ROWS), chosen, PipelineSpec(**EVENTS), "payments-events", 4)
    assert rows.column_names == ["id", "kind", "amount", "query", "batch", "slot"]
    stamps = {"query": "payments-events", "batch": 4, "slot": 0}
    assert rows.to_pylist() == [
        {"id": "e0", "kind": "rejected", "amount": None, **stamps},
        {"id": "e2", "kind": "refund", "amount": 2.5, **stamps},
    ]
    assert {field.name for field in rows.schema if not field.nullable} == set(stamps)


def test_a_sink_of_events_without_columns_gets_all_of_them() -> None:
    spec = PipelineSpec(**EVENTS)
    assert spec.event_columns(events_sink()) == spec.columns()
    given_ = {f"event.{name}": pa.array([], pa.string()) for name in reversed(spec.columns())}
    none = pa.table({"kind": pa.array([], pa.string()), **given_})
    rows = for_sink(none, events_sink(), spec, "payments-events", 4)
    assert rows.column_names == [*spec.columns(), "query", "batch", "slot"]


def test_rejected_records_of_the_events_tier_leave_as_they_came() -> None:
    rows = for_sink(EVENT_ROWS, sink("rejected"), PipelineSpec(**EVENTS), "payments-events", 4)
    assert rows.select(["kind", "reason", "offset", "raw"]).to_pylist() == [
        {"kind": "rejected", "reason": "malformed: no", "offset": 1, "raw": b"{"}
    ]


def test_the_tally_of_events_counts_records_and_no_session() -> None:
    nothing = dict.fromkeys(("late", "duplicates", "opened", "closed", "corrected", "merged"), 0)
    assert tally(EVENT_ROWS) == {"decoded": 2, "rejected": 1, **nothing}
    assert latency_counts(EVENT_ROWS, visible_at_ms=1_500) == ((500, 2),)


def test_the_bytes_of_late_and_repeated_records_are_filled_in_and_others_are_left_alone() -> None:
    filled = with_originals(ALL, {(2, 7): b"as it came", (2, 8): b"other", (2, 9): b"again"})
    by_kind = dict(zip(filled["kind"].to_pylist(), filled["raw"].to_pylist(), strict=True))
    assert (by_kind["late"], by_kind["rejected"], by_kind["live"]) == (b"as it came", b"{}", None)
    assert by_kind["duplicate"] == b"again"
    assert filled.schema == ALL.schema
    assert with_originals(ALL, {}).equals(ALL)


def test_the_tally_counts_records_and_what_became_of_sessions() -> None:
    rows = table(
        session("live", "u1", new_events=3),
        session("live", "u2", new_events=2, version=2),
        session("final", "u3", new_events=4),
        session("final", "u4", new_events=0, version=5, oldest_created_ms=None),
        session("corrected", "u5", new_events=1, version=6),
        retracted("u6", "merged into u6@5", was_final=False),
        retracted("u7", "merged into u7@5", was_final=True),
        retracted("u8", "moved to u8@5", was_final=False),
        aside("late", 1),
        aside("late", 2),
        aside("rejected", 3),
        aside("duplicate", 4),
    )
    assert tally(rows) == {
        "decoded": 3 + 2 + 4 + 1 + 2 + 1,
        "rejected": 1,
        "late": 2,
        "duplicates": 1,
        "opened": 2,  # u1 and u3: a first version
        "closed": 2,
        "corrected": 1,
        "merged": 1,  # u6: u7 had been counted as closed, u8 lives on
    }


def test_sessions_that_are_only_counted_are_opened_and_hold_their_events() -> None:
    told = table(session("final", "u1", new_events=4))
    counted = {"kind": "counted", "is_final": False, "new_events": 7, "new_spans": 3}
    rows = pa.concat_tables([told, pa.Table.from_pylist([counted])], promote_options="permissive")
    assert (tally(rows)["decoded"], tally(rows)["opened"], tally(rows)["closed"]) == (11, 4, 1)


def test_the_tally_of_no_rows_is_nothing() -> None:
    assert set(tally(ALL.slice(0, 0)).values()) == {0}


def test_latency_has_the_weight_of_the_events_and_the_age_of_the_oldest() -> None:
    rows = table(
        session("live", "u1", new_events=3, oldest_created_ms=1_000),
        session("live", "u2", new_events=2, oldest_created_ms=1_000),
        session("final", "u3", new_events=1, oldest_created_ms=1_400),
    )
    assert latency_counts(rows, visible_at_ms=1_500) == ((100, 1), (500, 5))


def test_a_clock_ahead_of_ours_gives_no_negative_latency() -> None:
    rows = table(session("live", oldest_created_ms=2_000), session("live", "u2", oldest_created_ms=1_500))
    assert latency_counts(rows, visible_at_ms=1_500) == ((0, 2),)


def test_rows_without_new_events_have_no_latency() -> None:
    closed = session("final", new_events=0, oldest_created_ms=None)
    assert latency_counts(table(closed, aside("late", 1), aside("rejected", 2)), 1_500) == ()
    assert latency_counts(ALL.slice(0, 0), 1_500) == ()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5_000)), max_size=30), st.integers(0, 5_000))
def test_latency_counts_every_new_event_once(given_rows: list[tuple[int, int]], now: int) -> None:
    rows = [
        session("live", new_events=events, oldest_created_ms=created if events else None)
        for events, created in given_rows
    ]
    counts = latency_counts(table(*rows), visible_at_ms=now)
    assert sum(events for _, events in counts) == sum(events for events, _ in given_rows)
    assert [ms for ms, _ in counts] == sorted({ms for ms, _ in counts})
    assert all(ms >= 0 for ms, _ in counts)
