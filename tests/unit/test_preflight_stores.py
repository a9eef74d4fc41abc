"""The rules on tables and on what sinks hold: a table of cases for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.layout import StateLayout
from penstock.errors import SinkError
from penstock.preflight.facts import (
    Away,
    ClickHouseTable,
    Facts,
    Held,
    JournalFacts,
    NoPosition,
    PostgresTable,
    Start,
    Unreadable,
)
from penstock.preflight.judge import could_look
from penstock.preflight.rules.positions import positions
from penstock.preflight.rules.postgres import connections
from penstock.preflight.wanted import columns_of, key_of
from penstock.sinks.protocol import Batch, Position, must_write
from tests.unit.preflight_facts import (
    CHECKPOINT,
    CLICKHOUSE,
    DAY_MS,
    FACTS,
    KAFKA,
    NOW_MS,
    POSTGRES,
    SPEC,
    matters,
    only,
    respecified,
    told,
    with_clickhouse,
    with_postgres,
)

HOUSE = ClickHouseTable("MergeTree", frozenset(columns_of(SPEC, SPEC.sink[1])), 1000)
ELEPHANT = PostgresTable(frozenset(columns_of(SPEC, SPEC.sink[2])), frozenset({frozenset({"session_id"})}))
AT_LEAST_ONCE = respecified(
    sink=[
        {**sink.model_dump(mode="json", exclude_none=True), "guarantee": "at_least_once"}
        for sink in SPEC.sink
    ]
)


def house(**changes: Any) -> Facts:
    return with_clickhouse(tables={**CLICKHOUSE.tables, "sessions": replace(HOUSE, **changes)})


def elephant(**changes: Any) -> Facts:
    return with_postgres(tables={**POSTGRES.tables, "sessions": replace(ELEPHANT, **changes)})


def test_a_table_wants_the_columns_that_the_engine_sends() -> None:
    stamps = ["query", "batch", "slot"]
    spans = ["session_id", "start_ms", "end_ms", "kind", "version", "user", "clicks", "page"]
    assert columns_of(SPEC, SPEC.sink[1]) == [*spans, *stamps]
    assert key_of(SPEC, SPEC.sink[1]) == "session_id"
    events = respecified(sink=[{"kind": "postgres", "table": "t", "rows": "events", "key": "page"}])
    assert columns_of(events, events.sink[0]) == ["user", "ts", "page", *stamps]
    assert key_of(events, events.sink[0]) == "page"


@pytest.mark.parametrize("store", ["clickhouse", "postgres"])
def test_a_store_that_is_away_is_waited_for_and_one_that_refuses_us_is_not(store: str) -> None:
    away = replace(FACTS, **{store: Away("there:1", "no answer")})  # type: ignore[arg-type]
    refused = replace(FACTS, **{store: Away("there:1", "wrong password", refused=True)})  # type: ignore[arg-type]
    assert told(away) == [("warning", store, "there:1 does not answer: no answer")]
    assert told(refused) == [("error", store, "there:1 refuses us: wrong password")]
    assert not could_look(away)
    assert not could_look(refused)


@pytest.mark.parametrize(
    ("facts", "severity", "what"),
    [
        (house(columns=HOUSE.columns - {"page", "slot"}), "error", "table sessions has no column page, slot"),
        (
            house(deduplication_window=0),
            "error",
            "table sessions remembers no insert (non_replicated_deduplication_window = 0)",
        ),
        (
            house(deduplication_window=99),
            "warning",
            "table sessions remembers 99 inserts (non_replicated_deduplication_window)",
        ),
        (house(engine="Memory"), "error", "table sessions is a Memory, which recognises no insert"),
        (
            house(engine="ReplacingMergeTree"),
            "warning",
            "table sessions is a ReplacingMergeTree, which merges rows",
        ),
        (house(partition_key="toDate(end_ms)"), "warning", "table sessions is partitioned by toDate(end_ms)"),
    ],
)
def test_a_table_in_clickhouse_must_hold_a_batch_once(facts: Facts, severity: str, what: str) -> None:
    assert told(facts) == [(severity, "sink table", what)]


@pytest.mark.parametrize(
    "changes",
    [
        {"deduplication_window": 100},
        {"deduplication_window": 0, "engine": "ReplicatedMergeTree"},
        {"deduplication_window": 0, "engine": "SharedMergeTree"},
        {"columns": HOUSE.columns | {"more"}},
    ],
)
def test_a_table_in_clickhouse_that_can_hold_a_batch_once_is_well(changes: dict[str, Any]) -> None:
    assert told(house(**changes)) == []


def test_at_least_once_needs_a_table_that_replaces_rows() -> None:
    found = only(replace(house(deduplication_window=0), spec=AT_LEAST_ONCE))
    assert (found.severity, found.about) == ("warning", "sink table")
    assert told(replace(house(engine="ReplacingMergeTree"), spec=AT_LEAST_ONCE)) == []


@pytest.mark.parametrize("may_create", [True, None])
def test_tables_that_are_not_there_are_made(may_create: bool | None) -> None:
    bare = dict.fromkeys(CLICKHOUSE.tables)
    assert told(with_clickhouse(tables=bare, may_create=may_create)) == []
    assert told(with_postgres(tables=dict.fromkeys(POSTGRES.tables))) == []


def test_tables_that_cannot_be_made_stop_a_start() -> None:
    bare = dict.fromkeys(CLICKHOUSE.tables)
    assert [found.about for found in matters(with_clickhouse(tables=bare, may_create=False))] == [
        "sink table",
        "positions",
    ]
    nowhere = with_postgres(
        tables=dict.fromkeys(bare), creatable={"sessions": False, "penstock_positions": False}
    )
    assert [(found.about, found.stops) for found in matters(nowhere)] == [
        ("sink rows", True),
        ("positions", True),
    ]


@pytest.mark.parametrize(
    ("facts", "severity", "about", "what"),
    [
        (
            elephant(unique=frozenset()),
            "error",
            "sink rows",
            "table sessions has no unique index on session_id",
        ),
        (
            elephant(unique=frozenset({frozenset({"session_id", "version"})})),
            "error",
            "sink rows",
            "table sessions has no unique index on session_id",
        ),
        (
            elephant(columns=ELEPHANT.columns - {"clicks"}),
            "error",
            "sink rows",
            "table sessions has no column clicks",
        ),
        (elephant(writable=False), "error", "sink rows", "we may not write to table sessions"),
        (with_postgres(read_only=True), "error", "postgres", "elephant:5432 is read-only"),
        (with_postgres(may_make_temporary=False), "error", "postgres", "we may not make temporary tables"),
        (with_postgres(fsync=False), "warning", "postgres", "fsync is off"),
        (
            with_postgres(connections_free=0),
            "error",
            "postgres",
            "0 of 100 connections are free, the pipeline takes 1",
        ),
        (
            with_postgres(connections_free=1),
            "warning",
            "postgres",
            "1 of 100 connections are free, the pipeline takes 1",
        ),
    ],
)
def test_postgres_must_take_a_row_by_its_key(facts: Facts, severity: str, about: str, what: str) -> None:
    assert told(facts) == [(severity, about, what)]
    assert only(facts).fix


def holding(sink: str, held: Held, **changes: Any) -> Facts:
    stores: dict[str, Any] = {
        "sessions": {"kafka": replace(KAFKA, positions={"sessions": (held,)})},
        "table": {"clickhouse": replace(CLICKHOUSE, positions={"table": (held,)})},
        "rows": {"postgres": replace(POSTGRES, positions={"rows": (held,)})},
    }
    return replace(FACTS, **stores[sink], **changes)


@pytest.mark.parametrize("sink", ["sessions", "table", "rows"])
@pytest.mark.parametrize(
    ("held", "what"),
    [
        (NoPosition(), "holds no position, but batch 8 is due"),
        (Position(3, 1, "d"), "holds batch 3, but batch 8 is due: 4 to 7 are not there"),
        (Position(9, 1, "d"), "holds batch 9, but batch 8 is due"),
    ],
)
def test_a_sink_that_does_not_hold_the_batch_before_stops_a_start(sink: str, held: Held, what: str) -> None:
    found = only(holding(sink, held))
    assert (found.stops, found.about, found.what) == (True, f"sink {sink}", what)


@pytest.mark.parametrize(
    ("planned", "committed", "held"),
    [(7, 7, 7), (7, 7, 8), (8, 7, 7), (8, 7, 8), (0, -1, 0)],
)
def test_a_sink_may_hold_the_batch_before_or_the_one_that_is_due(
    planned: int, committed: int, held: int
) -> None:
    checkpoint = replace(CHECKPOINT, planned=planned, committed=committed)
    facts = holding("sessions", Position(held, 1, "d"), checkpoints=(checkpoint,))
    assert [
        found for found in positions(facts) if found.severity != "ok" and found.about == "sink sessions"
    ] == []


def test_a_person_or_a_new_name_can_adopt_a_sink_but_never_one_that_is_ahead() -> None:
    ahead, none = Position(9, 1, "d"), NoPosition()
    adopt = Start(adopt=("rows",))
    assert told(holding("rows", none, start=adopt)) == []
    assert len(told(holding("rows", ahead, start=adopt))) == 1
    layout = StateLayout({"engine": "kernel"}, [[]], {}, ["sessions", "table"])
    new = (replace(CHECKPOINT, layout=layout),)
    assert [found.severity for found in positions(holding("rows", none, checkpoints=new))] == ["ok", "ok"]


def test_a_position_that_time_took_is_explained() -> None:
    facts = holding("sessions", NoPosition(), journal=JournalFacts(last_at_ms=NOW_MS - 9 * DAY_MS))
    kafka = replace(KAFKA, positions={"sessions": (NoPosition(),)}, offsets_retention_ms=7 * DAY_MS)
    [_, found] = matters(replace(facts, kafka=kafka))
    assert found.what == (
        "holds no position, but batch 8 is due: the pipeline stood for 9 days,"
        " the cluster forgets after 7 days"
    )


EVENTS_SINK = {"kind": "postgres", "table": "sessions", "name": "rows", "rows": "events", "key": "user"}


def test_each_slot_of_a_sink_must_hold_the_batch_before() -> None:
    spec = respecified(sink=[{**EVENTS_SINK, "writers": 3}])
    held = (Position(7, 1, "d"), NoPosition(), Position(8, 1, "d"))
    checkpoints = (replace(CHECKPOINT, query="visits-events", sinks=("rows",)),)
    store = replace(POSTGRES, positions={"rows": held})
    found = list(positions(replace(FACTS, spec=spec, postgres=store, checkpoints=checkpoints)))
    assert [(one.severity, one.about) for one in found] == [
        ("ok", "sink rows, slot 0"),
        ("error", "sink rows, slot 1"),
        ("ok", "sink rows, slot 2"),
    ]
    assert found[1].fix is not None
    assert "--adopt rows" in found[1].fix


def test_each_slot_of_a_sink_takes_a_connection() -> None:
    facts = replace(with_postgres(connections_free=3), spec=respecified(sink=[{**EVENTS_SINK, "writers": 4}]))
    [found] = connections(facts)
    assert found.what == "3 of 100 connections are free, the pipeline takes 4"


def test_what_moves_or_cannot_be_read_is_not_compared() -> None:
    running = replace(CHECKPOINT, locked=True)
    facts = holding("rows", NoPosition(), checkpoints=(running,))
    assert list(positions(facts)) == []
    assert [found.severity for found in matters(holding("rows", Unreadable("loading")))] == ["note"]


@given(
    held=st.none() | st.integers(-1, 6),
    planned=st.integers(-1, 5),
    is_done=st.booleans(),
    adopt=st.booleans(),
)
def test_a_start_is_stopped_exactly_where_the_sink_would_refuse_the_batch(
    held: int | None, planned: int, is_done: bool, adopt: bool
) -> None:
    checkpoint = replace(
        CHECKPOINT, planned=planned, committed=planned if is_done or planned < 0 else planned - 1
    )
    held_ = NoPosition() if held is None else Position(held, 0, "d")
    facts = holding("rows", held_, checkpoints=(checkpoint,), start=Start(adopt=("rows",) if adopt else ()))
    stops = any(found.stops for found in positions(facts) if found.about == "sink rows")
    try:
        must_write(
            "rows",
            Batch("visits", checkpoint.due, pa.table({}), "d"),
            None if held is None else Position(held, 0, "d"),
            adopt=adopt,
        )
        refused = False
    except SinkError:
        refused = True
    assert stops == refused
