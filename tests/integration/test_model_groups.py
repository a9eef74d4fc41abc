"""The kernel's sessions and windows against the model, row by row, on random streams with crashes."""

from __future__ import annotations

import itertools
import json
import os
import random
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from penstock.paths import PROJECT, DataDir
from penstock.spec import PipelineSpec
from penstock.testing import (
    Cleanse,
    Dedupe,
    Model,
    Record,
    Row,
    Sessions,
    Topic,
    Windows,
    count,
    differences_by_batch,
    distinct,
    first,
    highest,
    last,
    lowest,
    total,
)
from penstock.testing.stream import EngineRun, run_batches
from tests.unit.test_docs import blocks

pytestmark = pytest.mark.integration

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "1"))
"""For each variant; more of them, others each time, are tried by setting the variable."""

T0 = 1_800_000_000_000
S = 1_000
GAP, LATENESS, OUT_OF_ORDER = 3 * S, 5 * S, 3 * S
LEAST, MOST = -(2**63), 2**63 - 1
"""What a long can hold."""

MEASURES = {
    "events": "count(*)",
    "priced": "count(price)",
    "revenue": "sum(price)",
    "balance": "sum(amount)",
    "cheapest": "min(price)",
    "dearest": "max(price)",
    "entry": "first(page)",
    "leave": "last(page)",
    "pages": "distinct(page)",
}
MODEL_MEASURES = {
    "events": count(),
    "priced": count("price"),
    "revenue": total("price"),
    "balance": total("amount"),
    "cheapest": lowest("price"),
    "dearest": highest("price"),
    "entry": first("page"),
    "leave": last("page"),
    "pages": distinct("page"),
}
GROUPING = {
    "key": "user",
    "out_of_order": "3 seconds",
    "lateness": "5 seconds",
    "partitions": 2,
    "measures": MEASURES,
}
GIVEN: dict[str, Any] = {
    "name": "model",
    "source": {
        "topic": "t",
        "schema": "user string, ts long, price double, amount long, page string, id string",
        "key": "user",
        "event_time": "ts",
    },
    "sink": [{"kind": "kafka", "topic": "out"}],
}
DEDUPE = {"cleanse": {"dedupe": {"on": "id", "within": "6 seconds"}}}
SESSIONS = {"sessions": {**GROUPING, "gap": "3 seconds"}}
WINDOWS = {"windows": {**GROUPING, "size": "4 seconds"}}
SLIDING = {"windows": {**GROUPING, "size": "6 seconds", "slide": "2 seconds"}}

VARIANTS: dict[str, tuple[dict[str, Any], Sessions | Windows]] = {
    "sessions": (SESSIONS, Sessions(GAP, LATENESS, MODEL_MEASURES)),
    "sessions, ids remembered": (
        SESSIONS | DEDUPE,
        Sessions(GAP, LATENESS, MODEL_MEASURES, dedupe=Dedupe("id", 6 * S)),
    ),
    "sessions, cut": (
        {"sessions": {**SESSIONS["sessions"], "max_length": "7 seconds"}},
        Sessions(GAP, LATENESS, MODEL_MEASURES, max_length_ms=7 * S),
    ),
    "windows": (WINDOWS, Windows(4 * S, LATENESS, MODEL_MEASURES)),
    "windows that overlap": (SLIDING, Windows(6 * S, LATENESS, MODEL_MEASURES, slide_ms=2 * S)),
    "windows that overlap, ids remembered": (
        SLIDING | DEDUPE,
        Windows(6 * S, LATENESS, MODEL_MEASURES, slide_ms=2 * S, dedupe=Dedupe("id", 6 * S)),
    ),
}
SCHEMA = {"user": str, "ts": int, "price": float, "amount": int, "page": str, "id": str}
CLEANSE = Cleanse(key="user", event_time="ts", schema=SCHEMA)
SPEC = PipelineSpec(**GIVEN, **SESSIONS)
MODEL = Model(CLEANSE, VARIANTS["sessions"][1], OUT_OF_ORDER)

