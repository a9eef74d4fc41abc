"""The arithmetic of a plan: single sums by tables of cases, the whole by what must hold for any load."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.paths import PROJECT, shipped
from penstock.sizing import Figures, Plan, Wanted, figures, keep, plan
from penstock.sizing import arithmetic as sums
from penstock.sizing.sheet import amount
from penstock.spec import load

KNOWN = figures(Path("/nowhere/figures.json"))

wanted = st.builds(
    Wanted,
    rate_eps=st.floats(1, 1e7),
    size_bytes=st.floats(1, 1e9),
    alive=st.integers(0, 10**9),
    lookup_rows=st.integers(0, 10**8),
    p99_s=st.floats(1.0, 600.0),
    replication=st.integers(1, 3),
    brokers=st.integers(3, 20),
    retention_s=st.floats(60, 1e7),
    outage_s=st.floats(0, 1e6),
    producers=st.integers(1, 50),
    readers=st.integers(1, 10),
    executor_cores=st.integers(1, 32),
    partition_eps=st.none() | st.floats(100, 1e6),
)


@pytest.mark.parametrize(("p99_s", "interval"), [(1.7, 1.0), (5.1, 3.0), (17, 10.0)])
def test_an_event_waits_an_interval_and_its_batch(p99_s: float, interval: float) -> None:
    assert sums.interval_s(p99_s) == pytest.approx(interval)


@pytest.mark.parametrize(
    ("events", "alive", "expected"),
    [
        (1000, 0, 0),
        (1, 1_000_000, 1),  # hardly two events of one session
        (1000, 1000, 632.12),  # 1 - 1/e of all
        (1_000_000, 10, 10),  # all of them
    ],
)
def test_the_sessions_that_a_batch_touches(events: float, alive: float, expected: float) -> None:
    assert sums.touched(events, alive) == pytest.approx(expected, rel=1e-4)


@given(st.floats(1, 1e9), st.floats(1, 1e9))
def test_no_more_sessions_are_touched_than_there_are_events_or_sessions(events: float, alive: float) -> None:
    assert 0 < sums.touched(events, alive) <= min(events, alive) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("cpu_s", "interval", "fixed_s", "expected"),
    [
        (0.1, 10, 0.4, 1),  # never less than one
        (6.6, 10, 0.4, 1),  # 7 s less 0.4 s are just enough
        (6.7, 10, 0.4, 2),
        (66, 10, 0.4, 10),
    ],
)
def test_cores_for_a_batch(cpu_s: float, interval: float, fixed_s: float, expected: int) -> None:
    assert sums.cores(cpu_s, interval, fixed_s) == expected


@pytest.mark.parametrize(
    ("rate_eps", "slots", "one_eps", "expected"),
    [(1000, 1, 1e6, 2), (1000, 4, 1e6, 8), (100_000, 4, 10_000, 10), (100_001, 4, 10_000, 11)],
)
def test_partitions_are_twice_the_slots_or_what_the_rate_asks_for(
    rate_eps: float, slots: int, one_eps: float, expected: int
) -> None:
    assert sums.partitions(rate_eps, slots, one_eps) == expected


@pytest.mark.parametrize(
    ("rate", "outage_s", "peak", "expected"),
    [
        (100, 60, 200, 60),
        (100, 60, 150, 120),
        (100, 0, 150, 0),
        (100, 60, 100, math.inf),
        (100, 60, 50, math.inf),
    ],
)
def test_how_long_catching_up_takes(rate: float, outage_s: float, peak: float, expected: float) -> None:
    assert sums.catch_up_s(rate, outage_s, peak) == expected


@pytest.mark.parametrize(
    ("each_eps", "parts", "p99_s", "expected"),
    [
        (1_000_000, 10, 5, 0.005),  # enough come by themselves
        (10_000, 10, 5, 0.01),  # ten for each of ten partitions
        (10, 10, 5, 0.05),  # no longer than a hundredth of the objective
        (10, 10, 0.1, 0.005),
    ],
)
def test_how_long_a_producer_waits_for_more(
    each_eps: float, parts: int, p99_s: float, expected: float
) -> None:
    assert sums.linger_s(each_eps, parts, p99_s, 0.005) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("each_eps", "size", "parts", "linger", "expected"),
    [
        (1000, 100, 10, 0.005, 16_384),
        (1_000_000, 1000, 10, 0.005, 1_000_000),
        (200_000, 1000, 10, 0.01, 400_000),
    ],
)
def test_the_batches_of_a_producer(
    each_eps: float, size: float, parts: int, linger: float, expected: int
) -> None:
    assert sums.producer_batch_bytes(each_eps, size, parts, linger) == expected


def test_the_memory_of_an_executor() -> None:
    assert sums.heap_bytes(4, 1 << 30, 100) == 4 * (1 << 30) + 200
    assert sums.overhead_bytes(1 << 30) == 384 << 20
    assert sums.overhead_bytes(10 << 30) == 1 << 30


def test_a_plan_by_hand() -> None:
    round_figures = figures(
        Path("/nowhere"), event_us=10, key_us=90, batch_s=0.2, session_bytes=100, lookup_bytes=50
    )
    made = plan(
        Wanted(
            rate_eps=10_000,
            size_bytes=100,
            alive=10**9,
            lookup_rows=1_000_000,
            p99_s=1.7,
            outage_s=100,
            readers=2,
        ),
        round_figures,
    )
    # One second of events, hardly two of one session: 10,000 x (10 us + 90 us) = 1 s of CPU.
    expected = {
        "interval": 1.0,
        "events a batch": 10_000,
        "sessions touched": 10_000,
        "CPU of a batch": 1.0,
        "CPU per million events": 100,
        "cores, each a task slot": 2,  # 1 / (0.7 - 0.2)
        "a batch takes": 0.7,
        "utilisation": 70,
        "largest batch": 16_000,  # (1 - 0.2) x 2 / 100 us
        "a partition takes": 70_000,
        "partitions": 4,
        "in Kafka, on average": 5_000,
        "in Spark": 7_000,
        "an event's way, on average": 1.2,
        "reference data": 50_000_000,
        "state on disk": 100 * 10**9,
        "comes in": 1_000_000,
        "network in, each": 1_000_000,
        "network out, each": 4_000_000 / 3,
        "kept": 1_000_000 * 86_400 * 3,
        "disk, each": 1_000_000 * 86_400 / 0.7,
        "backlog": 1_000_000,
        "peak rate": 16_000,
        "caught up after": 1_000_000 / 6_000,
        "queue.buffering.max.messages": 90_000,
    }
    assert {name: made.value(name) for name in expected} == pytest.approx(expected, rel=1e-3)
    assert made.settings == {
        "source.partitions": "4",
        "source.max_batch": str(int(made.value("largest batch"))),
        "trigger": "1000 ms",
        "sessions.partitions": "2",
    }
    assert not made.problems


def test_larger_records_cost_more_and_smaller_ones_no_less() -> None:
    costs = [plan(Wanted(1000, size), KNOWN).value("CPU of an event") for size in (100, 230, 460)]
    assert costs == pytest.approx([3.4, 3.4, 6.8])


def test_what_a_person_knows_of_a_partition_is_heeded() -> None:
    assert plan(Wanted(100_000, 230, partition_eps=5_000), KNOWN).value("partitions") == 20


@given(wanted)
def test_nothing_is_planned_to_be_busier_than_it_may_be(w: Wanted) -> None:
    made = plan(w, KNOWN)
    assert made.value("utilisation") <= 70 * (1 + 1e-9)
    assert made.value("partitions") >= 2 * made.value("cores, each a task slot")


@given(wanted)
def test_the_objective_is_kept(w: Wanted) -> None:
    made = plan(w, KNOWN)
    assert made.value("interval") + made.value("a batch takes") <= w.p99_s * (1 + 1e-9)


@given(wanted)
def test_a_backlog_is_always_worked_off(w: Wanted) -> None:
    made = plan(w, KNOWN)
    after_s, peak = made.value("caught up after"), made.value("peak rate")
    # What came in the outage and since is what was read since.
    assert w.rate_eps * (w.outage_s + after_s) == pytest.approx(peak * after_s)
    assert bool(made.problems) == (w.outage_s >= w.retention_s)


@given(wanted)
def test_littles_law_holds_of_every_part(w: Wanted) -> None:
    made = plan(w, KNOWN)
    inside = made.value("in Kafka, on average") + made.value("in Spark")
    assert inside == pytest.approx(w.rate_eps * made.value("an event's way, on average"))
    assert made.value("in Kafka, at most") == pytest.approx(made.value("events a batch"))


_GROWS = (
    "events a batch",
    "sessions touched",
    "CPU of a batch",
    "cores, each a task slot",
    "partitions",
    "executors",
    "comes in",
    "network out, each",
    "disk, each",
    "backlog",
    "queue.buffering.max.messages",
)


@given(wanted, st.floats(1, 100))
def test_more_events_never_ask_for_less(w: Wanted, times: float) -> None:
    less, more = plan(w, KNOWN), plan(replace(w, rate_eps=w.rate_eps * times), KNOWN)
    for name in _GROWS:
        assert more.value(name) >= less.value(name) * (1 - 1e-9), name


@given(wanted, st.floats(1, 10))
def test_a_tighter_objective_never_asks_for_fewer_cores(w: Wanted, times: float) -> None:
    easy, hard = plan(replace(w, p99_s=w.p99_s * times), KNOWN), plan(w, KNOWN)
    assert hard.value("cores, each a task slot") >= easy.value("cores, each a task slot")


@given(wanted, st.integers(1, 10**9))
def test_more_state_never_asks_for_less(w: Wanted, more_alive: int) -> None:
    less, more = plan(w, KNOWN), plan(replace(w, alive=w.alive + more_alive), KNOWN)
    for name in ("cores, each a task slot", "state on disk", "checkpoint", "RocksDB beside it"):
        assert more.value(name) >= less.value(name), name


@given(wanted)
def test_what_follows_is_a_description(w: Wanted) -> None:
    made = plan(w, KNOWN)
    described = load(shipped("pipelines") / "clickstream.toml", environ={}, overrides=dict(made.settings))
    assert described.source.partitions == made.value("partitions")
    assert described.source.max_batch == made.value("largest batch")


@given(wanted)
def test_every_step_can_be_followed(w: Wanted) -> None:
    made: Plan = plan(w, KNOWN)
    names = [step.name for steps in made.steps.values() for step in steps]
    assert len(set(names)) == len(names)
    for steps in made.steps.values():
        assert all(step.formula and step.text and math.isfinite(step.value) for step in steps)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate_eps": 0}, "rate_eps = 0"),
        ({"rate_eps": -1}, "rate_eps = -1"),
        ({"rate_eps": math.inf}, "rate_eps = inf"),
        ({"rate_eps": math.nan}, "rate_eps = nan"),
        ({"size_bytes": 0}, "size_bytes = 0"),
        ({"alive": -1}, "alive = -1"),
        ({"retention_s": 0}, "retention_s = 0"),
        ({"outage_s": -5}, "outage_s = -5"),
        ({"producers": 0}, "producers = 0"),
        ({"partition_eps": 0}, "partition_eps = 0"),
        ({"replication": 3, "brokers": 2}, "2 brokers cannot hold 3 replicas"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, float], words: str) -> None:
    with pytest.raises(PenstockError, match=words):
        Wanted(**{"rate_eps": 1000, "size_bytes": 230, **changes})  # type: ignore[arg-type]


def test_an_objective_that_batches_cannot_keep_is_refused_with_the_way_out() -> None:
    with pytest.raises(PenstockError, match=r"0\.9 s cannot be had") as refused:
        plan(Wanted(1000, 230, p99_s=0.9), KNOWN)
    assert "more than 0.97 s" in refused.value.hint
    assert "realtime" in refused.value.hint
    assert plan(Wanted(1000, 230, p99_s=0.98), KNOWN).value("utilisation") <= 70


def test_an_outage_longer_than_the_retention_loses_records() -> None:
    [problem] = plan(Wanted(1000, 230, retention_s=3600, outage_s=7200), KNOWN).problems
    assert "an outage of 2 h loses records" in problem


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (230, "B", "230 B"),
        (1 << 30, "B", "1 GiB"),
        (1_000, "B", "1,000 B"),
        (46e6, "B/s", "46 MB/s"),
        (0.4, "s", "0.4 s"),
        (119, "s", "119 s"),
        (7200, "s", "2 h"),
        (172_800, "s", "2 days"),
        (math.inf, "s", "never"),
        (3.4, "us", "3.4 us"),
        (1234567, "", "1,234,567"),
        (1234567, "/s", "1,234,567/s"),
        (1234567, "records", "1,234,567 records"),
    ],
)
def test_numbers_as_people_write_them(value: float, unit: str, text: str) -> None:
    assert amount(value, unit) == text


def test_shipped_figures_are_of_another_machine_and_say_what_measured_them() -> None:
    for field in fields(Figures):
        figure = getattr(KNOWN, field.name)
        assert not figure.here
        assert figure.value > 0
        assert figure.source
        assert figure.what


def test_the_page_tells_of_the_shipped_figures() -> None:
    told = (PROJECT / "docs" / "plan.md").read_text().split("## The figures")[1]
    values = {line.split("|")[2].split()[0] for line in told.splitlines() if line.startswith("| ")}
    shown = {amount(figure.value, figure.unit).split()[0] for figure in vars(KNOWN).values()}
    assert values - {"shipped"} == shown - {amount(KNOWN.record_bytes.value, "B").split()[0]}


def test_figures_of_this_machine_come_first_and_those_that_are_given_before_them(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "figures.json"
    keep("event_us", 2.5, "python -m penstock.bench.stages", file)
    keep("key_us", 30.0, "python -m penstock.bench.growth", file)
    keep("event_us", 2.0, "python -m penstock.bench.stages", file)
    known = figures(file, key_us=7.0, batch_s=None)
    assert (known.event_us.value, known.event_us.here) == (2.0, True)
    assert known.event_us.source.startswith("python -m penstock.bench.stages, 20")
    assert (known.key_us.value, known.key_us.source) == (7.0, "given")
    assert known.batch_s == KNOWN.batch_s


@pytest.mark.parametrize(("name", "value"), [("colour", 1.0), ("event_us", 0.0), ("event_us", math.nan)])
def test_no_nonsense_is_kept(name: str, value: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no figure"):
        keep(name, value, "x", tmp_path / "figures.json")


def test_a_damaged_file_of_figures_is_named(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    file.write_text("{")
    with pytest.raises(PenstockError, match=str(file)):
        figures(file)


def test_figures_that_a_later_version_left_do_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    file.write_text(json.dumps({"unheard_of": {"value": 1, "source": "x"}}))
    assert figures(file) == KNOWN
