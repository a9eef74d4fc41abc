"""What sessions and windows do beyond the model: combining, growth of state, large and exact measures."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock.engine.pipeline as pipeline_module
from penstock.engine.grouping import group
from penstock.errors import StateMismatch
from penstock.paths import DataDir
from penstock.spec import PipelineSpec
from penstock.testing import Record, Row, Topic
from penstock.testing.stream import EngineRun, run_batches
from tests.integration.streams import kept_keys

pytestmark = pytest.mark.integration

T0 = 1_800_000_000_000


def spec(measures: dict[str, str] | None = None, combine: bool = False, **sections: Any) -> PipelineSpec:
    """Sessions unless other sections are given."""
    shape = {
        "key": "user",
        "lateness": "5 seconds",
        "partitions": 2,
        "combine": combine,
        "measures": measures or {"n": "count(*)"},
    }
    windows = sections.pop("windows", None)
    chosen = {"windows": {**shape, **windows}} if windows else {"sessions": {**shape, "gap": "3 seconds"}}
    given: dict[str, Any] = {
        "name": "grouped",
        "source": {
            "topic": "t",
            "schema": "user string, ts long, x double, page string, id string",
            "key": "user",
            "event_time": "ts",
        },
        "sink": [{"kind": "kafka", "topic": "out"}],
        **chosen,
    }
    return PipelineSpec(**{**given, **sections})


def at(topic: Topic, ms: int, user: str = "u", partition: int = 0, **values: Any) -> Record:
    return topic.record({"user": user, "ts": T0 + ms, **values}, partition)


def rows_of(batches: list[list[Row]], kind: str) -> list[Row]:
    return [row for rows in batches for row in rows if row["kind"] == kind]


@pytest.mark.parametrize("windows", [None, {"size": "4 seconds", "slide": "2 seconds"}])
def test_combining_before_the_shuffle_changes_no_bit_of_any_row(
    spark: SparkSession, tmp_path: Path, windows: dict[str, str] | None
) -> None:
    """One batch with a hot key, one with so many keys that combining gives up; numbers that round badly."""
    chance, topic = random.Random(1), Topic()
    values = (0.1, 1e16, -1e16, 3.3, 1e-9, None)
    hot = [
        at(
            topic,
            chance.randrange(9_000),
            chance.choice(("hot", "hot", "hot", "u")),
            i % 2,
            x=chance.choice(values),
        )
        for i in range(1_500)
    ]
    wide = [at(topic, 9_000 + i, f"u{i % 2_500}", i % 2, x=chance.choice(values)) for i in range(5_000)]
    old = [at(topic, chance.choice((-50_000, 1)) + i, "hot", x=0.3) for i in range(200)]
    measures = {"n": "count(*)", "total": "sum(x)", "last": "last(x)", "many": "distinct(x)"}
    single, combined = (
        run_batches(spark, made, tmp_path / str(combine), [hot, wide, old])
        for combine in (False, True)
        for made in [spec(measures, combine, windows=windows)]
    )
    assert combined == single
    assert rows_of(combined, "late")
    assert (
        sum(row["new_events"] for rows in combined for row in rows) + len(rows_of(combined, "late")) == 6_700
    )


def test_a_bucket_that_takes_several_packets_loses_nothing_and_is_told_of_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A megabyte of one key: packets are of 64 kB at most, since a task may hold many buckets."""
    topic = Topic()
    events = [at(topic, i, page=f"{i:0300d}") for i in range(3_000)]
    others = [at(topic, i, f"u{i}") for i in range(100)]
    [rows, *_] = run_batches(
        spark, spec({"n": "count(*)", "last": "last(page)"}), tmp_path, [[*events, *others]]
    )
    [row] = [row for row in rows if row["key"] == "u"]
    assert (row["n"], row["new_events"], row["last"]) == (3_000, 3_000, f"{2_999:0300d}")
    assert len(rows) == 101


def test_whether_events_are_combined_can_be_changed_at_a_start(spark: SparkSession, tmp_path: Path) -> None:
    topic = Topic()
    engine = EngineRun(spark, spec(), DataDir.at(tmp_path))
    counts: list[tuple[str, int, int]] = []
    for combine in (False, True, False):
        engine.spec = spec(combine=combine)
        # The batch that follows only moves the clock.
        [[row], *_] = engine.run([[at(topic, len(counts) * 1_000 + i) for i in range(200)]])
        counts.append((row["kind"], row["version"], row["n"]))
    assert counts == [("live", 1, 200), ("live", 2, 400), ("live", 3, 600)]


