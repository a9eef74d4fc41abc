"""The rules on checkpoints, the machine and prices, and the readers of what is on disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine.checkpoint import Checkpoint
from penstock.engine.layout import StateLayout
from penstock.engine.receipt import Receipt, SinkReceipt
from penstock.observe.journal import Batch, JournalWriter, Lag, Note
from penstock.observe.latency import Latency
from penstock.preflight.facts import CheckpointFacts, Facts, JournalFacts, ReferenceFacts, SinkCost, Start
from penstock.preflight.judge import judge
from penstock.preflight.reading.checkpoints import read_checkpoints
from penstock.preflight.reading.journal import read_journal
from penstock.preflight.reading.reference import read_reference
from penstock.spec import PipelineSpec
from tests.unit.preflight_facts import (
    CHECKPOINT,
    FACTS,
    KAFKA,
    SPEC,
    matters,
    only,
    respecified,
    told,
    topic,
    with_checkpoint,
    with_kafka,
)
from tests.unit.test_engine_checkpoint import begin, commit, plan

LAYOUT = StateLayout.of(SPEC, [["clicks", "count", "bigint"], ["page", "last", "string"]])
FAST = {"kind": "kafka", "topic": "fast", "rows": "events", "guarantee": "at_least_once", "key": "page"}
REALTIME = replace(
    with_kafka(topics={**KAFKA.topics, "fast": topic("fast")}),
    spec=respecified(sink=[{**FAST, "latency": "realtime"}]),
)


def test_a_checkpoint_that_another_process_runs_on_stops_a_start() -> None:
    assert told(with_checkpoint(locked=True)) == [
        ("error", "checkpoint visits", "another process runs on /data/checkpoints/visits")
    ]


@pytest.mark.parametrize(("planned", "committed"), [(5, 7), (9, 7), (3, -1)])
def test_batches_that_do_not_follow_each_other_stop_a_start(planned: int, committed: int) -> None:
    facts = with_checkpoint(planned=planned, committed=committed, sinks=())
    assert only(facts).stops
    assert f"offsets is {planned}, the newest that is done is {committed}" in only(facts).what


def test_a_checkpoint_whose_state_does_not_fit_the_spec_stops_a_start() -> None:
    was = replace(LAYOUT, fixed={**LAYOUT.fixed, "sessions.key": "account"})
    found = only(with_checkpoint(layout=was))
    assert found.stops
    assert "sessions.key was account, is user" in found.what


def test_a_measure_of_another_function_stops_a_start_and_a_new_one_does_not() -> None:
    measures = {"clicks": "sum(ts)", "page": "last(page)"}
    facts = replace(with_checkpoint(layout=LAYOUT), spec=_measuring(measures))
    assert "measure clicks was a count of bigint, is a sum of" in only(facts).what
    facts = replace(
        facts, spec=_measuring({"clicks": "count(*)", "page": "last(page)", "pages": "distinct(page)"})
    )
    assert ("note", "checkpoint visits", "new measure pages: what is open now has it from here on") in told(
        facts
    )
    assert not any(
        found.severity == "error" and found.about.startswith("checkpoint") for found in matters(facts)
    )


def _measuring(measures: dict[str, str]) -> PipelineSpec:
    return respecified(sessions={"key": "user", "gap": "30 minutes", "measures": measures})


def test_the_checkpoint_of_a_realtime_sink_is_held_to_its_topic_only() -> None:
    layout = StateLayout({"source.topic": "clicks"}, [[]], {}, ["fast"])
    fast = CheckpointFacts("visits-fast", "/c", ("fast",), realtime=True, layout=layout)
    facts = replace(REALTIME, checkpoints=(fast,), clickhouse=None, postgres=None)
    assert not any(found.severity == "error" for found in _about(facts, "checkpoint"))
    other = replace(fast, layout=replace(layout, fixed={"source.topic": "taps"}))
    assert any(found.stops for found in _about(replace(facts, checkpoints=(other,)), "checkpoint"))


def _about(facts: Facts, word: str) -> list[Any]:
    return [found for found in matters(facts) if found.about.startswith(word)]


@pytest.mark.parametrize(
    ("free_bytes", "severity"),
    [(199_999_999, "error"), (200_000_000, "warning"), (999_999_999, "warning"), (1_000_000_000, None)],
)
def test_room_on_disk(free_bytes: int, severity: str | None) -> None:
    found = matters(replace(FACTS, disk_free_bytes=free_bytes))
    assert [one.severity for one in found] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("cores", "master", "is_told"),
    [
        (4, "local[*]", False),
        (5, "local[*]", True),
        (1, "local[*]", False),
        (64, "spark://there:7077", False),
    ],
)
def test_fewer_parts_of_state_than_cores_leave_cores_idle(cores: int, master: str, is_told: bool) -> None:
    found = matters(replace(FACTS, cores=cores, start=Start(master)))
    assert [(one.severity, one.about) for one in found] == ([("warning", "spark")] if is_told else [])


def test_many_more_parts_of_state_than_cores_are_a_cost() -> None:
    many = respecified(sessions={**SPEC.model_dump(mode="json", by_alias=True)["sessions"], "partitions": 64})
    assert only(replace(FACTS, spec=many)).severity == "warning"


@pytest.mark.parametrize(
    ("master", "severity"),
    [
        ("local[*]", None),
        ("local[3]", None),
        ("local[2]", "error"),
        ("local[2,4]", "error"),
        ("spark://there:7077", "note"),
    ],
)
def test_a_realtime_sink_needs_a_slot_for_each_task_that_reads_and_one_more(
    master: str, severity: str | None
) -> None:
    found = _about(replace(REALTIME, start=Start(master)), "spark")
    assert [one.severity for one in found] == ([severity] if severity else [])


def test_the_reader_of_a_realtime_sink_is_told_of_repeats() -> None:
    [found] = _about(REALTIME, "sink fast")
    assert found.severity == "note"
    assert "by its key, page" in found.fix


def test_reference_data_that_cannot_be_used_stop_a_start_unless_a_version_was_kept() -> None:
    gone = ReferenceFacts("users", ("no such file",))
    assert only(replace(FACTS, reference=(gone,))).stops
    assert only(replace(FACTS, reference=(replace(gone, kept=True),))).severity == "warning"
    assert told(replace(FACTS, reference=(ReferenceFacts("users"),))) == []


def test_the_price_of_a_guarantee_is_what_the_journal_saw() -> None:
    costs = {"sessions": SinkCost(12, 42.0, 0.25, 90.0)}
    lines = [found.what for found in judge(replace(FACTS, journal=JournalFacts(costs=costs)))]
    assert "exactly_once takes 42 ms a batch, 25% of it (median of the last 12 writes)" in lines
    assert lines.count("exactly_once: not measured yet") == 2


# What is on disk


def checkpoint_in(directory: Path) -> CheckpointFacts:
    [found] = read_checkpoints(SPEC, directory)
    return found


def test_before_the_first_start_there_is_nothing_to_read_and_nothing_is_made(tmp_path: Path) -> None:
    found = checkpoint_in(tmp_path)
    assert (found.planned, found.committed, found.due, found.next, found.damage) == (-1, -1, 0, {}, ())
    assert list(tmp_path.iterdir()) == []


def test_a_batch_that_is_done_is_followed_by_the_next(tmp_path: Path) -> None:
    here = tmp_path / "visits"
    for batch, end in enumerate((10, 20)):
        plan(here, batch, {0: end, 1: end})
        commit(here, batch, 0)
    found = checkpoint_in(tmp_path)
    assert (found.due, found.next) == (2, {0: 20, 1: 20})


def test_a_batch_that_is_not_done_is_read_again_from_where_it_starts(tmp_path: Path) -> None:
    here = tmp_path / "visits"
    begin(here, {0: 3, 1: 4})
    plan(here, 0, {0: 10, 1: 10})
    assert (checkpoint_in(tmp_path).due, checkpoint_in(tmp_path).next) == (0, {0: 3, 1: 4})
    commit(here, 0, 0)
    plan(here, 1, {0: 20, 1: 20})
    assert (checkpoint_in(tmp_path).due, checkpoint_in(tmp_path).next) == (1, {0: 10, 1: 10})


@pytest.mark.parametrize("name", ["offsets/0", "offsets/1", "commits/0", "state-layout.json"])
@pytest.mark.parametrize("content", ["", "v1", "half a li", "[]"])
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str, content: str) -> None:
    here = tmp_path / "visits"
    plan(here, 0, {0: 10})
    commit(here, 0, 0)
    plan(here, 1, {0: 20})
    (here / name).write_text(content)
    [damage] = checkpoint_in(tmp_path).damage
    assert str(here) in damage
    assert only(with_checkpoint(damage=(damage,))).stops


def test_offsets_that_were_cut_behind_a_line_are_damaged(tmp_path: Path) -> None:
    here = tmp_path / "visits"
    plan(here, 0, {0: 10})
    file = here / "offsets" / "0"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    assert any(str(file) in damage for damage in checkpoint_in(tmp_path).damage)


def test_a_lock_is_seen_while_it_is_held_and_not_taken(tmp_path: Path) -> None:
    running = Checkpoint(tmp_path / "visits", "clicks")
    assert checkpoint_in(tmp_path).locked
    running.close()
    assert not checkpoint_in(tmp_path).locked
    Checkpoint(tmp_path / "visits", "clicks").close()


def receipt(batch: int, records: int, write_ms: float, total_ms: float, *, replayed: bool = False) -> Batch:
    sink = SinkReceipt("sessions", 1, "d", replayed, write_ms, 0)
    counts = dict.fromkeys(
        ("decoded", "rejected", "late", "duplicates", "opened", "closed", "corrected", "merged"), 0
    )
    times = {"started_at_ms": 0, "compute_ms": 0, "total_ms": total_ms}
    told_ = Receipt("visits", batch, {0: (0, records)}, sinks=(sink,), **counts, **times)  # type: ignore[arg-type]
    return Batch(1_000 + batch, told_, Latency())


def test_the_journal_tells_costs_and_pace(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path / "journal.jsonl")
    journal.write(Lag(0, {0: 100, 1: 0}, {}))
    journal.write(receipt(0, 10, 50.0, 100.0))
    journal.write(receipt(1, 2_000, 10.0, 1_000.0))
    journal.write(receipt(2, 990, 30.0, 900.0))
    journal.write(receipt(3, 0, 1.0, 1_000_000.0, replayed=True))
    journal.write(Lag(10_000, {0: 600, 1: 0}, {}))
    journal.write(Note(20_000, "stopped"))
    journal.close()
    found = read_journal(tmp_path / "journal.jsonl")
    assert found.last_at_ms == 20_000
    assert found.costs == {"sessions": SinkCost(3, 30.0, 30 / 900, 50.0)}
    assert found.added_eps == {0: 50.0, 1: 0.0}
    assert found.capacity_eps == pytest.approx(3_000_000 / 1_002_000)


def test_a_journal_that_is_not_there_tells_nothing(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "journal.jsonl") == JournalFacts()


def enriching(**given: Any) -> PipelineSpec:
    return respecified(enrich=[{"name": "users", "on": "user", "take": ["country"], **given}])


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("users.parquet", pa.table({"user": ["a"], "country": ["PE"]}), None),
        ("users.csv", b"user,country\n1,PE\n", None),
        ("users.parquet", None, "no such file"),
        ("users.csv", None, "no such file"),
        ("users.parquet", b"not Parquet", "cannot be read"),
        ("users.csv", b"", "cannot be read"),
        ("users.parquet", pa.table({"user": ["a"]}), '"country": no such column'),
        ("users.csv", b"user,land\n1,PE\n", '"country": no such column'),
        ("users.parquet", pa.table({"user": [1.5], "country": ["PE"]}), "a key is a text"),
    ],
)
def test_reference_data_are_judged_by_their_columns(
    tmp_path: Path, file: str, content: Any, problem: str | None
) -> None:
    if isinstance(content, bytes):
        (tmp_path / file).write_bytes(content)
    elif content is not None:
        pq.write_table(content, tmp_path / file)
    [found] = read_reference(enriching(path=file), tmp_path, "", (CHECKPOINT,))
    assert len(found.problems) == (1 if problem else 0)
    assert problem is None or problem in found.problems[0]


def test_a_default_that_does_not_fit_its_column_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": ["a"], "country": [1]}), tmp_path / "users.parquet")
    [found] = read_reference(enriching(path="users.parquet", default={"country": "PE"}), tmp_path, "", ())
    assert "default.country" in found.problems[0]


@pytest.mark.parametrize(("refresh", "kept"), [({"refresh": "1 minute"}, True), ({}, False)])
def test_a_kept_version_counts_only_where_it_is_refreshed(
    tmp_path: Path, refresh: dict[str, str], kept: bool
) -> None:
    (tmp_path / "reference" / "users").mkdir(parents=True)
    (tmp_path / "reference" / "users" / "v1.parquet").write_bytes(b"x")
    (tmp_path / "reference-versions.json").write_text(json.dumps({"users": [[0, "v1"]]}))
    here = (replace(CHECKPOINT, path=str(tmp_path)),)
    [found] = read_reference(enriching(path="users.csv", **refresh), tmp_path, "", here)
    assert found.kept == kept
