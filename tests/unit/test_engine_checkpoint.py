"""Spark's checkpoint as files: offsets, the lock, and what state fits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.engine.checkpoint import Checkpoint
from penstock.errors import CheckpointInUse, PenstockError
from penstock.paths import shipped
from penstock.spec import PipelineSpec, load

CLICKSTREAM = shipped("pipelines") / "clickstream.toml"


def clickstream(**overrides: str) -> PipelineSpec:
    return load(
        CLICKSTREAM, environ={}, overrides={key.replace("__", "."): v for key, v in overrides.items()}
    )


def plan(checkpoint: Path, batch: int, ends: dict[int, int]) -> None:
    """Write a batch's offsets as Spark does before it runs the batch."""
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1_800_000_000_000, "conf": {"a": "b"}}
    path = checkpoint / "offsets" / str(batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"v1\n{json.dumps(metadata)}\n{_offsets(ends)}")


def begin(checkpoint: Path, starts: dict[int, int]) -> None:
    """Write where the first batch starts, as Spark's Kafka source does: with a zero byte in front."""
    path = checkpoint / "sources" / "0" / "0"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\0v1\n" + _offsets(starts).encode())


def _offsets(by_partition: dict[int, int]) -> str:
    return json.dumps({"clicks": {str(partition): offset for partition, offset in by_partition.items()}})


def test_the_first_batch_starts_where_the_source_began(tmp_path: Path) -> None:
    begin(tmp_path, {0: 5, 1: 0})
    plan(tmp_path, 0, {1: 7, 0: 9})
    assert Checkpoint(tmp_path, clickstream()).offsets(0) == {0: (5, 9), 1: (0, 7)}


def test_a_later_batch_starts_where_the_one_before_it_ended(tmp_path: Path) -> None:
    begin(tmp_path, {0: 0})
    for batch, end in enumerate([4, 4, 10]):
        plan(tmp_path, batch, {0: end})
    checkpoint = Checkpoint(tmp_path, clickstream())
    assert [checkpoint.offsets(batch) for batch in range(3)] == [{0: (0, 4)}, {0: (4, 4)}, {0: (4, 10)}]


def test_a_partition_that_was_added_later_starts_at_its_beginning(tmp_path: Path) -> None:
    plan(tmp_path, 3, {0: 4})
    plan(tmp_path, 4, {0: 6, 1: 2})
    assert Checkpoint(tmp_path, clickstream()).offsets(4) == {0: (4, 6), 1: (0, 2)}


def test_the_last_offsets_are_those_of_the_newest_planned_batch(tmp_path: Path) -> None:
    for batch in (8, 9, 10):
        plan(tmp_path, batch, {0: 100 * batch})
    (tmp_path / "offsets" / ".11.tmp").write_text("half")
    assert Checkpoint(tmp_path, clickstream()).last_offsets() == {0: 1_000}


def test_before_the_first_batch_there_are_no_last_offsets(tmp_path: Path) -> None:
    assert Checkpoint(tmp_path / "new", clickstream()).last_offsets() == {}


def test_a_second_process_on_the_same_checkpoint_is_refused(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from penstock.spec import load;"
        "from penstock.engine.checkpoint import Checkpoint;"
        f"checkpoint = Checkpoint(Path({str(tmp_path)!r}), load({str(CLICKSTREAM)!r}, environ={{}}));"
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
            Checkpoint(tmp_path, clickstream())
        holder.kill()
        holder.wait()
        Checkpoint(tmp_path, clickstream()).close()  # even a killed process lets go
    finally:
        holder.kill()
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()


def test_a_closed_checkpoint_can_be_opened_again(tmp_path: Path) -> None:
    Checkpoint(tmp_path, clickstream()).close()
    Checkpoint(tmp_path, clickstream()).close()


@pytest.mark.parametrize(
    ("override", "value", "told"),
    [
        ("sessions__partitions", "8", "partitions was 4, is 8"),
        ("sessions__key", "product_id", "key was 'user_id', is 'product_id'"),
        (
            "sessions__measures__top_price",
            "min(price)",
            "measure top_price was 'max(price)', is 'min(price)'",
        ),
        ("sessions__measures__pages", "count(page)", "measure pages was None, is 'count(page)'"),
        ("source__topic", "taps", "topic was 'clicks', is 'taps'"),
        ("engine", "plain", "engine was 'kernel', is 'plain'"),
    ],
)
def test_state_that_does_not_fit_the_spec_is_refused_with_what_changed(
    tmp_path: Path, override: str, value: str, told: str
) -> None:
    Checkpoint(tmp_path, clickstream()).close()
    with pytest.raises(PenstockError) as caught:
        Checkpoint(tmp_path, clickstream(**{override: value}))
    assert told in caught.value.message
    assert "new name" in caught.value.hint


def test_only_what_changed_is_told(tmp_path: Path) -> None:
    Checkpoint(tmp_path, clickstream()).close()
    with pytest.raises(PenstockError) as caught:
        Checkpoint(tmp_path, clickstream(sessions__measures__top_price="min(price)"))
    assert "revenue" not in caught.value.message
    assert "partitions" not in caught.value.message


def test_measures_in_another_order_are_refused_as_state_holds_them_by_their_place(tmp_path: Path) -> None:
    ours = clickstream()
    Checkpoint(tmp_path, ours).close()
    turned = ours.sessions.model_copy(update={"measures": ours.sessions.measures[::-1]})
    with pytest.raises(PenstockError, match=r"measures was 'events, purchases, .*', is 'last_category, "):
        Checkpoint(tmp_path, ours.model_copy(update={"sessions": turned}))


def test_a_refused_spec_lets_go_of_the_checkpoint(tmp_path: Path) -> None:
    Checkpoint(tmp_path, clickstream()).close()
    with pytest.raises(PenstockError, match="does not fit") as caught:
        Checkpoint(tmp_path, clickstream(sessions__partitions="8"))
    assert caught.traceback  # keeps the refused object alive, as an error on its way to a person does
    Checkpoint(tmp_path, clickstream()).close()


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("sessions__gap", "10 seconds"),
        ("sessions__lateness", "1 second"),
        ("source__max_batch", "10"),
        ("trigger", "1 second"),
    ],
)
def test_what_state_does_not_depend_on_may_change(tmp_path: Path, override: str, value: str) -> None:
    Checkpoint(tmp_path, clickstream()).close()
    Checkpoint(tmp_path, clickstream(**{override: value})).close()