Run = list[list[Record]]


def random_runs(seed: int) -> list[Run]:
    """A pipeline that is restarted once or twice, over keys that have nothing in common but the clock."""
    chance, topic, front = random.Random(seed), Topic(), T0
    runs: list[Run] = []
    for _ in range(chance.randint(2, 3)):
        runs.append([])
        for _ in range(chance.randint(2, 4)):
            front += chance.choice((0, 1, 3, 5, 9, 9, 30)) * S
            runs[-1].append([_record(chance, topic, front) for _ in range(chance.randint(50, 250))])
    return runs


def _record(chance: random.Random, topic: Topic, front: int) -> Record:
    """A click of one of 50 users. The higher the number, the further behind the front their clicks are.

    Times are seconds, or a millisecond beside one: so that distances of exactly a gap, and clocks that stand
    exactly at the end of something, are frequent. So are sums of amounts that a long cannot hold.
    """
    partition, user = chance.randrange(2), chance.randrange(50)
    if chance.random() < 0.01:
        return topic.record(b"{", partition)
    values = {
        "user": f"u{user:02d}",
        "ts": front - chance.randint(-2, 5 + user) * S + chance.choice((0, 0, 0, -1, 1)),
        "price": chance.choice((None, chance.randint(1, 9_999) / 100)),
        "amount": chance.choice((None, 7, MOST // 2, LEAST // 2, MOST, LEAST)),
        "page": chance.choice((None, "/a", "/b", "/c")),
        "id": chance.choice((None, f"{user}-{chance.randrange(30)}")),
    }
    return topic.record(values, partition)


def run_with_crashes(spark: SparkSession, spec: PipelineSpec, runs: list[Run], seed: int) -> list[list[Row]]:
    """The rows of every batch. In each run one batch dies, and the commit of its last may be lost."""
    chance = random.Random(seed)
    told: list[list[Row]] = []
    with TemporaryDirectory(prefix="penstock-") as directory:
        engine = EngineRun(spark, spec, DataDir.at(Path(directory)))
        for run in [*runs, []]:
            lost = bool(told) and chance.random() < 0.5
            if lost:
                engine.lose_commit()
            rows = engine.run(run, replay={chance.randrange(len(run))} if run else ())
            told += rows[1:] if lost else rows
    return told


random_streams = settings(
    max_examples=EXAMPLES,
    derandomize="MODEL_EXAMPLES" not in os.environ,
    deadline=None,
    # A seed has nothing to shrink; what fails is made small by naming the key with the shortest story.
    phases=[Phase.generate],
)


@random_streams
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_row_of_the_kernel_is_the_models(spark: SparkSession, variant: str, seed: int) -> None:
    sections, grouping = VARIANTS[variant]
    runs = random_runs(seed)
    expected = Model(CLEANSE, grouping, OUT_OF_ORDER).run(*runs)
    actual = run_with_crashes(spark, PipelineSpec(**GIVEN, **sections), runs, seed)
    found = differences_by_batch(expected, actual)
    if found:
        note(_smallest(runs, expected, actual))
    assert found == []


def test_of_two_identities_that_end_the_earlier_moves_and_the_later_merges(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = [[[at(8)], [at(2)], [at(0), at(5)]]]
    assert differences_by_batch(MODEL.run(*runs), run_batches(spark, SPEC, tmp_path, *runs)) == []


def test_the_count_of_nothing_is_zero(spark: SparkSession, tmp_path: Path) -> None:
    assert _measured(spark, tmp_path, "count(price)", [at(0, price=None)]) == 0


def test_the_highest_text_goes_by_code_points(spark: SparkSession, tmp_path: Path) -> None:
    pages = ["\uffff", "\U0001f600"]
    assert _measured(
        spark, tmp_path, "max(page)", [at(second, page=page) for second, page in enumerate(pages)]
    ) == max(pages)


@pytest.mark.parametrize(
    ("amounts", "shown"),
    [
        (((MOST,), (1,), (-1,)), [MOST, None, MOST]),
        (((LEAST,), (-1,), (1,)), [LEAST, None, LEAST]),
        (((MOST, 1, -5),), [MOST - 4]),
        (((-5, MOST, 1),), [MOST - 4]),
        (((MOST, MOST), (MOST, LEAST), (LEAST, LEAST)), [None, None, -3]),
        (((1_000_000,) * 3, (-1,)), [3_000_000, 2_999_999]),
    ],
)
def test_a_sum_of_longs_is_null_while_it_does_not_fit_and_its_state_is_exact(
    spark: SparkSession, tmp_path: Path, amounts: list[list[int]], shown: list[int | None]
) -> None:
    """Each batch is a run of its own, which reads the state that the one before wrote."""
    second = itertools.count()
    runs = [[[at(next(second) % 2, amount=amount) for amount in batch]] for batch in amounts]
    spec = PipelineSpec(**GIVEN, sessions={**SESSIONS["sessions"], "measures": {"total": "sum(amount)"}})
    rows = run_batches(spark, spec, tmp_path, *runs)
    assert [row["total"] for batch in rows for row in batch if row["kind"] == "live"] == shown


def test_sessions_that_merge_add_up_sums_that_do_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    ends = [at(second, amount=amount) for second, amount in ((0, MOST), (1, MOST), (5, LEAST), (6, LEAST))]
    spec = PipelineSpec(**GIVEN, sessions={**SESSIONS["sessions"], "measures": {"total": "sum(amount)"}})
    apart, together, *_ = run_batches(spark, spec, tmp_path, [ends, [at(3, amount=2)]])
    assert [row["total"] for row in apart] == [None, None]
    assert [row["total"] for row in together if row["kind"] == "live"] == [0]


def _measured(spark: SparkSession, directory: Path, measure: str, batch: list[Record]) -> Any:
    sessions = {**SESSIONS["sessions"], "measures": {"measured": measure}}
    spec = PipelineSpec(**GIVEN, sessions=sessions)
    [row] = run_batches(spark, spec, directory, [batch])[0]
    return row["measured"]


def at(second: int, **values: Any) -> Record:
    """A click of one user; its offset is its time, which orders it among others."""
    event = {"user": "u", "ts": T0 + second * S, "price": 1.0, "page": "/", **values}
    return Record(json.dumps(event).encode(), 0, second, T0)


@pytest.mark.parametrize(("gap", "agrees"), [("30 minutes", True), ("29 minutes", False)])
def test_the_documented_test_passes_and_finds_a_pipeline_that_is_wrong(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap: str, agrees: bool
) -> None:
    document = PROJECT / "docs" / "testing.md"
    [pipeline], [test] = (blocks(document, language) for language in ("toml", "python"))
    (tmp_path / "visits.toml").write_text(pipeline.replace("30 minutes", gap))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(test, names)  # noqa: S102  (our own document)
    [documented] = [value for name, value in names.items() if name.startswith("test_")]
    with nullcontext() if agrees else pytest.raises(AssertionError):
        documented(tmp_path)


def _smallest(runs: list[Run], expected: list[list[Row]], actual: list[list[Row]]) -> str:
    """What came and went of the key with the fewest rows among those that differ."""
    stories = {}
    for user in {row["key"] for rows in expected for row in rows if "key" in row}:
        want, have = (
            [[row for row in rows if row.get("key") == user] for rows in batches]
            for batches in (expected, actual)
        )
        if not differences_by_batch(want, have):
            continue
        lines = []
        for batch in (batch for run in runs for batch in run):
            good, _ = MODEL.cleanse.split(batch)
            mine = sorted((e.ts_ms - T0, e.partition, e.offset) for e in good if e.key == user)
            lines.append(f"newest of all {max(e.ts_ms for e in good) - T0}, of {user} {mine}")
        lines += [f"expected in {number}: {row}" for number, rows in enumerate(want) for row in rows]
        lines += [f"came in {number}: {row}" for number, rows in enumerate(have) for row in rows]
        stories[user] = "\n".join(lines)
    return min(stories.values(), key=len, default="no single key differs")
