"""Spark's checkpoint as files: offsets, the clock, the lock, and the layout that is kept beside them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from penstock.engine.checkpoint import Checkpoint, last_offsets
from penstock.engine.layout import StateLayout
from penstock.errors import CheckpointInUse, StateMismatch

CLOCK = {"clickstream-clock": {"0": 77, "1": 78}}
LAYOUT = StateLayout(
    fixed={"engine": "kernel", "source.topic": "clicks"},
    layouts=[[["events", "count", "bigint"]]],
    measures={"events": "count(*)"},
    sinks=["sessions", "dead-letters"],
)
WIDER = replace(
    LAYOUT,
    layouts=[[*LAYOUT.layouts[0], ["top", "max", "double"]]],
    measures={"events": "count(*)", "top": "max(price)"},
)


def plan(checkpoint: Path, batch: int, ends: dict[int, int]) -> None:
    """Write a batch's offsets as Spark does before it runs the batch, with those of a second topic."""
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1_800_000_000_000, "conf": {"a": "b"}}
    path = checkpoint / "offsets" / str(batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"v1\n{json.dumps(metadata)}\n{_offsets(ends)}")


def begin(checkpoint: Path, starts: dict[int, int]) -> None:
    """Write where the first batch starts, as Spark's Kafka source does: with a zero byte in front."""
    path = checkpoint / "sources" / "0" / "0"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\0v1\n" + _offsets(starts).encode())


def commit(checkpoint: Path, batch: int, watermark_ms: int) -> None:
    """Write what Spark does when a batch is done."""
    path = checkpoint / "commits" / str(batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"v1\n{json.dumps({'nextBatchWatermarkMs': watermark_ms})}")


def _offsets(by_partition: dict[int, int]) -> str:
    clicks = {str(partition): offset for partition, offset in by_partition.items()}
    return json.dumps({"clicks": clicks, **CLOCK})


def told(tmp_path: Path, wanted: StateLayout) -> tuple[StateLayout, list[str], list[str]]:
    """What a start on the checkpoint gives: the layout, the new sinks, and what is said."""
    said: list[str] = []
    checkpoint = Checkpoint(tmp_path, "clicks")
    try:
        return *checkpoint.fit(wanted, said.append), said
    finally:
        checkpoint.close()


def kept(tmp_path: Path) -> StateLayout | None:
    return StateLayout.read(tmp_path / "state-layout.json")


def test_the_first_batch_starts_where_the_source_began(tmp_path: Path) -> None:
    begin(tmp_path, {0: 5, 1: 0})
    plan(tmp_path, 0, {1: 7, 0: 9})
    assert Checkpoint(tmp_path, "clicks").offsets(0) == {0: (5, 9), 1: (0, 7)}


def test_a_later_batch_starts_where_the_one_before_it_ended(tmp_path: Path) -> None:
    begin(tmp_path, {0: 0})
    for batch, end in enumerate([4, 4, 10]):
        plan(tmp_path, batch, {0: end})
    checkpoint = Checkpoint(tmp_path, "clicks")
    assert [checkpoint.offsets(batch) for batch in range(3)] == [{0: (0, 4)}, {0: (4, 4)}, {0: (4, 10)}]


def test_a_partition_that_was_added_later_starts_at_its_beginning(tmp_path: Path) -> None:
    plan(tmp_path, 3, {0: 4})
    plan(tmp_path, 4, {0: 6, 1: 2})
    assert Checkpoint(tmp_path, "clicks").offsets(4) == {0: (4, 6), 1: (0, 2)}


def test_only_the_offsets_of_its_own_topic_are_told(tmp_path: Path) -> None:
    begin(tmp_path, {0: 0})
    plan(tmp_path, 0, {0: 4})
    assert Checkpoint(tmp_path, "clickstream-clock").offsets(0) == {0: (77, 77), 1: (78, 78)}
    assert last_offsets(tmp_path, "clicks") == {0: 4}
    assert last_offsets(tmp_path, "clickstream-clock") == {0: 77, 1: 78}
    assert last_offsets(tmp_path, "taps") == {}


def test_the_last_offsets_are_those_of_the_newest_planned_batch(tmp_path: Path) -> None:
    for batch in (8, 9, 10):
        plan(tmp_path, batch, {0: 100 * batch})
    (tmp_path / "offsets" / ".11.tmp").write_text("half")
    (tmp_path / "offsets" / "12.tmp").write_text("half")
    assert last_offsets(tmp_path, "clicks") == {0: 1_000}


def test_before_the_first_batch_there_are_no_last_offsets(tmp_path: Path) -> None:
    assert last_offsets(tmp_path / "new", "clicks") == {}


