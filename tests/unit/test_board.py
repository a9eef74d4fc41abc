"""What the board shows, folded from entries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.observe.board.board import Board, without_addresses
from penstock.observe.board.glance import SinkFacts
from penstock.observe.board.series import COARSE_POINTS, FINE_POINTS, NAMES_MAX, Series
from penstock.observe.board.spread import Spread
from penstock.observe.journal import Batch, Lag, Note
from penstock.observe.latency import Latency
from penstock.observe.run import Seen
from penstock.observe.samples import AuditVerdict, Work
from tests.runs import AWAY_S, BURST_S, START_MS, Run

FACTS = [
    SinkFacts("sessions_live", "clickhouse", "sessions_live", ("live",), "at_least_once"),
    SinkFacts("sessions_table", "clickhouse", "sessions", ("final",), "exactly_once"),
]


@pytest.fixture(scope="module")
def entries() -> list[Seen]:
    return Run(900).entries()


def board_at(entries: list[Seen], second: float) -> Board:
    board = Board("clickstream", "clicks", FACTS)
    for entry in entries:
        if entry.at_ms <= START_MS + second * 1000:
            board.feed(entry)
    return board


def test_totals_are_those_of_the_receipts(entries: list[Seen]) -> None:
    totals = board_at(entries, 900).glance(START_MS + 900_000).totals
    receipts = [entry.receipt for entry in entries if isinstance(entry, Batch)]
    assert totals.batches == len(receipts)
    assert totals.records == sum(receipt.records for receipt in receipts)
    assert totals.rejected == sum(receipt.rejected for receipt in receipts)
    assert totals.open == sum(receipt.opened - receipt.closed - receipt.merged for receipt in receipts)


def test_a_batch_that_came_again_is_counted_once(entries: list[Seen]) -> None:
    batch = next(entry for entry in entries if isinstance(entry, Batch))
    sinks = tuple(replace(sink, replayed=True) for sink in batch.receipt.sinks)
    again = replace(batch, at_ms=batch.at_ms + 5_000, receipt=replace(batch.receipt, sinks=sinks))
    board = Board("clickstream")
    board.feed(batch)
    board.feed(again)
    glance = board.glance(again.at_ms)
    assert glance.totals.records == batch.receipt.records
    assert [sink.rows for sink in glance.sinks] == [sink.rows for sink in batch.receipt.sinks]
    assert {sink.replays for sink in glance.sinks} == {1}


def test_a_second_query_has_a_flow_and_sinks_of_its_own_but_its_records_are_not_counted_again(
    entries: list[Seen],
) -> None:
    board = Board("clickstream")
    for entry in entries[:500]:
        board.feed(entry)
        if isinstance(entry, Batch):
            [*_, sink] = entry.receipt.sinks
            receipt = replace(
                entry.receipt, query="clickstream-events", sinks=(replace(sink, name="events"),)
            )
            board.feed(replace(entry, receipt=receipt))
    glance = board.glance(entries[499].at_ms)
    batches = [entry for entry in entries[:500] if isinstance(entry, Batch)]
    assert [flow.query for flow in glance.flows] == ["clickstream", "clickstream-events"]
    assert glance.totals.records == sum(batch.receipt.records for batch in batches)
    assert {sink.name for sink in glance.sinks if sink.query == "clickstream-events"} == {"events"}


def test_rates_in_and_out_agree_while_it_keeps_up(entries: list[Seen]) -> None:
    glance = board_at(entries, 250).glance(START_MS + 250_000)
    assert glance.rate_in_eps == pytest.approx(glance.rate_out_eps, rel=0.1)
    assert glance.rate_in_eps > 5_000


def test_a_pipeline_that_stands_still_is_not_shown_at_its_last_rate(entries: list[Seen]) -> None:
    board = board_at(entries, 250)
    assert board.glance(START_MS + 250_000).rate_out_eps > 0
    later = board.glance(START_MS + 290_000)
    assert later.rate_out_eps == 0
    assert later.rate_in_eps == 0
    assert all(sink.rate_eps == 0 for sink in later.sinks)
    assert later.flows[0].busy == 0
    assert {(stage.rate_eps, stage.busy) for stage in later.flows[0].stages} == {(0, 0)}


def test_after_a_quiet_night_a_rate_is_not_near_zero() -> None:
    found = [entry for entry in Run(60).entries() if isinstance(entry, Batch)]
    first, second = found[-2:]
    night_ms = 8 * 3_600_000
    receipt = replace(second.receipt, started_at_ms=second.receipt.started_at_ms + night_ms)
    board = Board("clickstream")
    board.feed(first)
    board.feed(replace(second, at_ms=second.at_ms + night_ms, receipt=receipt))
    assert board.glance(second.at_ms + night_ms).rate_out_eps > receipt.records / 20 > 100


def test_the_age_of_what_waits_is_since_the_topic_reached_further() -> None:
    board = Board("p")
    for second in range(100):
        # 10 records a second arrive, and the pipeline stopped at offset 400.
        board.feed(Lag(second * 1000, {0: second * 10}, {0: min(second * 10, 400)}))
    lag = board.glance(99_000).lag
    assert lag is not None
    assert lag.records == 590
    # The 401st record came in the first tenth of a second: in the middle of it, as far as one can tell.
    assert lag.age_ms == 58_950


def test_what_waits_gets_older_when_nobody_looks_at_the_topic_any_more() -> None:
    board = Board("p")
    board.feed(Lag(0, {0: 10}, {0: 10}))
    board.feed(Lag(1_000, {0: 20}, {0: 10}))
    seen, later = board.glance(1_000).lag, board.glance(31_000).lag
    assert seen is not None
    assert later is not None
    assert later.age_ms == seen.age_ms + 30_000


def test_partitions_come_worst_first(entries: list[Seen]) -> None:
    lag = board_at(entries, BURST_S[1] - 20).glance(START_MS + (BURST_S[1] - 20) * 1000).lag
    assert lag is not None
    waits = [partition.lag for partition in lag.partitions]
    assert waits == sorted(waits, reverse=True)
    assert lag.partitions[0].partition == 3


def test_stages_tell_busy_shares_and_pressure_starts_at_the_busiest_once_records_wait(
    entries: list[Seen],
) -> None:
    easy = board_at(entries, 250).glance(START_MS + 250_000).flows[0]
    pressed = board_at(entries, BURST_S[1] - 20).glance(START_MS + (BURST_S[1] - 20) * 1000).flows[0]
    assert easy.origin is None
    assert easy.busy < 0.8
    assert pressed.busy > 0.9
    shares = {stage.stage: stage.busy or 0.0 for stage in pressed.stages}
    assert pressed.origin == max(shares, key=lambda stage: shares[stage])
    assert sum(shares.values()) == pytest.approx(pressed.busy, abs=0.02)


def test_a_pipeline_without_pauses_between_batches_has_no_pressure_while_nothing_waits() -> None:
    board = Board("clickstream")
    for entry in Run(120).entries():
        if isinstance(entry, Work):
            entry = replace(entry, run_ms=entry.run_ms, total_ms=1_000)  # as long as its cycle
        board.feed(entry)
    [flow] = board.glance(START_MS + 119_000).flows
    assert flow.busy > 0.9
    assert flow.origin is None


def test_without_samples_there_are_rates_but_no_busy_shares(entries: list[Seen]) -> None:
    board = Board("clickstream")
    for entry in entries[:400]:
        if not isinstance(entry, Work):
            board.feed(entry)
    [flow] = board.glance(entries[399].at_ms).flows
    assert flow.stages[0].rate_eps
    assert {stage.busy for stage in flow.stages} == {None}
    assert flow.origin is None


def test_latency_of_a_sink_is_that_of_live_rows_moved_by_how_much_later_it_is_readable() -> None:
    board = Board("clickstream", "", FACTS)
    batch = next(entry for entry in Run(60).entries() if isinstance(entry, Batch))
    live, table = (
        replace(sink, visible_at_ms=at)
        for sink, at in zip(batch.receipt.sinks[1:3], (10_000, 10_700), strict=True)
    )
    board.feed(
        replace(batch, receipt=replace(batch.receipt, sinks=(live, table)), latency=Latency.of([(500, 9)]))
    )
    shown = {sink.name: sink.quantiles for sink in board.glance(batch.at_ms).sinks}
    assert shown["sessions_live"] is not None
    assert shown["sessions_table"] is not None
    assert shown["sessions_live"].p99 == 500
    assert shown["sessions_table"].p99 == 1_200


def test_phases_follow_the_notes(entries: list[Seen]) -> None:
    def phase(second: int) -> str:
        return board_at(entries, second).glance(START_MS + second * 1000).phase

    assert [phase(second) for second in (5, 100, AWAY_S[0] + 5, AWAY_S[1] + 5)] == [
        "starting",
        "running",
        "waiting",
        "running",
    ]


def test_failures_in_a_row_end_with_a_batch(entries: list[Seen]) -> None:
    batch = next(entry for entry in entries if isinstance(entry, Batch))
    board = Board("clickstream")
    for number in range(4):
        board.feed(Note(number, "batch failed, starting again: no"))
    assert board.glance(9).failures_in_row == 4
    board.feed(batch)
    assert board.glance(batch.at_ms).failures_in_row == 0


def test_a_verdict_of_an_audit_is_no_sign_of_life() -> None:
    board = Board("p")
    board.feed(Note(1_000, "running"))
    board.feed(AuditVerdict(60_000, 0, 0, 3, (), ()))
    glance = board.glance(60_000)
    assert glance.last_ms == 1_000
    assert glance.audit is not None


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        ("Kafka at 127.0.0.1:19092 away; waiting", "Kafka away; waiting"),
        ("Kafka at a:9092,b:9092 and ClickHouse at http://me:pw@h:8123 away", "Kafka and ClickHouse away"),
        ("batch failed: postgresql://me:secret@db/x says no", "batch failed: says no"),
        ('"postgresql://me:secret@db/x" says no', '"" says no'),
        ("no way in for me:hunter2@db:5432 today", "no way in for today"),
        ("refused: password = 'hunter2', try again", "refused:', try again"),
        ("login with API_KEY=abc123 failed", "login with failed"),
        ("lookup users: version 6af1 from the next batch on",) * 2,
        ("clickstream: gives up offsets 12 to 15 of partition 3",) * 2,
    ],
)  # fmt: skip
def test_a_note_is_shown_without_addresses(note: str, shown: str) -> None:
    assert without_addresses(note).replace("  ", " ") == shown


def test_memory_is_bounded_whatever_comes() -> None:
    series = Series()
    for step in range(3 * FINE_POINTS):
        series.put(step * 40_000, {f"name_{step}": 1.0, "rate": 2.0})
    fine, coarse = series.fine(), series.coarse()
    assert len(fine.columns) == NAMES_MAX
    assert len(fine.at_ms) <= FINE_POINTS
    assert len(coarse.at_ms) <= COARSE_POINTS


@given(st.lists(st.tuples(st.integers(0, 5_000), st.floats(0, 1e6)), min_size=1, max_size=200))
def test_a_second_holds_the_greatest_of_its_values(puts: list[tuple[int, float]]) -> None:
    """Whatever order they come in, as long as none is older than all that is kept."""
    series, most = Series(), dict[int, float]()
    for tenths, value in puts:
        series.put(tenths * 100, {"lag": value})
        second = tenths // 10
        most[second] = max(most.get(second, 0.0), float(np.float32(value)))
    newest = max(most)
    expected = {second * 1000: value for second, value in most.items() if second > newest - FINE_POINTS}
    points = series.fine()
    assert dict(zip(points.at_ms, points.columns["lag"].tolist(), strict=True)) == expected


def test_a_rate_of_ten_seconds_is_the_mean_of_its_seconds() -> None:
    series = Series()
    for second in range(2_000):
        series.put(second * 1000, {"rate_in": second % 10, "lag": second % 10})
    coarse = series.coarse()
    assert coarse.columns["rate_in"].tolist() == pytest.approx([4.5] * len(coarse.at_ms))
    assert coarse.columns["lag"].tolist() == [9.0] * len(coarse.at_ms)
    # Fine points begin where coarse ones end.
    assert coarse.at_ms[-1] + 10_000 <= series.fine().at_ms[0]


@pytest.mark.parametrize(
    ("values", "since"),
    [([1, 1, 5, 6], 2_000), ([5, 5, 5], 0), ([5, 5, 1], None), ([], None), ([5, float("nan"), 6], 0)],
)
def test_since_when_a_number_is_high(values: list[float], since: int | None) -> None:
    series = Series()
    for second, value in enumerate(values):
        if not np.isnan(value):
            series.put(second * 1000, {"age": value})
    assert series.held_since("age", lambda ages: ages > 4) == since


@given(st.lists(st.tuples(st.integers(1, 1_000), st.integers(1, 50)), min_size=1, max_size=50))
def test_quantiles_are_those_of_the_events(counts: list[tuple[int, int]]) -> None:
    told = Spread.of(Latency.of(counts)).quantiles()
    events = np.sort(np.repeat([ms for ms, _ in counts], [events for _, events in counts]))
    assert told is not None
    assert told.p50 == events[int(np.ceil(0.5 * len(events))) - 1]
    assert told.p99 == events[int(np.ceil(0.99 * len(events))) - 1]
    assert told.max == events[-1]
