"""The protocol of sinks. Numbers in brackets are the invariants of protocol.py."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import Fenced, PenstockError, PositionLost, ReplayDiffers
from penstock.sinks.protocol import Batch, Position, digest, must_write

ROWS = pa.table({"session_id": ["a@1", "b@2"], "events": [3, 4]})


def batch(number: int, rows: pa.Table = ROWS) -> Batch:
    return Batch.of("clickstream", number, rows)


def holding(number: int) -> Position:
    """What a sink remembers of batch(number)."""
    return Position(number, ROWS.num_rows, digest(ROWS))


@pytest.mark.parametrize(
    ("held", "due", "write"),
    [
        pytest.param(None, 0, True, id="the first batch goes into a sink that holds nothing"),
        pytest.param(4, 5, True, id="a batch goes onto the one before it"),
        pytest.param(0, 1, True, id="the second batch goes onto the first"),
        pytest.param(5, 5, False, id="a batch that is there is not written again"),
        pytest.param(0, 0, False, id="the first batch, when there, is not written again"),
    ],
)
def test_a_batch_is_written_onto_the_one_before_it_and_only_once(
    held: int | None, due: int, write: bool
) -> None:
    # [2] [3]
    position = None if held is None else holding(held)
    assert must_write("sessions", batch(due), position) is write


@pytest.mark.parametrize(
    ("held", "due", "error", "text"),
    [
        pytest.param(None, 1, PositionLost, "holds no position, but batch 1 is due", id="no position"),
        pytest.param(6, 5, Fenced, "holds batch 6, but batch 5 is due", id="one ahead"),
        pytest.param(99, 5, Fenced, "holds batch 99, but batch 5 is due", id="far ahead"),
        pytest.param(3, 5, PositionLost, "1 batches are not there", id="a gap of one"),
        pytest.param(0, 9, PositionLost, "8 batches are not there", id="a gap of many"),
    ],
)
def test_a_sink_that_cannot_follow_refuses_and_names_the_command_that_goes_on(
    held: int | None, due: int, error: type[PenstockError], text: str
) -> None:
    # [2]
    position = None if held is None else holding(held)
    with pytest.raises(error) as caught:
        must_write("dead-letters", batch(due), position)
    assert "sink dead-letters" in caught.value.message
    assert text in caught.value.message
    # What is ahead cannot be adopted.
    way = "penstock check SPEC" if error is Fenced else "penstock run SPEC --adopt dead-letters"
    assert way in caught.value.hint


@pytest.mark.parametrize("held", [None, 2])
def test_adopting_a_sink_takes_it_as_holding_all_before_the_batch(held: int | None) -> None:
    position = None if held is None else holding(held)
    assert must_write("sessions", batch(7), position, adopt=True)


def test_adopting_does_not_overrule_a_writer_that_is_ahead() -> None:
    with pytest.raises(Fenced):
        must_write("sessions", batch(7), holding(8), adopt=True)


def test_adopting_does_not_write_a_batch_twice() -> None:
    assert must_write("sessions", batch(7), holding(7), adopt=True) is False


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(ROWS.slice(0, 1), id="fewer rows"),
        pytest.param(ROWS.take([1, 0]), id="another order"),
        pytest.param(ROWS.set_column(1, "events", pa.array([3, 5])), id="another value"),
        pytest.param(ROWS.slice(0, 0), id="no rows"),
    ],
)
def test_a_batch_that_comes_again_with_other_content_is_refused(other: pa.Table) -> None:
    # [3]
    with pytest.raises(ReplayDiffers) as caught:
        must_write("sessions", batch(5, other), holding(5))
    assert "batch 5 came again" in caught.value.message
    assert "not deterministic" in caught.value.hint


def test_a_count_that_differs_is_refused_even_with_the_same_digest() -> None:
    with pytest.raises(ReplayDiffers, match=r"3 rows .* are there, 2 "):
        must_write("sessions", batch(5), Position(5, 3, digest(ROWS)))


def test_an_empty_batch_that_comes_again_is_there() -> None:
    # [2]
    empty = batch(5, ROWS.slice(0, 0))
    assert empty.count == 0
    assert must_write("sessions", empty, Position(5, 0, empty.digest)) is False


VALUES: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.string(): st.text(max_size=5),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.binary(): st.binary(max_size=5),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    size = draw(st.integers(1, 12))
    columns = {
        str(type_): pa.array(draw(st.lists(st.none() | values, min_size=size, max_size=size)), type_)
        for type_, values in VALUES.items()
    }
    return pa.table(columns)


@settings(max_examples=30, deadline=None)
@given(tables(), st.data())
def test_the_digest_does_not_depend_on_how_rows_are_cut_into_chunks(
    rows: pa.Table, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, rows.num_rows), max_size=4)))
    edges = [0, *cuts, rows.num_rows]
    chunked = pa.concat_tables(rows.slice(a, b - a) for a, b in pairwise(edges))
    assert digest(chunked) == digest(rows)


@settings(max_examples=30, deadline=None)
@given(tables(), tables())
def test_the_digest_does_not_depend_on_what_stood_before_or_after_the_rows(
    rows: pa.Table, more: pa.Table
) -> None:
    within = pa.concat_tables([more, rows, more]).combine_chunks().slice(more.num_rows, rows.num_rows)
    assert digest(within) == digest(rows)


def test_the_digest_does_not_depend_on_whether_a_column_without_nulls_has_a_validity_bitmap() -> None:
    values = pa.py_buffer(np.array([1, 2, 3], dtype=np.int64).tobytes())
    with_bitmap = pa.Array.from_buffers(pa.int64(), 3, [pa.py_buffer(b"\x07"), values])
    without = pa.Array.from_buffers(pa.int64(), 3, [None, values])
    assert with_bitmap.buffers()[0] is not None
    assert digest(pa.table({"x": with_bitmap})) == digest(pa.table({"x": without}))


@pytest.mark.parametrize(
    ("bitmap", "under_null"),
    [
        pytest.param(b"\x05", 99, id="bytes under a null"),
        pytest.param(b"\xfd", 0, id="bits after the last row"),
    ],
)
def test_the_digest_does_not_depend_on_memory_that_no_row_shows(bitmap: bytes, under_null: int) -> None:
    values = pa.py_buffer(np.array([1, under_null, 3], dtype=np.int64).tobytes())
    column = pa.Array.from_buffers(pa.int64(), 3, [pa.py_buffer(bitmap), values])
    assert digest(pa.table({"x": column})) == digest(pa.table({"x": [1, None, 3]}))


@settings(max_examples=30, deadline=None)
@given(tables(), tables())
def test_other_rows_have_another_digest(one: pa.Table, other: pa.Table) -> None:
    # By their text, as 0.0 == -0.0.
    assert (digest(one) == digest(other)) == (repr(one.to_pylist()) == repr(other.to_pylist()))


@settings(max_examples=30, deadline=None)
@given(tables(), st.randoms(use_true_random=False))
def test_rows_in_another_order_have_another_digest(rows: pa.Table, random: Random) -> None:
    order = list(range(rows.num_rows))
    random.shuffle(order)
    shuffled = rows.take(order)
    assert (digest(shuffled) == digest(rows)) == (repr(shuffled.to_pylist()) == repr(rows.to_pylist()))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda x: [*x[:1], None, *x[2:]], id="null instead of a value"),
        pytest.param(lambda x: [*x[:1], 0, *x[2:]], id="zero instead of a value"),
        pytest.param(lambda x: x[:-1], id="a row less"),
        pytest.param(lambda x: [*x, x[-1]], id="a row twice"),
    ],
)
def test_a_changed_column_changes_the_digest(change: Callable[[list[int]], list[int | None]]) -> None:
    values = [5, 6, 7]
    assert digest(pa.table({"x": pa.array(change(values), pa.int64())})) != digest(pa.table({"x": values}))


def test_null_and_zero_have_different_digests() -> None:
    assert digest(pa.table({"x": pa.array([None], pa.int64())})) != digest(pa.table({"x": [0]}))