@pytest.mark.parametrize("windows", [None, {"size": "4 seconds", "slide": "2 seconds"}])
def test_live_rows_that_nobody_asks_for_are_counted_and_all_others_are_as_they_were(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, windows: dict[str, str] | None
) -> None:
    chance, topic = random.Random(2), Topic()
    batches = [
        [at(topic, from_ms + chance.randrange(6_000), f"u{chance.randrange(40)}") for _ in range(400)]
        for from_ms in (0, 3_000, 40_000, 2_000, 41_000)
    ]
    made = spec(windows=windows)
    told = run_batches(spark, made, tmp_path / "told", batches)
    monkeypatch.setattr(pipeline_module, "group", lambda *args, **_: group(*args, live=False))
    counted = run_batches(spark, made, tmp_path / "counted", batches)
    assert rows_of(told, "live")
    assert rows_of(told, "corrected" if windows else "final")
    for all_rows, fewer in zip(told, counted, strict=True):
        live, instead = rows_of([all_rows], "live"), rows_of([fewer], "counted")
        assert [row for row in all_rows if row["kind"] != "live"] == [
            row for row in fewer if row["kind"] != "counted"
        ]
        assert sum(row["version"] == 1 for row in live) == sum(row["new_spans"] for row in instead)
        # Never younger than they are, and none older than the oldest.
        ages, as_told = events_by_age(live), events_by_age(instead)
        assert len(ages) == len(as_told)
        assert all(said <= real for said, real in zip(as_told, ages, strict=True))
        assert as_told[:1] == ages[:1]


def events_by_age(rows: list[Row]) -> list[int]:
    """When each event of these rows was created, the oldest first."""
    return sorted(row["oldest_created_ms"] for row in rows for _ in range(row["new_events"]))


def test_the_sum_of_doubles_is_that_of_the_exact_numbers_rounded_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    topic = Topic()
    batches = [[at(topic, 1, x=1e16), at(topic, 2, x=1.0)], [at(topic, 3, x=1.0), at(topic, 4, x=-1e16)]]
    [_, second, *_] = run_batches(spark, spec({"total": "sum(x)"}), tmp_path, batches)
    assert second[0]["total"] == 2.0


