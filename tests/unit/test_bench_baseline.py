"""Defaults against the strategy: what is made of what a run wrote down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.bench.baseline import COLUMNS, Measured, findings, rate_for, row
from penstock.bench.drain import Drained
from penstock.bench.followed import drained
from penstock.bench.result import Result, Spread
from penstock.bench.surge import Rated, Span, is_failure, rated, recovery_s
from penstock.bench.variants import DEFAULTS, PAYMENTS, SESSIONS, STRATEGY, VARIANTS, described
from penstock.cli.bench import show
from penstock.cli.common import console
from penstock.engine.receipt import Receipt
from penstock.errors import PenstockError
from penstock.observe.journal import Batch, Lag, Note
from penstock.observe.latency import Latency
from penstock.observe.samples import Load, ProcessLoad

DONE = Drained(events=1_000, seconds=10.0, cpu_s=20.0, rss_mb=800.0, sessions=50)
CALM = Rated(
    rate_eps=100,
    p50_ms=500,
    p99_ms=1_000,
    surge_p99_ms=1_500,
    longest_batch_ms=900,
    lag_max=400,
    recovered_s=2.0,
    failures=0,
)
STEADY, SURGE = Span(10_000, 40_000), Span(40_000, 70_000)


def lag(at_s: float, total: int) -> Lag:
    return Lag(round(at_s * 1000), {0: total}, {0: 0})


def lags(totals: Sequence[int], *, from_s: int) -> list[Lag]:
    return [lag(from_s + number, total) for number, total in enumerate(totals)]


def batch(
    ended_s: float, *, took_s: float = 1.0, records: int = 100, latency_ms: int = 500, closed: int = 0
) -> Batch:
    receipt = Receipt(
        query="q",
        batch=0,
        offsets={0: (0, records)},
        decoded=records,
        rejected=0,
        late=0,
        duplicates=0,
        opened=0,
        closed=closed,
        corrected=0,
        merged=0,
        sinks=(),
        started_at_ms=round((ended_s - took_s) * 1000),
        compute_ms=0.0,
        total_ms=took_s * 1000,
    )
    return Batch(round(ended_s * 1000), receipt, Latency.of([(latency_ms, records)] if records else []))


def load(at_s: float, cpu_s: float, rss_mb: int) -> Load:
    """Two processes that share it evenly."""
    half = [ProcessLoad(name, cpu_s / 2, rss_mb * 500_000) for name in ("driver", "jvm")]
    return Load(round(at_s * 1000), tuple(half))


BEFORE = lags([90, 10, 100, 20], from_s=20)


@pytest.mark.parametrize(
    ("behind", "back_s"),
    [
        ([100, 100, 100], 0.0),
        ([500, 300, 100, 90, 80], 2.0),
        ([500, 100, 100, 101, 100, 100, 100], 4.0),  # the moment between two batches is not the end of it
        ([500, 400, 300, 200, 101], None),
        ([500, 100, 100], None),  # not seen for long enough
        ([], None),
    ],
)
def test_lag_is_back_when_it_is_and_stays_no_more_than_before(
    behind: list[int], back_s: float | None
) -> None:
    assert recovery_s(BEFORE + lags(behind, from_s=70), STEADY, SURGE.ended_ms) == back_s


def test_lag_that_was_low_before_the_end_of_the_surge_is_not_back() -> None:
    early = lags([0, 0, 0, 500], from_s=66)
    assert recovery_s(BEFORE + early + lags([400, 50, 50, 50], from_s=70), STEADY, SURGE.ended_ms) == 1.0


@given(st.lists(st.integers(0, 200), max_size=30))
def test_lag_is_back_only_where_three_samples_say_so(totals: list[int]) -> None:
    behind = lags(totals, from_s=70)
    back_s = recovery_s(BEFORE + behind, STEADY, SURGE.ended_ms)
    runs = [number for number in range(len(totals) - 2) if max(totals[number : number + 3]) <= 100]
    assert back_s == (float(runs[0]) if runs else None)


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("batch failed, starting again: canceling statement due to statement timeout", True),
        ("failed: the pipeline is not deterministic", True),
        ("PostgreSQL away; waiting", True),
        ("PostgreSQL back after 3 s; going on from the checkpoint", False),
        ("running", False),
        ("stopped", False),
    ],
)
def test_notes_of_batches_that_come_again_are_failures(text: str, failure: bool) -> None:
    assert is_failure(text) is failure


BATCHES = [
    batch(10.5, latency_ms=9_000),  # begun before the steady rate
    batch(20, latency_ms=500),
    batch(30, latency_ms=700),
    batch(41, took_s=2, latency_ms=2_000),  # its end is in the surge
    batch(60, took_s=4, latency_ms=3_000),
    batch(75, took_s=8, latency_ms=8_000),
]
HIGH = BEFORE + lags([300, 800, 400], from_s=68)


def test_the_steady_rate_has_whole_batches_and_the_surge_all_until_lag_is_back() -> None:
    found = rated(100, BATCHES, HIGH + lags([90, 80, 10, 10, 900], from_s=71), [], STEADY, SURGE)
    assert (found.p50_ms, found.p99_ms) == pytest.approx((500, 700), rel=0.01)
    assert found.recovered_s == 1.0
    assert (found.surge_p99_ms, found.longest_batch_ms, found.lag_max) == pytest.approx(
        (3_000, 4_000, 800), rel=0.01
    )


def test_a_surge_that_is_not_over_has_all_that_was_seen() -> None:
    notes = [Note(0, "running"), Note(1, "batch failed, starting again: x")]
    found = rated(100, BATCHES, HIGH + lags([700, 900, 600, 600, 600], from_s=71), notes, STEADY, SURGE)
    assert found.recovered_s is None
    assert (found.surge_p99_ms, found.longest_batch_ms, found.lag_max) == pytest.approx(
        (8_000, 8_000, 900), rel=0.01
    )
    assert found.failures == 1


def test_without_one_whole_batch_at_the_steady_rate_nothing_can_be_said() -> None:
    with pytest.raises(PenstockError, match="not one batch"):
        rated(100, [batch(50, took_s=45)], BEFORE, [], STEADY, SURGE)


def test_a_drain_is_counted_from_the_end_of_its_first_batch_to_the_last_that_did_anything() -> None:
    batches = [batch(10), batch(12), batch(14), batch(15, records=0, closed=7), batch(30, records=0)]
    loads = [load(second, cpu_s=2.0 * second, rss_mb=100 + second % 13) for second in range(0, 32, 2)]
    found = drained(batches, loads)
    assert (found.events, found.seconds, found.sessions) == (200, 5.0, 7)
    assert found.cpu_s == pytest.approx(10.0)  # 15 s is between two samples
    assert found.rss_mb == pytest.approx(112)


def test_a_drain_of_one_batch_is_refused() -> None:
    with pytest.raises(PenstockError, match="first batch"):
        drained([batch(10), batch(11, records=0)], [load(0, 0, 1)])


@pytest.mark.parametrize(("can_do", "rate"), [(1_000, 700), (612.4, 430), (43_210, 30_000), (0.4, 1)])
def test_the_rate_is_seven_tenths_in_round_figures(can_do: float, rate: int) -> None:
    assert rate_for(can_do) == rate


def test_a_row_has_the_median_of_rounds_and_says_when_lag_was_not_back_in_all() -> None:
    runs = [
        Measured(1_000, DONE, CALM),
        Measured(1_000, replace(DONE, seconds=5.0), replace(CALM, recovered_s=None)),
    ]
    told = row(PAYMENTS, STRATEGY, runs)
    assert told["events_per_s"] == Spread(150.0, 100.0, 200.0)
    assert told["recovered"] is False
    assert told["recovered_s"] == Spread(2.0, 2.0, 2.0)
    assert "p99_ms" not in row(SESSIONS, STRATEGY, [Measured(1_000, DONE)])


def test_findings_say_the_ratios_and_whether_the_aims_are_reached() -> None:
    slow = replace(DONE, seconds=40.0, cpu_s=40.0, rss_mb=400.0)
    found = {
        (PAYMENTS, DEFAULTS): [
            Measured(1_000, slow, replace(CALM, p99_ms=2_000, surge_p99_ms=15_000, recovered_s=None))
        ],
        (PAYMENTS, STRATEGY): [Measured(1_000, DONE, CALM)],
    }
    assert list(findings(PAYMENTS, found, 90)) == [
        "payments, strategy / defaults: throughput 4.00 (aim reached: 2.8), CPU 0.50, memory 2.00",
        "payments, p99 at 100/s: 50% less than with defaults (aim missed: 65%)",
        "payments, p99 in a surge of 5 x that: 90% less than with defaults (aim reached: 65%)",
        "payments, lag is back after a surge: 2 s; with defaults: not within 90 s",
    ]


@pytest.mark.parametrize(
    ("events", "sessions", "same"), [(1_000, 5_001, False), (1_000, 5_000, True), (400, 2_500, True)]
)
def test_variants_that_found_other_sessions_did_other_work(events: int, sessions: int, same: bool) -> None:
    found = {
        (SESSIONS, DEFAULTS): [Measured(events, replace(DONE, sessions=sessions))],
        (SESSIONS, STRATEGY): [Measured(1_000, replace(DONE, sessions=5_000))],
    }
    told = list(findings(SESSIONS, found, 90))
    assert "aim missed" in told[0]
    assert [("not the same work" in line) for line in told[1:]] == ([] if same else [True])


def test_the_strategy_is_what_is_shipped_and_defaults_differ_in_all_of_it() -> None:
    defaults, large, strategy = (described(PAYMENTS, variant, "run") for variant in VARIANTS[PAYMENTS])
    assert [spec.engine for spec in (defaults, large, strategy)] == ["plain", "plain", "kernel"]
    assert [spec.source.partitions for spec in (defaults, large, strategy)] == [1, 1, 8]
    assert [getattr(spec.sink[0], "max_rows", 0) for spec in (defaults, large, strategy)] == [1, 5_000, 5_000]
    groupings = [described(SESSIONS, variant, "run").grouping for variant in VARIANTS[SESSIONS]]
    assert [grouping.partitions for grouping in groupings if grouping] == [200, 4, 4]


def test_a_narrow_terminal_shows_every_figure_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_width", 80)
    runs = [Measured(1_000, replace(DONE, rss_mb=1_234.0), replace(CALM, p99_ms=12_345))]
    rows = [row(work, variant.name, runs) for work, variants in VARIANTS.items() for variant in variants]
    with console.capture() as shown:
        show(Result("baseline", "", COLUMNS, rows), None, None)
    lines = [line.split() for line in shown.get().splitlines()]
    assert ["1,234"] * 6 in [line[-6:] for line in lines]
    assert ["12,345"] * 6 in [line[-6:] for line in lines]
