from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SinkError
from penstock.sinks.encode import dead_letters
from penstock.sinks.producer import size_of
from penstock.sinks.protocol import Refusal
from penstock.sinks.refusals import from_text, keyless, sift, to_text, without


@given(st.lists(st.booleans(), max_size=18))
def test_sifting_takes_all_that_can_be_taken_in_order(good: list[bool]) -> None:
    taken: list[int] = []

    def put(rows: pa.Table) -> str | None:
        numbers = rows.column("number").to_pylist()
        if not all(good[number] for number in numbers):
            return f"cannot take {numbers}"
        taken.extend(numbers)
        return None

    rows = pa.table({"number": pa.array(range(len(good)), pa.int64())})
    refused = sift("sink", rows, put)
    assert [refusal.row for refusal in refused] == [n for n, is_good in enumerate(good) if not is_good]
    assert taken == [n for n, is_good in enumerate(good) if is_good]
    assert without(rows, refused).column("number").to_pylist() == taken
    assert from_text(to_text(refused)) == tuple(refused)


def test_a_store_that_takes_no_row_is_an_error() -> None:
    rows = pa.table({"number": list(range(50))})
    with pytest.raises(SinkError, match="50 of 50 rows are refused: no"):
        sift("sink", rows, lambda _: "no")


def test_few_bad_rows_among_many_take_few_attempts() -> None:
    attempts = 0

    def put(rows: pa.Table) -> str | None:
        nonlocal attempts
        attempts += 1
        return "bad" if {17, 4_000} & set(rows.column("number").to_pylist()) else None

    assert [found.row for found in sift("sink", pa.table({"number": list(range(5_000))}), put)] == [17, 4_000]
    assert attempts < 60


def test_rows_without_a_key_are_refused_by_it() -> None:
    rows = pa.table({"id": ["a", None, "c"], "version": [1, 1, None]})
    assert keyless(rows, ["id"]) == [Refusal(1, "it has no id, which is to tell it apart")]
    assert [found.row for found in keyless(rows, ["id", "version"])] == [1, 2]


def test_a_dead_letter_that_is_too_large_is_cut_and_says_so() -> None:
    row = {"kind": "rejected", "reason": "no JSON", "partition": 3, "offset": 7, "query": "q", "batch": 1}
    rows = pa.Table.from_pylist([{**row, "raw": b"x" * 990}, {**row, "raw": b"x" * 100}])
    cut, whole = dead_letters("clicks", 1_000)(rows)
    assert size_of(cut) <= 1_000
    assert dict(cut["headers"])["penstock.cut"] == b"990"
    assert set(cut["value"] or b"") == set(b"x")
    assert whole["value"] == b"x" * 100
    assert "penstock.cut" not in dict(whole["headers"])
