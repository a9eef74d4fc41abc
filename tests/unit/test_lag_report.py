"""All that is said of a pipeline's lag, from its journal: read, judged, written down, shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.cli.common import console
from penstock.engine.receipt import Receipt
from penstock.observe.journal import Batch, Entry, JournalWriter, Lag
from penstock.observe.lag.age import LagTime, NoLag
from penstock.observe.lag.group import progress_group
from penstock.observe.lag.history import LagHistory
from penstock.observe.lag.looks import Look
from penstock.observe.lag.report import Ends, LagReport, NotBegun, lag_report
from penstock.observe.lag.skew import Skew
from penstock.observe.lag.trend import Growing, Stalled, Steady
from penstock.observe.latency import Latency
from penstock.sinks.kafka import positions_group
from tests.unit.lag_pipelines import START_MS, Paper, as_lags, steadily

DAY_MS = 86_400_000
CALM = Paper(steadily(1_000)).run(300)
BUSY = Paper(steadily(3_000)).run(300)
SLOW = Paper(steadily(1_000), capacity_eps=500, max_batch=1_000).run(300)
STUCK = Paper(steadily(1_000), frozen=(150, 999)).run(300)
NOW_MS = CALM[-1].at_ms


def reported(lags: list[Lag], now_ms: int = NOW_MS, **known: object) -> LagReport:
    found = lag_report("clicks", lags, now_ms, **known)  # type: ignore[arg-type]
    assert isinstance(found, LagReport)
    return found


def batch(at_ms: int, query: str = "clicks", **ends: int) -> Batch:
    offsets = {int(name.removeprefix("p")): (0, end) for name, end in ends.items()}
    names = ("decoded", "rejected", "late", "duplicates", "opened", "closed", "corrected", "merged")
    counts: dict[str, Any] = dict.fromkeys(names, 0)
    receipt = Receipt(query, 0, offsets, sinks=(), started_at_ms=0, compute_ms=0.0, total_ms=0.0, **counts)
    return Batch(at_ms, receipt, Latency())


def journal(path: Path, *entries: Entry) -> Path:
    writer = JournalWriter(path)
    for entry in entries:
        writer.write(entry)
    writer.close()
    return path


def test_a_pipeline_that_keeps_up_is_well() -> None:
    found = reported(as_lags(CALM, BUSY))
    assert found.is_well
    assert found.lag == CALM[-1].lag + BUSY[-1].lag
    assert found.in_eps == pytest.approx(4_000, rel=0.02)
    assert found.out_eps == pytest.approx(4_000, rel=0.02)
    assert found.trend == Steady()
    assert isinstance(found.in_skew, Skew)
    assert found.in_skew.largest == 1
    assert found.in_skew.share == pytest.approx(0.75, abs=0.01)


def test_the_worst_partition_comes_first_and_one_that_is_stuck_fails_the_whole() -> None:
    found = reported(as_lags(CALM, BUSY, STUCK, SLOW))
    assert [one.partition for one in found.partitions][:2] == [2, 3]
    worst = found.partitions[0]
    assert isinstance(worst.trend, Stalled)
    assert worst.health.verdict == "stalled"
    assert worst.share == worst.lag / found.lag
    assert not found.is_well


def test_the_age_of_what_waits_goes_by_when_it_came() -> None:
    """The position has stood still since second 151, and what waits has come since."""
    [one] = reported(as_lags(STUCK)).partitions
    assert isinstance(one.age, LagTime)
    position_came_ms = START_MS + STUCK[-1].position
    assert one.age.ms == pytest.approx(NOW_MS - position_came_ms, abs=1_000)


@pytest.mark.parametrize(("kept_ms", "well"), [(None, True), (100 * DAY_MS, True), (600_000, False)])
def test_a_partition_that_grows_fails_the_whole_only_if_it_loses_data_within_a_day(
    kept_ms: int | None, well: bool
) -> None:
    found = reported(as_lags(SLOW), kept_ms=kept_ms)
    [one] = found.partitions
    assert isinstance(one.trend, Growing)
    assert (one.trend.loses_data_in_s is None) == (kept_ms is None)
    assert found.is_well is well


def test_a_pipeline_that_stopped_is_judged_by_fresh_ends() -> None:
    lags = as_lags(CALM)
    done = lags[-1].done[0]
    hour_later_ms = NOW_MS + 3_600_000
    idle = reported(lags, hour_later_ms, ends=Ends(hour_later_ms, {0: done}))
    assert (idle.lag, idle.age, idle.is_well, idle.ends_at_ms) == (0, NoLag(), True, hour_later_ms)
    behind = reported(lags, hour_later_ms, ends=Ends(hour_later_ms, {0: done + 500_000}))
    assert (behind.lag, behind.is_well) == (500_000, False)
    assert behind.partitions[0].health.verdict == "stopped"
    assert behind.partitions[0].trend == behind.trend == Stalled(NOW_MS)
    assert behind.heard_at_ms == NOW_MS


def test_without_fresh_ends_those_of_the_journal_stand() -> None:
    found = reported(as_lags(STUCK), NOW_MS + 3_600_000)
    assert (found.ends_at_ms, found.lag) == (NOW_MS, STUCK[-1].lag)
    assert found.partitions[0].health.verdict == "stopped"


def test_ends_that_kafka_told_before_the_journal_did_are_out_of_date() -> None:
    found = reported(as_lags(CALM), ends=Ends(NOW_MS - 5_000, {0: CALM[-1].end - 5_000}))
    assert (found.lag, found.ends_at_ms) == (CALM[-1].lag, NOW_MS)


def test_a_topic_that_was_made_anew_is_noticed() -> None:
    found = reported(as_lags(CALM), NOW_MS + 1_000, ends=Ends(NOW_MS + 1_000, {0: 3}))
    assert found.partitions[0].health.verdict == "beyond"
    assert not found.is_well


def test_a_partition_that_came_later_is_read_from_its_beginning() -> None:
    lags = as_lags(CALM)
    found = reported([*lags[:-1], replace(lags[-1], ends={0: lags[-1].ends[0], 1: 70})])
    assert {one.partition: one.lag for one in found.partitions}[1] == 70


def test_nothing_is_said_before_the_first_batch() -> None:
    assert lag_report("clicks", [], NOW_MS) == NotBegun()
    assert lag_report("clicks", [Lag(1, {0: 5}, {})], NOW_MS) == NotBegun()


def test_a_clock_that_was_put_back_begins_the_series_anew() -> None:
    later = [replace(lag, at_ms=lag.at_ms - 7_200_000) for lag in as_lags(CALM)]
    before = as_lags([Look(one.at_ms, 0, 10) for one in CALM])
    assert reported([*before, *later], NOW_MS - 7_200_000).trend == Steady()


def test_a_history_goes_on_where_it_stopped_and_counts_batches_that_ended_since(tmp_path: Path) -> None:
    path = journal(tmp_path / "journal.jsonl", Lag(1_000, {0: 50}, {0: 10}), batch(1_500, p0=30))
    history = LagHistory(path)
    assert history.read() == [Lag(1_000, {0: 50}, {0: 10}), Lag(1_500, {0: 50}, {0: 30})]
    journal(path, Lag(2_000, {0: 60}, {0: 30}))
    assert history.read() == [Lag(1_000, {0: 50}, {0: 10}), Lag(2_000, {0: 60}, {0: 30})]


def test_of_several_queries_the_slowest_counts(tmp_path: Path) -> None:
    path = journal(
        tmp_path / "journal.jsonl",
        batch(500, "clicks-events", p0=20),
        Lag(1_000, {0: 50}, {0: 10}),
        batch(1_500, p0=30),
    )
    assert LagHistory(path).read()[-1] == Lag(1_500, {0: 50}, {0: 20})


def test_the_group_of_a_query_is_never_one_in_which_a_sink_keeps_its_position() -> None:
    names = ["shop", "shop-events", "shop.events", "events", "audit", "a-b-c"]
    ours = {progress_group(query) for query in names}
    theirs = {positions_group(query, sink) for query in names for sink in names}
    assert len(ours) == len(names)
    assert ours.isdisjoint(theirs)


def looked_at(directory: Path, *options: str, entries: list[Lag]) -> Result:
    journal(directory / "data" / "runs" / "clickstream" / "journal.jsonl", *entries)
    arguments = ["lag", "clickstream", "--data", str(directory / "data"), *options]
    # The console has the width that it found when it was made, perhaps for another test.
    with patch.object(console, "_width", 200):
        return CliRunner().invoke(app, arguments)


def test_the_command_shows_a_table_and_fails_when_a_partition_is_stuck(tmp_path: Path) -> None:
    result = looked_at(tmp_path, "--json", str(tmp_path / "out.json"), entries=as_lags(CALM, STUCK))
    assert result.exit_code == 1, result.output
    head, columns, first, *_ = result.stdout.splitlines()
    assert "from its journal: Kafka does not answer" in head
    assert columns.split() == [
        "partition", "position", "end", "lag", "lag", "in", "time", "share", "trend", "status",
    ]  # fmt: skip
    assert first.split()[:3] == ["1", f"{STUCK[-1].position:,}", f"{STUCK[-1].end:,}"]
    assert "stopped" in first
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["verdict"] == "fail"
    assert written["partitions"][0]["health"]["verdict"] == "stopped"
    assert written["partitions"][0]["age"]["is"] == "lag_time"
    assert written["lag"] == CALM[-1].lag + STUCK[-1].lag


def test_the_command_is_content_with_a_pipeline_that_has_read_all(tmp_path: Path) -> None:
    read = [Look(one.at_ms, one.end, one.end) for one in CALM]
    result = looked_at(tmp_path, entries=as_lags(read))
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[2].split()[-1] == "ok"


def test_the_command_says_what_to_do_when_nothing_is_known(tmp_path: Path) -> None:
    result = looked_at(tmp_path, entries=[])
    assert result.exit_code == 2
    assert "clickstream has not ended a batch" in result.stderr
    assert "penstock run clickstream" in result.stderr
