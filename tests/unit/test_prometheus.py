"""What Prometheus gets to see of a run: figures that agree with it, counts that never fall."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock import __version__
from penstock.engine.receipt import Receipt, SinkReceipt
from penstock.observe.board.board import Board
from penstock.observe.board.glance import SinkFacts
from penstock.observe.board.spread import Spread
from penstock.observe.journal import Batch, Lag, Note
from penstock.observe.latency import Latency
from penstock.observe.prometheus.histogram import LATENCY_BOUNDS_S, Histogram
from penstock.observe.prometheus.measure import PARTITIONS_MAX, Known, measured
from penstock.observe.prometheus.metrics import AUDIT_TOOK, METRICS
from penstock.observe.prometheus.page import registry_of
from penstock.observe.prometheus.tally import Tally
from penstock.observe.run import Seen
from penstock.observe.samples import Load, ProcessLoad, StateWork, Work
from tests.prometheus import promtool
from tests.runs import SINKS, START_MS, Run

FACTS = tuple(
    SinkFacts(name, "kafka", name, ("live",) if name == "sessions_live" else ("final",), "exactly_once")
    for name in SINKS
)
Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def page(
    entries: Iterable[Seen], now_ms: int, *, since_ms: int = 0, known: Known | None = None
) -> tuple[bytes, Board, Tally]:
    board, tally = Board("clickstream", "clicks", FACTS), Tally("clickstream", FACTS, since_ms)
    for entry in entries:
        board.feed(entry)
        tally.feed(entry)
    return scraped(board, tally, now_ms, known), board, tally


def scraped(board: Board, tally: Tally, now_ms: int, known: Known | None = None) -> bytes:
    return generate_latest(registry_of(lambda: [measured(board, tally, now_ms, known or Known())]))


def values(text: bytes) -> Values:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def value(found: Values, name: str, **labels: str) -> float:
    return found[name, frozenset({"pipeline": "clickstream", **labels}.items())]


@pytest.fixture(scope="module")
def run() -> list[Seen]:
    return Run(120).entries()


@pytest.fixture(scope="module")
def whole(run: list[Seen]) -> bytes:
    return page(run, run[-1].at_ms, known=Known(alive=True, objective_ms=2_000, trigger_ms=200))[0]


def batches(entries: Sequence[Seen]) -> list[Batch]:
    return [entry for entry in entries if isinstance(entry, Batch)]


def test_counts_are_what_the_receipts_tell(run: list[Seen], whole: bytes) -> None:
    found, receipts = values(whole), [batch.receipt for batch in batches(run)]
    assert value(found, "penstock_batches_total", query="clickstream") == len(receipts) > 90
    for name, field in (("read", "records"), ("decoded", "decoded")):
        assert value(found, f"penstock_records_{name}_total") == sum(getattr(r, field) for r in receipts)
    for kind in ("rejected", "late"):
        told = sum(getattr(receipt, kind) for receipt in receipts)
        assert value(found, "penstock_records_set_aside_total", kind=kind) == told > 0
    for name in SINKS:
        rows = sum(sink.rows for receipt in receipts for sink in receipt.sinks if sink.name == name)
        assert value(found, "penstock_sink_rows_total", sink=name) == rows
    last = [entry for entry in run if isinstance(entry, Lag)][-1]
    assert value(found, "penstock_records_in_total") == sum(last.ends.values())
    assert value(found, "penstock_lag_records") == last.total
    took_s = sum(receipt.total_ms for receipt in receipts) / 1000
    assert value(found, "penstock_batch_seconds_sum", query="clickstream") == pytest.approx(took_s)


def test_gauges_are_what_the_page_shows(run: list[Seen], whole: bytes) -> None:
    found = values(whole)
    _, board, _ = page(run, run[-1].at_ms)
    now = board.glance(run[-1].at_ms)
    assert now.lag is not None
    assert now.state is not None
    assert now.batch is not None
    assert value(found, "penstock_pipeline_info", version=__version__) == 1
    assert value(found, "penstock_heartbeat_timestamp_seconds") == now.last_ms / 1000
    assert value(found, "penstock_phase", phase="running") == 1
    assert value(found, "penstock_phase", phase="waiting") == 0
    assert value(found, "penstock_latency_objective_seconds") == 2
    assert value(found, "penstock_lag_seconds") == now.lag.age_ms / 1000
    assert value(found, "penstock_watermark_delay_seconds") == (now.now_ms - now.state.watermark_ms) / 1000
    overran_ms = sum(now.batch.phases.values()) - 200
    assert value(found, "penstock_trigger_lag_seconds") == pytest.approx(overran_ms / 1000)
    [flow] = now.flows
    for stage in flow.stages:
        busy = value(found, "penstock_stage_busy_ratio", query="clickstream", stage=stage.stage)
        waits = value(found, "penstock_stage_waiting_ratio", query="clickstream", stage=stage.stage)
        assert (busy, busy + waits) == (stage.busy, 1)
    assert value(found, "penstock_broker_up", broker="2") == 1
    assert value(found, "penstock_sink_info", sink="sessions", kind="kafka", guarantee="exactly_once") == 1


def test_every_metric_is_there_once_all_was_seen_and_none_that_is_not_described(whole: bytes) -> None:
    told = {family.name for family in text_string_to_metric_families(whole.decode())}
    described = {metric.name.removesuffix("_total") for metric in METRICS}
    # Only the auditor itself knows how long a look took.
    assert told == described - {AUDIT_TOOK.name}
    for family in text_string_to_metric_families(whole.decode()):
        metric = next(one for one in METRICS if one.name.removesuffix("_total") == family.name)
        assert family.documentation == metric.help
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels)


def test_a_pipeline_that_never_ran_has_counts_of_0_and_nothing_else_made_up() -> None:
    found = values(page([], START_MS)[0])
    assert value(found, "penstock_records_set_aside_total", kind="late") == 0
    assert value(found, "penstock_sink_rows_total", sink="sessions") == 0
    assert value(found, "penstock_latency_seconds_count", sink="sessions") == 0
    assert value(found, "penstock_phase", phase="unknown") == 1
    names = {name for name, _ in found}
    assert not names & {"penstock_heartbeat_timestamp_seconds", "penstock_lag_seconds", "penstock_process_up"}


def test_counting_begins_at_0_with_the_process_that_counts_whatever_was_before(run: list[Seen]) -> None:
    middle_ms = START_MS + 60_000
    before = [entry for entry in run if entry.at_ms < middle_ms]
    text, board, tally = page(before, middle_ms, since_ms=middle_ms)
    counted = {
        (name, labels): number
        for (name, labels), number in values(text).items()
        if name.endswith(("_total", "_bucket", "_sum", "_count"))
    }
    assert set(counted.values()) == {0}
    assert value(values(text), "penstock_lag_records") > 0
    rest = [entry for entry in run if entry.at_ms >= middle_ms]
    for entry in rest:
        board.feed(entry)
        tally.feed(entry)
    found = values(scraped(board, tally, rest[-1].at_ms))
    records = sum(batch.receipt.records for batch in batches(rest))
    assert value(found, "penstock_records_read_total") == records
    assert 0 < value(found, "penstock_records_in_total") < 2 * records
    assert 0 < value(found, "penstock_cpu_seconds_total", process="jvm") < 70


def test_a_batch_that_came_again_is_counted_once_and_told_as_held_already(run: list[Seen]) -> None:
    last = batches(run)[-1]
    held = tuple(replace(sink, replayed=True) for sink in last.receipt.sinks)
    again = Batch(last.at_ms + 1, replace(last.receipt, sinks=held), last.latency)
    once, twice = values(page(run, run[-1].at_ms)[0]), values(page([*run, again], run[-1].at_ms)[0])
    for name, labels in once:
        if name.startswith(("penstock_records_", "penstock_sink_rows", "penstock_latency")):
            assert twice[name, labels] == once[name, labels]
    assert value(twice, "penstock_sink_replays_total", sink="sessions") == 1
    assert value(once, "penstock_sink_replays_total", sink="sessions") == 0


def test_a_latency_is_counted_when_its_own_sink_shows_it() -> None:
    sinks = (
        SinkReceipt("sessions_live", 10, "00", False, 50.0, 10_000),
        SinkReceipt("sessions", 10, "00", False, 50.0, 12_000),
    )
    receipt = Receipt(
        "clickstream", 0, {0: (0, 10)}, 10, 0, 0, 0, 0, 0, 0, 0, sinks, 9_000, 500.0, 3_000.0
    )  # fmt: skip
    found = values(page([Batch(12_000, receipt, Latency.of([(900, 10)]))], 12_000)[0])
    for sink, le, events in (
        ("sessions_live", "0.75", 0), ("sessions_live", "1.0", 10),
        ("sessions", "2.0", 0), ("sessions", "3.0", 10),
    ):  # fmt: skip
        assert value(found, "penstock_latency_seconds_bucket", sink=sink, le=le) == events
    assert value(found, "penstock_latency_seconds_sum", sink="sessions") == pytest.approx(29.0)


def test_lag_that_grows_has_a_slope_and_lag_that_stays_has_none() -> None:
    easy, burst = Run(290).entries(), Run(470).entries()
    assert value(values(page(easy, easy[-1].at_ms)[0]), "penstock_lag_slope_records_per_second") == 0
    found = values(page(burst, burst[-1].at_ms)[0])
    assert value(found, "penstock_lag_slope_records_per_second") > 1_000
    assert value(found, "penstock_lag_trend", trend="growing") == 1
    assert value(found, "penstock_pressure", query="clickstream", stage="state") == 1


def test_a_pipeline_that_is_gone_uses_nothing_and_its_lag_gets_older_but_no_longer_grows() -> None:
    burst = Run(470).entries()
    before, after = (values(page(burst, burst[-1].at_ms + more_ms)[0]) for more_ms in (0, 300_000))
    assert value(after, "penstock_lag_trend", trend="growing") == 0
    assert value(after, "penstock_lag_trend", trend="stalled") == 1
    assert "penstock_lag_slope_records_per_second" not in {name for name, _ in after}
    gone = {name for name, _ in before} - {name for name, _ in after}
    assert {"penstock_broker_up", "penstock_resident_memory_bytes"} <= gone
    assert value(after, "penstock_lag_seconds") == value(before, "penstock_lag_seconds") + 300


def test_partitions_beyond_the_bound_are_told_of_together() -> None:
    ends = {partition: 100 + partition for partition in range(PARTITIONS_MAX + 10)}
    found = values(page([Lag(START_MS, ends, dict.fromkeys(ends, 100))], START_MS + 1_000)[0])
    each = [labels for name, labels in found if name == "penstock_partition_lag_records"]
    assert len(each) == PARTITIONS_MAX + 1
    beyond = sum(range(PARTITIONS_MAX, PARTITIONS_MAX + 10))
    assert value(found, "penstock_partition_lag_records", partition="rest") == beyond
    assert value(found, "penstock_partition_lag_records", partition="7") == 7
    assert value(found, "penstock_lag_records") == sum(ends.values()) - 100 * len(ends)


def test_executors_are_told_of_together_and_their_time_goes_on_when_one_is_replaced() -> None:
    def load(at_ms: int, **cpu_s: float) -> Load:
        return Load(
            at_ms,
            tuple(ProcessLoad(f"executor {name[1:]}", used, 100, 10, 50, 0) for name, used in cpu_s.items()),
        )

    looks = [load(0, e1=5.0, e2=7.0), load(1_000, e1=6.0, e2=9.0), load(2_000, e2=10.0, e3=1.0)]
    found = values(page(looks, 2_000)[0])
    assert value(found, "penstock_cpu_seconds_total", process="executors") == 4
    assert value(found, "penstock_resident_memory_bytes", process="executors") == 200
    assert value(found, "penstock_executors") == 2


def test_failures_and_waits_are_counted() -> None:
    notes = ["batch failed, starting again: x", "Kafka at h:1 away; waiting", "batch failed, starting again"]
    found = values(page([Note(at, text) for at, text in enumerate(notes, 1)], 10)[0])
    assert value(found, "penstock_failed_batches_total") == 2
    assert value(found, "penstock_failed_batches_in_row") == 2
    assert value(found, "penstock_service_waits_total") == 1


def test_names_of_any_letters_stay_one_label() -> None:
    hostile = 'a"} 1\npenstock_lost{x="\\'
    board, tally = Board(hostile), Tally(hostile)
    board.feed(Note(START_MS, "running"))
    labels = {dict(labels)["pipeline"] for _, labels in values(scraped(board, tally, START_MS))}
    assert labels == {hostile}


def test_promtool_has_no_complaint(whole: bytes) -> None:
    assert promtool("check", "metrics", given=whole) == ""


_bounds_ms = st.sampled_from([round(bound * 1000) for bound in LATENCY_BOUNDS_S])


@given(st.lists(st.tuples(_bounds_ms | st.integers(0, 400_000), st.integers(1, 5)), max_size=30))
def test_a_histogram_counts_all_up_to_each_bound_and_the_bound_itself(counted: list[tuple[int, int]]) -> None:
    one_by_one, at_once = Histogram(LATENCY_BOUNDS_S), Histogram(LATENCY_BOUNDS_S)
    for ms, events in counted:
        for _ in range(events):
            one_by_one.add(ms)
    at_once.add_all(Spread(*np.array(counted, np.int64).reshape(-1, 2).T))
    for held in (one_by_one.buckets(), at_once.buckets()):
        for bound, reached in held.reached:
            assert reached == sum(events for ms, events in counted if ms <= bound * 1000)
        assert held.sum_s == pytest.approx(sum(ms * events for ms, events in counted) / 1000)


_small = st.integers(0, 50)
_at_ms = st.integers(0, 100_000)


@st.composite
def some_batches(draw: st.DrawFn) -> Batch:
    start = draw(_small)
    sinks = tuple(
        SinkReceipt(name, 60, "00", draw(st.booleans()), draw(_small), draw(_at_ms), draw(_small))
        for name in draw(st.sets(st.sampled_from(["sessions", "other"])))
    )
    query = draw(st.sampled_from(["clickstream", "clickstream-events"]))
    decoded, rejected, late = draw(_small), draw(_small), draw(_small)
    receipt = Receipt(
        query, draw(st.integers(0, 2)), {0: (start, start + draw(_small))}, decoded, rejected, late, 0, 1, 1,
        0, 0, sinks, draw(_at_ms), draw(_small), draw(_small),
    )  # fmt: skip
    latency = Latency.of(draw(st.lists(st.tuples(_at_ms, st.integers(1, 9)), max_size=3)))
    return Batch(draw(_at_ms), receipt, latency)


_lags = st.builds(
    Lag,
    _at_ms,
    st.dictionaries(st.integers(0, 3), _small),
    st.dictionaries(st.integers(0, 3), _small),
)
_notes = st.builds(
    Note, _at_ms, st.sampled_from(["batch failed", "x away; waiting", "stopped", "running", ""])
)
_works = st.builds(
    Work, _at_ms, st.just("clickstream"), st.integers(0, 2), _small, _small, _small, _small, _small, _small,
    _at_ms, st.none() | st.builds(StateWork, *[_small] * 8), st.just(()),
)  # fmt: skip
_processes = st.builds(
    ProcessLoad, st.sampled_from(["driver", "jvm", "executor 1", "executor 2"]), _small, _small, gc_ms=_small
)
_loads = st.builds(Load, _at_ms, st.lists(_processes, max_size=4, unique_by=lambda one: one.name).map(tuple))


_kinds = (some_batches(), _lags, _notes, _works, _loads)
_entries = st.one_of(
    *(st.lists(kind, max_size=5) for kind in _kinds), st.lists(st.one_of(_kinds), max_size=10)
)


@settings(max_examples=100, deadline=None)
@given(_entries, st.sampled_from([0, 0, 50_000]))
def test_no_count_ever_falls_and_histograms_add_up_whatever_a_journal_tells(
    entries: list[Seen], since_ms: int
) -> None:
    board, tally = Board("clickstream", "clicks", FACTS[:1]), Tally("clickstream", FACTS[:1], since_ms)
    before: Values = {}
    for entry in entries:
        board.feed(entry)
        tally.feed(entry)
        text = scraped(board, tally, 100_000)
        found = values(text)
        counts = ("_total", "_bucket", "_sum", "_count")
        for key, number in before.items():
            assert not key[0].endswith(counts) or found[key] >= number
        for family in text_string_to_metric_families(text.decode()):
            if family.type == "histogram":
                for labels, reached in _buckets(family.samples).items():
                    assert reached == sorted(reached)
                    assert reached[-1] == found[f"{family.name}_count", labels]
        before = found


def _buckets(samples: Sequence[object]) -> dict[frozenset[tuple[str, str]], list[float]]:
    """The counts by label, in the order in which they stand."""
    found: dict[frozenset[tuple[str, str]], list[float]] = {}
    for sample in samples:
        name, labels, count = sample.name, sample.labels, sample.value  # type: ignore[attr-defined]
        if name.endswith("_bucket"):
            key = frozenset((label, text) for label, text in labels.items() if label != "le")
            found.setdefault(key, []).append(count)
    return found
