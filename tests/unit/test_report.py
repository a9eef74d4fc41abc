"""What a report finds in a run: a table of runs, each as it would be written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.observe.board.alerts import LIMITS
from penstock.observe.board.pressure import STAGES
from penstock.observe.journal import Batch, Lag, Note
from penstock.observe.run import Seen, journal_file
from penstock.observe.samples import AuditVerdict, KafkaHealth, SinkVerdict
from penstock.report.facts import Facts, Record
from penstock.report.finding import Finding
from penstock.report.findings import findings
from penstock.report.fold import Fold
from penstock.report.reading import RunFiles
from penstock.report.report import DAY_MS, report
from penstock.report.verdict import judged
from penstock.spec import load
from tests.runs import AWAY_S, BURST_S, SINKS, START_MS, Run, write

SPEC = load(Path(__file__).parents[2] / "pipelines" / "clickstream.toml", environ={})
Change = Callable[[list[Seen]], list[Seen]]


@pytest.fixture(scope="module")
def story() -> list[Seen]:
    """Easy, then more than it can do, then Kafka away."""
    return Run(900).entries()


@pytest.fixture(scope="module")
def whole(story: list[Seen]) -> Facts:
    return facts_of(story)


def facts_of(entries: list[Seen], alive: bool | None = True) -> Facts:
    ordered = sorted(entries, key=lambda entry: entry.at_ms)
    from_ms, to_ms = ordered[0].at_ms, max(one.at_ms for one in ordered if not isinstance(one, AuditVerdict))
    fold = Fold("clickstream", SPEC, from_ms, to_ms, LIMITS)
    for entry in ordered:
        fold.feed(entry)
    return fold.facts(alive, to_ms, Record(len(ordered), 0, None, False))


def between(entries: list[Seen], first: float, last: float) -> list[Seen]:
    return [one for one in entries if START_MS + first * 1000 <= one.at_ms < START_MS + last * 1000]


def note(second: float, text: str) -> Note:
    return Note(START_MS + round(second * 1000), text)


def second(at_ms: int | None) -> float:
    assert at_ms is not None
    return (at_ms - START_MS) / 1000


def named(facts: Facts, title: str) -> Finding:
    found = [one for one in findings(facts) if one.title == title]
    assert len(found) == 1, [one.title for one in findings(facts)]
    return found[0]


def easy(entries: list[Seen]) -> list[Seen]:
    return between(entries, 0, 200)


def crashed(entries: list[Seen]) -> list[Seen]:
    """Killed after 100 s, and started again 20 s later; the new one looks at the topic before it says so."""
    rest = [one for one in between(entries, 130, 200) if not isinstance(one, Note)]
    prelude = Lag(START_MS + 118_000, {0: 5}, {0: 5})
    return [*between(entries, 0, 100), prelude, note(120, "starting Spark ..."), note(130, "running"), *rest]


def stopped(entries: list[Seen]) -> list[Seen]:
    return [*easy(entries), note(200, "stopped")]


def failed(entries: list[Seen]) -> list[Seen]:
    told = "batch failed, starting again: ClickHouse at http://me:hunter2@h:8123 says no"
    return [*between(entries, 0, 100), note(100, told), note(103, told), *between(entries, 110, 200)]


def audited(entries: list[Seen]) -> list[Seen]:
    sinks = (SinkVerdict("sessions", 3, 0), SinkVerdict("dead-letters", 0, 0))
    return [
        *stopped(entries),
        AuditVerdict(START_MS + 260_000, 3, 0, 180, sinks, ("see tcp://me:hunter2@h",)),
    ]


def rejecting(entries: list[Seen]) -> list[Seen]:
    return [
        replace(one, receipt=replace(one.receipt, rejected=one.receipt.records // 4))
        if isinstance(one, Batch)
        else one
        for one in easy(entries)
    ]


def uneven(entries: list[Seen]) -> list[Seen]:
    return [
        replace(one, ends={p: end * (9 if p == 3 else 1) for p, end in one.ends.items()})
        if isinstance(one, Lag)
        else one
        for one in easy(entries)
    ]


def paused(entries: list[Seen]) -> list[Seen]:
    """No batch for half a minute, and then a slow one, while records come in."""
    kept = [one for one in easy(entries) if not (isinstance(one, Batch) and 100 < second(one.at_ms) < 130)]
    slow = next(one for one in kept if isinstance(one, Batch) and second(one.at_ms) >= 130)
    receipt = replace(slow.receipt, compute_ms=28_000.0, total_ms=29_000.0)
    return [replace(one, receipt=receipt) if one is slow and isinstance(one, Batch) else one for one in kept]


def brokerless(entries: list[Seen]) -> list[Seen]:
    return [
        replace(one, brokers=(replace(one.brokers[0], alive=False), *one.brokers[1:]), under_replicated=4)
        if isinstance(one, KafkaHealth) and 100 <= second(one.at_ms) < 150
        else one
        for one in easy(entries)
    ]


@pytest.mark.parametrize(
    ("change", "title", "weight", "from_s", "to_s", "says"),
    [
        (crashed, "Crashed", "critical", 99, 131, "started again after 2"),
        (failed, "Batches failed", "warning", 100, 111, "2 batches failed and came again"),
        (audited, "Records are lost", "critical", 260, None, "found 3 lost; by sink: sessions 3"),
        (rejecting, "Many records set aside", "warning", None, None, "the limit is 2%"),
        (uneven, "Uneven partitions", "note", 0, 199, "Partition 3 got"),
        (paused, "Batches were long in coming", "note", 101, 131, "up to 11,989 waiting"),
        (paused, "A slow batch", "note", None, None, "28.0 s of it in compute"),
        (brokerless, "A broker was gone", "critical", 100, 150, "broker 1 does not answer; 2 of 3 are up"),
        (brokerless, "Partitions lacked copies", "warning", 100, 150, "4 partitions"),
    ],
)
def test_what_is_wrong_is_found_with_its_time_and_its_numbers(
    story: list[Seen],
    change: Change,
    title: str,
    weight: str,
    from_s: int | None,
    to_s: int | None,
    says: str,
) -> None:
    found = named(facts_of(change(story)), title)
    assert found.weight == weight
    assert says.lower() in found.what.lower()
    assert found.next
    if from_s is not None:
        assert second(found.from_ms) == pytest.approx(from_s, abs=3)
    if to_s is not None:
        assert second(found.to_ms) == pytest.approx(to_s, abs=3)


def test_a_run_in_which_nothing_happened_is_healthy(story: list[Seen]) -> None:
    facts = facts_of(stopped(story))
    assert [one.title for one in findings(facts) if one.weight != "note"] == []
    verdict = judged(facts, findings(facts))
    assert (verdict.level, verdict.headline) == ("good", "Healthy")
    assert "it was told to stop" in verdict.reason
    assert "found 0 lost, 0 duplicated" in verdict.reason


@pytest.mark.parametrize(
    ("change", "alive", "level", "headline"),
    [
        (easy, True, "good", "Healthy"),
        (easy, False, "critical", "Crashed"),
        (easy, None, "good", "Healthy"),
        (crashed, True, "warning", "Recovered"),
        (failed, True, "warning", "Had trouble"),
        (audited, None, "critical", "Records are lost"),
        (lambda entries: between(entries, BURST_S[0] - 30, BURST_S[1] - 20), True, "warning", "Fell behind"),
        (lambda entries: between(entries, AWAY_S[0] - 30, AWAY_S[0] + 15), True, "critical", "Kafka away"),
        (lambda entries: between(entries, AWAY_S[0] - 30, AWAY_S[1] + 60), True, "warning", "Recovered"),
        (lambda entries: between(entries, 0, 10), True, "idle", "No batch"),
    ],
)
def test_the_judgement_tells_what_is_still_wrong_from_what_is_over(
    story: list[Seen], change: Change, alive: bool | None, level: str, headline: str
) -> None:
    facts = facts_of(change(story), alive)
    verdict = judged(facts, findings(facts))
    assert (verdict.level, verdict.headline) == (level, headline), verdict


def test_an_outage_is_told_with_how_long_it_took_to_recover(whole: Facts) -> None:
    [outage] = whole.outages
    assert second(outage.from_ms) == AWAY_S[0]
    assert second(outage.back_ms) == AWAY_S[1]
    assert second(outage.batch_ms) > AWAY_S[1]
    found = named(whole, "Kafka away")
    assert "for 25.0 s" in found.what
    assert "127.0.0.1" not in found.what
    assert "Kafka did not answer" not in [one.title for one in findings(whole)]


def test_pressure_is_told_by_its_stage_and_share_of_the_time(whole: Facts) -> None:
    assert whole.load is not None
    assert max(whole.load.pressed, key=lambda stage: whole.load.pressed[stage]) == "state"  # type: ignore[union-attr]
    assert set(whole.load.stages) == set(STAGES)
    assert "It started at the state for" in named(whole, "Where pressure started").what
    limit = named(whole, "At its limit")
    assert BURST_S[0] < second(limit.from_ms) < second(limit.to_ms) < AWAY_S[1]


def test_alerts_do_not_last_longer_than_the_run(whole: Facts) -> None:
    for episode in whole.episodes:
        assert whole.from_ms <= episode.from_ms <= (episode.to_ms or whole.to_ms) <= whole.to_ms
    for name in {episode.name for episode in whole.episodes}:
        several = [one for one in whole.episodes if one.name == name and name != "BrokerGone"]
        for one, after in pairwise(several):
            assert one.to_ms is not None
            assert one.to_ms <= after.from_ms


def test_figures_are_those_of_the_receipts(story: list[Seen], whole: Facts) -> None:
    batches = [one for one in story if isinstance(one, Batch)]
    assert whole.glance.totals.records == sum(batch.receipt.records for batch in batches)
    assert [sink.name for sink in whole.sinks] == list(SINKS)
    slowest = sorted((batch.receipt.total_ms for batch in batches), reverse=True)
    assert [one.total_ms for one in whole.batches.slowest] == slowest[:10]
    assert all(set(one.phases) >= {"offsets", "compute", "sinks", "commit"} for one in whole.batches.slowest)
    assert whole.lag is not None
    assert whole.lag.records_max == max(one.total for one in story if isinstance(one, Lag))
    assert whole.lag.partitions[0].partition == 3
    assert whole.lag.behind_ms > 0


def test_latencies_by_sink_are_of_all_events_of_the_run(story: list[Seen], whole: Facts) -> None:
    events = sorted((ms, count) for batch in story if isinstance(batch, Batch) for ms, count in _pairs(batch))
    total, reached = sum(count for _, count in events), 0
    median = next(ms for ms, count in events if (reached := reached + count) >= total / 2)
    assert whole.quantiles is not None
    assert whole.quantiles.p50 == pytest.approx(median, rel=0.002)
    assert whole.quantiles.max == pytest.approx(events[-1][0], rel=0.002)


def _pairs(batch: Batch) -> list[tuple[int, int]]:
    from penstock.observe.board.spread import Spread

    spread = Spread.of(batch.latency)
    return list(zip(spread.ms.tolist(), spread.events.tolist(), strict=True))


def test_a_start_after_a_stop_is_no_crash(story: list[Seen]) -> None:
    later = [one for one in between(story, 150, 200) if not isinstance(one, Note)]
    lone = Lag(START_MS + 139_000, {0: 5}, {0: 5})
    facts = facts_of(
        [*between(story, 0, 100), note(100, "stopped"), lone, note(140, "starting Spark ..."), *later]
    )
    assert [life.how for life in facts.lives] == ["stopped", "running"]
    assert facts.restarts == 1
    assert facts.crashes == ()


def test_a_pipeline_that_gave_up_says_why(story: list[Seen]) -> None:
    facts = facts_of([*between(story, 0, 100), note(100, "failed: sink sessions: a newer writer took over")])
    assert [life.how for life in facts.lives] == ["failed"]
    found = named(facts, "Gave up")
    assert "a newer writer took over" in found.what
    assert not found.is_past


def test_a_run_is_read_from_its_files_with_half_lines_and_other_versions(
    tmp_path: Path, story: list[Seen]
) -> None:
    write(tmp_path, easy(story))
    journal = journal_file(tmp_path)
    lines = journal.read_text().splitlines()
    batch = next(line for line in lines if '"batch"' in line)
    newer = batch.replace('"decoded":', '"of_a_newer_version":[1],"decoded":', 1)
    journal.write_text("\n".join([*lines, newer, '{"what":"news","at_ms":1}', '{"at', batch[:80]]))
    made = report(RunFiles(tmp_path), START_MS + 300_000)
    assert made.facts.record.unread == 2  # the last one is not ended: it may still be written
    assert made.facts.glance.totals.batches >= 180
    assert made.facts.name == "clickstream"
    assert "2 of" in named(made.facts, "Lines that could not be read").what


def test_a_part_of_the_time_is_told_alone(tmp_path: Path, story: list[Seen]) -> None:
    write(tmp_path, story)
    from_ms, to_ms = START_MS + 100_000, START_MS + 200_000
    made = report(RunFiles(tmp_path), START_MS + DAY_MS, from_ms=from_ms, to_ms=to_ms)
    inside = [one for one in story if isinstance(one, Batch) and from_ms <= one.at_ms <= to_ms]
    assert made.facts.glance.totals.batches == len(inside)
    assert made.facts.record.is_cut
    assert made.facts.outages == ()


def test_by_default_no_more_than_the_last_day_is_told(tmp_path: Path, story: list[Seen]) -> None:
    long_ago = [replace(one, at_ms=one.at_ms - 3 * DAY_MS) for one in between(story, 0, 60)]
    write(tmp_path, [*long_ago, *between(story, 0, 60)])
    made = report(RunFiles(tmp_path), START_MS + 60_000)
    assert made.facts.took_ms <= DAY_MS
    assert made.facts.record.is_cut
    assert made.facts.glance.totals.batches == sum(isinstance(one, Batch) for one in between(story, 0, 60))


def test_nothing_written_down_is_said_so(tmp_path: Path) -> None:
    made = report(RunFiles(tmp_path), START_MS)
    assert made.facts.end == "empty"
    assert (made.judgement.level, made.judgement.headline) == ("idle", "Nothing yet")


def test_what_was_before_a_stop_is_another_episode(story: list[Seen]) -> None:
    """Results are late before a stop and after the next start."""
    pressed = between(story, BURST_S[0] + 20, BURST_S[0] + 100)
    later = [
        replace(one, at_ms=one.at_ms + 200_000)
        for one in between(story, BURST_S[0] + 100, BURST_S[0] + 180)
        if not isinstance(one, Note)
    ]
    start_s = BURST_S[0] + 295
    stop = note(BURST_S[0] + 100, "stopped")
    facts = facts_of([*pressed, stop, note(start_s, "starting Spark ..."), *later])
    first, second_one = (one for one in facts.episodes if one.name == "LatencyObjectiveMissed")
    assert second(first.to_ms) == pytest.approx(BURST_S[0] + 100, abs=2)
    assert second(second_one.from_ms) >= start_s