def test_the_clock_is_that_of_the_newest_batch_that_is_done(tmp_path: Path) -> None:
    for batch in (8, 9, 10):
        commit(tmp_path, batch, 1_000 * batch)
    plan(tmp_path, 11, {0: 1})  # under way
    (tmp_path / "commits" / ".11.tmp").write_text("half")
    assert Checkpoint(tmp_path, "clicks").watermark_ms() == 10_000


def test_before_the_first_batch_is_done_the_clock_stands_at_0(tmp_path: Path) -> None:
    assert Checkpoint(tmp_path, "clicks").watermark_ms() == 0


def test_a_second_process_on_the_same_checkpoint_is_refused(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path;"
        "from penstock.engine.checkpoint import Checkpoint;"
        f"checkpoint = Checkpoint(Path({str(tmp_path)!r}), 'clicks');"
        "print('open', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(CheckpointInUse, match=str(tmp_path)):
            Checkpoint(tmp_path, "clicks")
        holder.kill()
        holder.wait()
        Checkpoint(tmp_path, "clicks").close()  # even a killed process lets go
    finally:
        holder.kill()
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()


def test_a_closed_checkpoint_can_be_opened_again(tmp_path: Path) -> None:
    Checkpoint(tmp_path, "clicks").close()
    Checkpoint(tmp_path, "clicks").close()


def test_a_new_checkpoint_takes_the_layout_as_it_is(tmp_path: Path) -> None:
    assert told(tmp_path, LAYOUT) == (LAYOUT, [], [])
    assert kept(tmp_path) == LAYOUT


def test_a_checkpoint_goes_on_with_every_layout_that_its_state_may_be_in(tmp_path: Path) -> None:
    told(tmp_path, LAYOUT)
    layout, _, said = told(tmp_path, WIDER)
    assert layout.layouts == [*LAYOUT.layouts, *WIDER.layouts]
    assert said == ["new measure top: what is open now has it from here on"]
    assert kept(tmp_path) == layout
    assert told(tmp_path, WIDER) == (layout, [], [])  # said once


def test_a_refused_layout_leaves_the_checkpoint_as_it_was_and_lets_go_of_it(tmp_path: Path) -> None:
    told(tmp_path, LAYOUT)
    other = replace(WIDER, fixed={**LAYOUT.fixed, "source.topic": "taps"})
    with pytest.raises(StateMismatch, match=r"source\.topic was clicks, is taps"):
        told(tmp_path, other)
    assert kept(tmp_path) == LAYOUT
    assert told(tmp_path, LAYOUT) == (LAYOUT, [], [])


def test_a_sink_is_new_until_it_has_had_a_batch(tmp_path: Path) -> None:
    told(tmp_path, LAYOUT)
    more = replace(LAYOUT, sinks=["live", *LAYOUT.sinks])
    assert told(tmp_path, more)[1] == ["live"]
    assert told(tmp_path, more)[1] == ["live"]  # it was killed before its first batch
    Checkpoint(tmp_path, "clicks").sinks_began(["sessions", "live", "dead-letters"])
    assert told(tmp_path, more)[1] == []


def test_a_sink_that_was_away_for_a_while_is_new_again(tmp_path: Path) -> None:
    """It missed batches, so its position is too old to go on from."""
    told(tmp_path, LAYOUT)
    Checkpoint(tmp_path, "clicks").sinks_began(["sessions"])
    assert told(tmp_path, LAYOUT)[1] == ["dead-letters"]


def test_that_sinks_began_changes_nothing_else_of_the_layout(tmp_path: Path) -> None:
    told(tmp_path, LAYOUT)
    layout, _, _ = told(tmp_path, WIDER)
    Checkpoint(tmp_path, "clicks").sinks_began(["b", "a"])
    assert kept(tmp_path) == replace(layout, sinks=["a", "b"])


def test_without_a_layout_there_is_nothing_to_remember_of_sinks(tmp_path: Path) -> None:
    Checkpoint(tmp_path, "clicks").sinks_began(["a"])
    assert kept(tmp_path) is None


@pytest.mark.parametrize("written", [{"engine": "kernel", "topic": "clicks"}, {**asdict(LAYOUT), "form": 1}])
def test_a_layout_that_another_version_wrote_is_refused(tmp_path: Path, written: dict[str, object]) -> None:
    (tmp_path / "state-layout.json").write_text(json.dumps(written))
    with pytest.raises(StateMismatch, match="another version of Penstock") as caught:
        told(tmp_path, LAYOUT)
    assert "another name" in caught.value.hint