@pytest.mark.parametrize(("values", "exact"), [(1_024, True), (20_000, False)])
def test_distinct_is_exact_up_to_its_limit_and_says_when_it_is_not(
    spark: SparkSession, tmp_path: Path, values: int, exact: bool
) -> None:
    topic = Topic()
    records = [at(topic, i % 1_000, page=f"/{i % values}") for i in range(values * 2)]
    halves = [records[: len(records) // 2], records[len(records) // 2 :]]
    rows = run_batches(spark, spec({"pages": "distinct(page)"}), tmp_path, halves)[1]
    [row] = [row for row in rows if row["kind"] == "live"]
    assert row["pages_exact"] is exact
    assert row["pages"] == values if exact else abs(row["pages"] - values) < 0.15 * values


def test_measures_hold_dates_times_and_decimals(spark: SparkSession, tmp_path: Path) -> None:
    topic = Topic()
    measures = {
        "day": "max(to_date(timestamp_millis(ts)))",
        "moment": "last(timestamp_millis(ts))",
        "money": "sum(CAST(x AS decimal(10,2)))",
        "big": "max(x > 2)",
    }
    [[row], *_] = run_batches(spark, spec(measures), tmp_path, [[at(topic, 0, x=0.1), at(topic, 1, x=2.2)]])
    assert (str(row["day"]), row["moment"].microsecond, str(row["money"]), row["big"]) == (
        "2027-01-15",
        1_000,
        "2.30",
        True,
    )


def test_measures_can_be_added_dropped_and_put_in_another_order_on_a_live_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    topic, data = Topic(), DataDir.at(tmp_path)
    first = spec({"n": "count(*)", "total": "sum(x)", "entry": "first(page)"})
    EngineRun(spark, first, data).run([[at(topic, 0, x=1.5, page="/a")]])
    second = spec({"entry": "first(page)", "top": "max(x)", "n": "count(*)"})
    [rows, *_] = EngineRun(spark, second, data).run([[at(topic, 1, x=0.5, page="/b")]])
    assert (rows[0]["entry"], rows[0]["top"], rows[0]["n"], rows[0]["version"]) == ("/a", 0.5, 2, 2)
    [rows, *_] = EngineRun(spark, first, data).run([[at(topic, 2, x=0.25)]])
    assert (rows[0]["n"], rows[0]["total"], rows[0]["entry"]) == (3, 0.25, "/a")


def test_a_gap_can_be_changed_and_a_key_cannot_and_nothing_is_written_then(
    spark: SparkSession, tmp_path: Path
) -> None:
    topic, data = Topic(), DataDir.at(tmp_path)
    EngineRun(spark, spec(), data).run([[at(topic, 0)]])
    longer = {
        **spec().model_dump(by_alias=True)["sessions"],
        "gap": "60 seconds",
        "measures": {"n": "count(*)"},
    }
    [rows, *_] = EngineRun(spark, spec(sessions=longer), data).run([[at(topic, 50_000)]])
    assert rows[0]["n"] == 2
    before = _files(data.checkpoints)
    for changed, told in (
        ({**longer, "key": "page"}, "sessions.key was user, is page"),
        ({**longer, "partitions": 3}, "sessions.partitions was 2, is 3"),
        ({**longer, "measures": {"n": "sum(x)"}}, "measure n was a count of bigint, is a sum of double"),
    ):
        with pytest.raises(StateMismatch, match=told):
            EngineRun(spark, spec(sessions=changed), data).run([])
    assert _files(data.checkpoints) == before


def _files(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("windows", [None, {"size": "4 seconds", "slide": "2 seconds"}])
def test_no_state_is_left_when_all_is_closed_and_all_ids_are_forgotten(
    spark: SparkSession, tmp_path: Path, windows: dict[str, str] | None
) -> None:
    topic = Topic()
    made = spec(windows=windows, cleanse={"dedupe": {"on": "id", "within": "60 seconds"}})
    users = [at(topic, i, f"u{i}", id=str(i)) for i in range(50)]
    again = [at(topic, i, f"u{i}", id=str(i)) for i in range(50)]
    clock = [[at(topic, ms, "clock")] for ms in (30_000, 100_000, 200_000)]
    batches = run_batches(spark, made, tmp_path, [users, clock[0], again, *clock[1:]])
    assert len(rows_of(batches, "duplicate")) == 50
    assert kept_keys(spark, DataDir.at(tmp_path).checkpoints / made.name) == ["clock"]


def test_plain_windows_are_the_kernels_final_windows(spark: SparkSession, tmp_path: Path) -> None:
    chance, topic = random.Random(2), Topic()
    batches, front = [], 0
    for _ in range(5):
        front += 5_000
        batches.append(
            [at(topic, front - chance.randrange(3_000), f"u{chance.randrange(9)}", x=1.25) for _ in range(80)]
        )
    batches.append([at(topic, front + 60_000, "clock")])
    measures = {"n": "count(*)", "total": "sum(x)", "last": "last(ts)"}
    shape = {"size": "4 seconds", "slide": "2 seconds"}
    finals = [
        {row["window_id"]: (row["n"], row["total"], row["last"]) for row in rows_of(rows, "final")}
        for rows in (
            run_batches(spark, spec(measures, windows=shape, engine=engine), tmp_path / engine, batches)
            for engine in ("kernel", "plain")
        )
    ]
    assert finals[0] == finals[1]
    assert len(finals[0]) > 50


def test_a_measure_of_the_wrong_type_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r'bad = "max\(array\(x\)\)": cannot take the max of a array'):
        run_batches(spark, spec({"bad": "max(array(x))"}), tmp_path, [])


def test_a_record_set_aside_says_which_condition_it_broke(spark: SparkSession, tmp_path: Path) -> None:
    topic = Topic(now_ms=T0)
    cleanse = {
        "set": {"page": "lower(trim(page))"},
        "where": {"known_page": "page IN ('/a', '/b')", "x_is_small": "x < 10"},
        "past": "1 minute",
    }
    records = [
        at(topic, 0, page=" /A ", x=1.0),
        at(topic, 0, page="/c", x=1.0),
        at(topic, 0, page="/b", x=11.0),
        at(topic, -60_001, page="/b", x=1.0),
    ]
    [rows, *_] = run_batches(spark, spec({"p": "last(page)"}, cleanse=cleanse), tmp_path, [records])
    reasons = {row["offset"]: row["reason"] for row in rows if row["kind"] == "rejected"}
    assert reasons == {
        1: "condition: known_page does not hold",
        2: "condition: x_is_small does not hold",
        3: "past: ts is 60001 ms behind the broker, 60000 allowed",
    }
    assert [row["p"] for row in rows if row["kind"] == "live"] == ["/a"]
    assert json.loads(rows_of([rows], "rejected")[0]["raw"])["page"] in ("/c", "/b")
