"""The summary of a journal: totals, rates and a window of what happened last."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from penstock.engine.receipt import Receipt
from penstock.observe.journal import Batch, Entry, Lag, Note
from penstock.observe.latency import Latency, Percentiles
from penstock.observe.recorder import slowest
from penstock.observe.summary import WINDOW_MS, Summary


def batch(at_ms: int, records: int = 0, latency: Latency | None = None, **other: Any) -> Batch:
    names = ("decoded", "rejected", "late", "duplicates", "opened", "closed", "corrected", "merged")
    counts = dict.fromkeys(names, 0)
    receipt = Receipt(
        query="q",
        batch=0,
        offsets={0: (0, records)},
        sinks=(),
        started_at_ms=at_ms,
        compute_ms=1.0,
        total_ms=other.pop("total_ms", 2.0),
        **(counts | other),
    )
    return Batch(at_ms, receipt, latency or Latency())


def lag(at_ms: int, end: int, done: int = 0) -> Lag:
    return Lag(at_ms, {0: end, 1: end}, {0: done, 1: done})


def summary(*entries: Entry) -> Summary:
    found = Summary("q")
    for entry in entries:
        found.feed(entry)
    return found


def test_totals_add_up_over_batches() -> None:
    found = summary(
        batch(1, decoded=10, rejected=1, late=2, opened=3, closed=1, corrected=4, merged=1),
        batch(2, decoded=20, rejected=2, late=1, opened=2, closed=1, corrected=1, merged=0, total_ms=7.5),
    )
    assert (found.decoded, found.rejected, found.late, found.corrected, found.batches) == (30, 3, 3, 5, 2)
    assert (found.opened, found.closed, found.merged) == (5, 2, 1)
    assert (found.last_batch_ms, found.last_batch_at_ms) == (7.5, 2)


def test_open_sessions_are_those_opened_and_neither_closed_nor_merged() -> None:
    assert summary(batch(1, opened=10, closed=3, merged=2)).sessions_open == 5


def test_open_sessions_are_never_negative_when_the_journal_is_read_from_its_middle() -> None:
    assert summary(batch(1, opened=1, closed=5)).sessions_open == 0


def test_the_newest_note_and_lag_are_shown() -> None:
    found = summary(Note(1, "running"), lag(2, 10), Note(3, "Kafka is away"), lag(4, 20, done=5))
    assert found.last_note == "Kafka is away"
    assert found.lag is not None
    assert found.lag.total == 30


def test_the_rate_in_is_what_was_added_to_the_topic_a_second() -> None:
    assert summary(lag(1_000, 100), lag(2_000, 150), lag(3_000, 400)).rate_in_eps == 300.0  # two partitions


def test_the_rate_out_is_what_came_after_the_first_batch_of_the_window() -> None:
    found = summary(batch(1_000, records=999), batch(2_000, records=100), batch(3_000, records=300))
    assert found.rate_out_eps == 200.0


@pytest.mark.parametrize("entries", [[], [lag(1, 5)], [batch(1, records=5)]])
def test_a_rate_needs_two_points(entries: list[Entry]) -> None:
    assert (summary(*entries).rate_in_eps, summary(*entries).rate_out_eps) == (0.0, 0.0)


def test_two_points_of_one_moment_do_not_divide_by_zero() -> None:
    found = summary(batch(5, 1), batch(5, 1), lag(5, 1), lag(5, 2))
    assert (found.rate_in_eps, found.rate_out_eps) == (2_000.0, 1_000.0)


def test_what_is_older_than_the_window_counts_for_no_rate() -> None:
    later = WINDOW_MS + 2_000
    found = summary(
        *(batch(at, records=1_000_000) for at in (0, 500)),
        *(batch(later + at, records=10) for at in (0, 1_000)),
        *(lag(at, end) for at, end in ((0, 0), (500, 1_000_000))),
        *(lag(later + at, 1_000_000 + at) for at in (0, 1_000)),
    )
    assert found.rate_out_eps == 10.0
    assert found.rate_in_eps == 2_000.0


def test_what_is_exactly_as_old_as_the_window_still_counts() -> None:
    found = summary(batch(0, records=1), batch(WINDOW_MS, records=500))
    assert found.rate_out_eps == 50.0


def test_the_rate_out_falls_to_nothing_when_no_batch_comes_while_time_goes_on() -> None:
    running = [batch(1_000, records=100), batch(2_000, records=100)]
    assert summary(*running, lag(3_000, 10)).rate_out_eps == 100.0
    assert summary(*running, lag(3_000 + WINDOW_MS, 10)).rate_out_eps == 0.0


def test_latency_is_of_the_window_and_of_the_whole_run() -> None:
    found = summary(
        batch(0, latency=Latency.of([(900, 10)])),
        batch(WINDOW_MS + 1, latency=Latency.of([(20, 5)])),
        batch(WINDOW_MS + 2, latency=Latency.of([(30, 5)])),
    )
    assert found.recent_latency == Percentiles(20, 30, 30)
    assert found.latency.percentiles() == Percentiles(30, 900, 900)


def test_the_latency_of_a_batch_is_not_changed_by_summing_it_up() -> None:
    one, other = Latency.of([(20, 5)]), Latency.of([(40, 5)])
    found = summary(batch(0, latency=one), batch(1, latency=other))
    assert found.recent_latency == found.recent_latency == found.latency.percentiles()
    assert (one.percentiles().max, other.percentiles().max) == (20, 40)


def test_records_are_counted_for_one_query_and_latency_for_all() -> None:
    other = batch(1_000, records=5, decoded=5, latency=Latency.of([(700, 5)]))
    other = replace(other, receipt=replace(other.receipt, query="q-events"))
    found = summary(batch(900, records=5, decoded=5, latency=Latency.of([(100, 5)])), other)
    assert (found.decoded, found.batches, found.latency.percentiles().max) == (5, 1, 700)


def test_the_lag_of_a_pipeline_is_that_of_its_slowest_query() -> None:
    assert slowest([{0: 10, 1: 7}, {0: 4, 1: 9}]) == {0: 4, 1: 7}
    assert slowest([{0: 10}, {}]) == {0: 10}
    assert slowest([{}]) == {}


def test_a_view_may_look_while_entries_come() -> None:
    found, over = Summary("q"), threading.Event()
    batches = [batch(at_ms, records=5, latency=Latency.of([(20, 5)])) for at_ms in range(2_000)]

    def feed() -> None:
        for at_ms, entry in enumerate(batches):
            found.feed(entry)
            found.feed(Lag(at_ms, {0: at_ms}, {0: 0}))
        over.set()

    feeder = threading.Thread(target=feed)
    feeder.start()
    looks = 0
    while not over.is_set() or looks == 0:
        assert found.rate_in_eps >= 0
        assert found.rate_out_eps >= 0
        looks += 1
    feeder.join()
    assert found.batches == 2_000
