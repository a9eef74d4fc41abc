"""Alerts: a table of cases, each a run as it would be written down."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from penstock.observe.board import alerts as rules
from penstock.observe.board.alerts import Alert, Limits, alerts
from penstock.observe.board.board import Board
from penstock.observe.board.judgement import judge
from penstock.observe.journal import Batch, Lag, Note
from penstock.observe.latency import Latency
from penstock.observe.run import Seen
from penstock.observe.samples import AuditVerdict, BrokerHealth, KafkaHealth, SinkVerdict, Work
from tests.runs import START_MS, Run

NOW_S = 600
NOW_MS = NOW_S * 1000
BATCH = next(entry for entry in Run(60).entries() if isinstance(entry, Batch))
WORK = next(entry for entry in Run(60).entries() if isinstance(entry, Work))


def lags(growth_eps: int, until_s: int = NOW_S, done: int = 0, arrive_eps: int = 10_000) -> list[Seen]:
    """A topic that grows, and a pipeline that falls behind by so many a second."""
    keeps_eps = arrive_eps - growth_eps
    return [
        Lag(second * 1000, {0: arrive_eps * second}, {0: max(0, keeps_eps * second - done)})
        for second in range(until_s + 1)
    ]


def batches(seconds: Iterable[int], **changes: Any) -> list[Seen]:
    found: list[Seen] = []
    for number, second in enumerate(seconds):
        receipt = replace(BATCH.receipt, batch=number, started_at_ms=second * 1000 - 900, **changes)
        found.append(Batch(second * 1000, receipt, Latency.of([(800, 1_000)])))
    return found


def running(*more: Seen) -> list[Seen]:
    return [Note(0, "running"), *batches(range(1, NOW_S + 1)), *lags(0), *more]


def slow(p99_ms: int, from_s: int) -> list[Seen]:
    return [
        Batch(second * 1000, replace(BATCH.receipt, batch=second), Latency.of([(p99_ms, 10)]))
        for second in range(from_s, NOW_S + 1)
    ]


def worked(commit_ms: int, total_ms: int = 900, from_s: int = 1) -> list[Seen]:
    return [
        replace(WORK, at_ms=second * 1000 + 10, batch=second - 1, commit_ms=commit_ms, total_ms=total_ms)
        for second in range(from_s, NOW_S + 1)
    ]


def health(*alive: bool, under: int = 0, offline: int = 0) -> Seen:
    brokers = tuple(BrokerHealth(n + 1, up) for n, up in enumerate(alive))
    return KafkaHealth(NOW_MS, brokers, under, offline, 1)


def verdict(lost: int, duplicated: int) -> Seen:
    return AuditVerdict(NOW_MS, lost, duplicated, 50, (SinkVerdict("sessions", lost, duplicated),), ())


def found(
    entries: list[Seen], *, alive: bool | None = True, now_ms: int = NOW_MS, **limits: object
) -> list[Alert]:
    board = Board("clickstream")
    for entry in sorted(entries, key=lambda entry: entry.at_ms):
        board.feed(entry)
    return list(alerts(board, now_ms, alive=alive, limits=Limits(**limits)))  # type: ignore[arg-type]


CASES: list[tuple[str, list[Seen], dict[str, object], list[tuple[str, str, str]]]] = [
    ("a pipeline that keeps up", running(), {}, []),
    ("nothing was ever written", [], {}, []),
    (
        "lag grows",
        [Note(0, "running"), *lags(1_200), *batches(range(1, NOW_S + 1))],
        {"lag_warning_ms": 10**9},
        [("LagGrowing", "warning", "lag 720,000 records, 1.2 minutes, growing by 1,200/s for 9 minutes")],
    ),
    (
        "more comes each minute, and the next batch takes it all",
        [
            Note(0, "running"),
            *batches(range(1, NOW_S + 1)),
            *[Lag(s * 1000, {0: 50 * s * s}, {0: 50 * (s - 1) ** 2}) for s in range(1, NOW_S + 1)],
        ],
        {},
        [],
    ),
    ("lag grows by little", [Note(0, "running"), *lags(10), *batches(range(1, NOW_S + 1))], {}, []),
    (
        "records wait for three minutes",
        [*running()[: NOW_S + 1], *lags(0, done=1_800_000)],
        {},
        [("LagHigh", "warning", "lag 1,800,000 records, 3 minutes; the limit is 2 minutes")],
    ),
    (
        "records wait for six minutes",
        [*running()[: NOW_S + 1], *lags(0, done=3_600_000)],
        {},
        [("LagHigh", "critical", "lag 3,600,000 records, 6 minutes; the limit is 5 minutes")],
    ),
    ("three batches failed", running(*[Note(NOW_MS - n, "batch failed, no") for n in range(3)]), {}, []),
    (
        "four batches failed",
        [*running()[:500], *[Note(NOW_MS - n, "batch failed: no") for n in range(4)]],
        {},
        [("BatchesFailing", "critical", "4 batches failed in a row; the last: batch failed: no")],
    ),
    (
        "Kafka is away",
        [Note(0, "running"), Note(NOW_MS - 12_000, "Kafka at 127.0.0.1:9092 away; waiting")],
        {},
        [("ServiceAway", "critical", "Kafka away for 12 s; the pipeline waits and loses nothing")],
    ),
    (
        "a broker is gone",
        running(health(True, False, True, under=5)),
        {},
        [
            ("BrokerGone", "critical", "broker 2 does not answer; 2 of 3 are up"),
            ("PartitionsUnderReplicated", "warning", "5 partitions with fewer copies than they should have"),
        ],
    ),
    (
        "a partition has no leader",
        running(health(True, offline=1)),
        {},
        [("PartitionsOffline", "critical", "1 partition without a leader: nobody can write or read them")],
    ),
    (
        "results are late",
        [Note(0, "running"), *batches(range(1, 500)), *slow(3_000, 500), *lags(0)],
        {},
        [
            ("LatencyObjectiveMissed", "warning",
             "p99 3.0 s from event to visible, above the objective of 2.0 s"),
        ],
    ),
    ("one late batch", [*running()[:-1], *slow(3_000, NOW_S)], {}, []),
    ("no objective", [Note(0, "running"), *slow(3_000, 1), *lags(0)], {"p99_ms": None}, []),
    (
        "records are lost",
        running(verdict(3, 0)),
        {},
        [("RecordsLost", "critical", "the audit of 50 batches found 3 lost at sessions")],
    ),
    (
        "records are doubled",
        running(verdict(0, 2)),
        {},
        [("RecordsDuplicated", "critical", "the audit of 50 batches found 2 duplicated at sessions")],
    ),
    ("the audit found nothing", running(verdict(0, 0)), {}, []),
    (
        "commits are slow",
        [*running(), *worked(6_000)],
        {},
        [("CheckpointSlow", "warning", "a batch's commit takes 6.0 s; the limit is 5.0 s")],
    ),
    (
        "a lookup is stale",
        [*running()[:1], *lags(0), *batches(range(1, NOW_S + 1), stale_since_ms={"users": NOW_MS - 300_000})],
        {},
        [("LookupStale", "warning", "lookup users cannot be refreshed for 5 minutes")],
    ),
    (
        "it was told to stop",
        [*running()[:100], Note(NOW_MS - 3_000, "stopped")],
        {"alive": False},
        [("PipelineStopped", "warning", "stopped 3.0 s ago")],
    ),
    (
        "it gave up",
        [*running()[:100], Note(NOW_MS - 3_000, "failed: sink sessions: a newer writer has taken over")],
        {"alive": False},
        [("PipelineFailed", "critical", "gave up 3.0 s ago: sink sessions: a newer writer has taken over")],
    ),
    (
        "its process died",
        running(),
        {"alive": False, "now_ms": NOW_MS + 4_000},
        [
            ("PipelineCrashed", "critical",
             "its process is gone, and it was not told to stop; last heard 4.0 s ago"),
        ],
    ),
    (
        "it says nothing, but lives",
        running(),
        {"now_ms": NOW_MS + 20_000},
        [
            ("PipelineSilent", "critical",
             "its process lives, but has said nothing for 20 s; the last was: running"),
        ],
    ),
    (
        "it says nothing for ten seconds",
        running(),
        {"now_ms": NOW_MS + 10_000},
        [("TopicUnseen", "warning", "Kafka has not said for 10 s how far the topic reaches")],
    ),
    ("it says nothing for two seconds", running(), {"now_ms": NOW_MS + 2_000}, []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("entries", "how", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_each_case_gives_its_alerts(
    entries: list[Seen], how: dict[str, object], expected: list[tuple[str, str, str]]
) -> None:
    told = found(entries, **how)  # type: ignore[arg-type]
    assert [(alert.name, alert.severity, alert.reason) for alert in told] == expected


def test_every_rule_has_a_case() -> None:
    named = {name for _, _, _, expected in CASES for name, _, _ in expected}
    source = rules.__loader__.get_source(rules.__name__)  # type: ignore[union-attr]
    known = set(re.findall(r'(?:Alert\(\s*|\()"([A-Z]\w+)"', source))
    assert known - named == {"PressureHigh", "DeadLettersHigh"}, "these two have tests of their own"
    assert all(re.fullmatch(r"([A-Z][a-z]+)+", name) for name in known)


def test_pressure_names_its_origin_and_what_that_stage_can_do() -> None:
    at_ms = START_MS + 470_000
    board = Board("clickstream")
    for entry in Run(470).entries():
        board.feed(entry)
    [alert] = [alert for alert in alerts(board, at_ms) if alert.name == "PressureHigh"]
    assert re.fullmatch(
        r"busy for 9\d% of the time for 2\.\d minutes; pressure starts at the state, which takes \d\d%"
        r" and can do [\d,]+/s at most",
        alert.reason,
    )
    assert START_MS + 300_000 < alert.since_ms < START_MS + 350_000


@pytest.mark.parametrize(("rejected", "told"), [(0.01, 0), (0.03, 1)])
def test_dead_letters_above_a_share_of_the_last_five_minutes(rejected: float, told: int) -> None:
    records = BATCH.receipt.records
    aside = round(records * rejected)
    entries = [Note(0, "running"), *lags(0), *batches(range(1, NOW_S + 1), rejected=aside, late=0)]
    assert [alert.name for alert in found(entries)] == ["DeadLettersHigh"] * told


def test_the_worst_comes_first_and_is_the_verdict() -> None:
    board = Board("clickstream")
    for entry in sorted(running(health(True, False, under=5), verdict(1, 0)), key=lambda entry: entry.at_ms):
        board.feed(entry)
    told = alerts(board, NOW_MS, alive=True)
    assert [alert.severity for alert in told] == ["critical", "critical", "warning"]
    judged = judge(board.glance(NOW_MS), told)
    assert judged.level == "critical"
    assert judged.reason.endswith("(2 more below)")


def test_a_backlog_that_is_no_alert_yet_is_not_called_healthy() -> None:
    board = Board("clickstream")
    entries = [Note(0, "running"), *batches(range(1, NOW_S + 1)), *lags(0, done=150_000)]
    for entry in sorted(entries, key=lambda entry: entry.at_ms):
        board.feed(entry)
    told = alerts(board, NOW_MS, alive=True)
    judged = judge(board.glance(NOW_MS), told)
    assert told == ()
    assert (judged.level, judged.headline) == ("warning", "Catching up")
    assert judged.reason.startswith("The oldest record has waited for 15 s; ")


def test_a_pipeline_in_one_sentence() -> None:
    board = Board("clickstream")
    nothing = judge(board.glance(0), ())
    for entry in sorted(running(verdict(0, 0)), key=lambda entry: entry.at_ms):
        board.feed(entry)
    well = judge(board.glance(NOW_MS), alerts(board, NOW_MS, alive=True))
    assert nothing.level == "idle"
    assert well.level == "good"
    assert re.fullmatch(
        r"Results are 0\.8 s old at p99, [\d,]+ events/s come through and 0 wait\. Lost 0, duplicated 0\.",
        well.reason,
    )
