"""The audit's own arithmetic: offsets, receipts, and who was called late or a duplicate."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.audit.compare import Comparison
from penstock.audit.exact import (
    _called_duplicate_wrongly,
    _called_late_too_early,
    _letters_compared,
    _offset_problems,
    _sink_problems,
    read_receipts,
)
from penstock.audit.held import Letters
from penstock.audit.sent import Identity, among, identity, read_sent
from penstock.engine.receipt import Receipt
from penstock.observe.journal import Batch, JournalWriter
from penstock.observe.latency import Latency
from penstock.paths import shipped
from penstock.produce.ledger import LedgerWriter, read_ledger
from penstock.produce.shipped import WORKLOADS
from penstock.spec import load


def receipt(batch: int, offsets: dict[int, tuple[int, int]], query: str = "q", **counts: int) -> Receipt:
    records = sum(end - start for start, end in offsets.values())
    told: dict[str, Any] = dict.fromkeys(
        ("rejected", "late", "duplicates", "opened", "closed", "corrected", "merged"), 0
    )
    told |= {"decoded": records} | counts
    return Receipt(query, batch, offsets, sinks=(), started_at_ms=0, compute_ms=1.0, total_ms=1.0, **told)


def events(*given: tuple[str, int, int]) -> pa.Table:
    producers, seqs, times = zip(*given, strict=True) if given else ((), (), ())
    columns = [pa.array(producers, pa.string()), pa.array(seqs, pa.int64()), pa.array(times, pa.int64())]
    return pa.table(columns, names=["producer", "seq", "ts_ms"])


def test_batches_that_follow_each_other_are_no_problem() -> None:
    receipts = [
        receipt(0, {0: (5, 10), 1: (0, 3)}),
        receipt(1, {0: (10, 10), 1: (3, 9)}),
        receipt(2, {0: (10, 12), 1: (9, 9), 2: (0, 4)}, decoded=5, rejected=1),
    ]
    assert _offset_problems(receipts) == []
    assert _offset_problems([]) == []


@pytest.mark.parametrize(
    ("second", "told"),
    [
        pytest.param((12, 20), "q: batch 1 skips offsets 10 to 11 of partition 3", id="a hole"),
        pytest.param((11, 20), "q: batch 1 skips offsets 10 to 10 of partition 3", id="a hole of one"),
        pytest.param((7, 20), "q: batch 1 repeats offsets 7 to 9 of partition 3", id="an overlap"),
        pytest.param((9, 20), "q: batch 1 repeats offsets 9 to 9 of partition 3", id="an overlap of one"),
    ],
)
def test_a_hole_and_an_overlap_are_named(second: tuple[int, int], told: str) -> None:
    problems = _offset_problems([receipt(0, {3: (0, 10), 4: (0, 1)}), receipt(1, {3: second, 4: (1, 2)})])
    assert problems == [told]


def test_a_missing_batch_is_a_hole() -> None:
    receipts = [receipt(0, {0: (0, 10)}), receipt(2, {0: (20, 30)})]
    assert _offset_problems(receipts) == ["q: batch 2 skips offsets 10 to 19 of partition 0"]


def test_a_batch_that_does_not_account_for_its_records_is_named() -> None:
    assert _offset_problems([receipt(6, {0: (0, 10)}, decoded=7)]) == [
        "q: batch 6: 3 records read and not accounted for"
    ]


SENT = events(("p1", 0, 100), ("p1", 1, 200), ("p1", 1, 200), ("p2", 1, 300), ("p11", 0, 400))


@pytest.mark.parametrize(
    ("late", "places"),
    [
        pytest.param({}, [], id="none"),
        pytest.param({("p1", 0): 1}, [0], id="one"),
        pytest.param({("p1", 1): 1}, [2], id="the later of two copies"),
        pytest.param({("p1", 1): 2}, [1, 2], id="both copies"),
        pytest.param({("p1", 1): 3}, [1, 2], id="more than were sent"),
        pytest.param({("p2", 1): 1, ("p11", 0): 1}, [3, 4], id="of other producers"),
        pytest.param({("p9", 0): 1}, [], id="of an unknown producer"),
    ],
)
def test_late_events_are_found_by_producer_and_number_as_often_as_they_left(
    late: dict[Identity, int], places: list[int]
) -> None:
    mask = among(SENT, late).to_pylist()
    assert [at for at, is_late in enumerate(mask) if is_late] == places


def test_late_events_are_found_across_chunks_and_among_none() -> None:
    chunked = pa.concat_tables([SENT.slice(0, 2), SENT.slice(2)])
    assert among(chunked, {("p1", 1): 2}).to_pylist() == [False, True, True, False, False]
    assert among(events(), {("p1", 1): 1}).to_pylist() == []


def test_looking_for_late_events_does_not_use_them_up() -> None:
    late = {("p1", 1): 1}
    assert among(SENT, late).equals(among(SENT, late))


SPEC = load(
    shipped("pipelines") / "clickstream.toml",
    environ={},
    overrides={"sessions.gap": "10 seconds", "sessions.lateness": "20 seconds"},
)
CLOCK_MS = 1_000_000


@pytest.mark.parametrize(
    ("age_ms", "too_early"),
    [
        pytest.param(30_001, 0, id="older than gap and lateness"),
        pytest.param(30_000, 0, id="exactly as old: late, as the kernel has it"),
        pytest.param(29_999, 1, id="a millisecond younger"),
        pytest.param(0, 1, id="of now"),
    ],
)
def test_an_event_was_called_late_too_early_when_the_last_clock_still_allows_it(
    age_ms: int, too_early: int
) -> None:
    sent = events(("p1", 0, CLOCK_MS - age_ms), ("p1", 1, CLOCK_MS))
    assert _called_late_too_early(sent, {("p1", 0): 1}, SPEC, CLOCK_MS) == too_early


def test_nothing_late_was_not_called_late_too_early() -> None:
    assert _called_late_too_early(events(("p1", 0, CLOCK_MS)), {}, SPEC, CLOCK_MS) == 0


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b'{"producer": "p1", "seq": 7, "more": 1}', ("p1", 7)),
        (b'{"producer": "p1"}', None),
        (b'{"producer": "p1", "seq"', None),
        (b"[1]", None),
        (b"null", None),
        (b"\xff", None),
        (b"", None),
        (None, None),
    ],
)
def test_an_event_is_known_by_its_producer_and_number_and_other_bytes_by_none(
    value: bytes | None, found: Identity | None
) -> None:
    assert identity(value) == found


def test_a_sink_that_differs_is_told_with_examples_and_a_right_one_not_at_all() -> None:
    assert _sink_problems("sessions", Comparison(5, 5, 0, 0)) == []
    head, example = _sink_problems("sessions", Comparison(5, 5, 1, 2, 3, ("u1@5: events 1 instead of 2",)))
    assert head == "sessions: 1 records lost, 2 duplicated, 3 rows with a wrong value"
    assert example.strip() == "u1@5: events 1 instead of 2"


WINDOWS = load(
    shipped("pipelines") / "behaviour.toml",
    environ={},
    overrides={"windows.size": "10 seconds", "windows.lateness": "20 seconds"},
)


@pytest.mark.parametrize(
    ("ts_ms", "too_early"),
    [
        pytest.param(969_999, 0, id="the end of a window whose lateness is over"),
        pytest.param(970_000, 1, id="the start of the next, which ends 10 s later"),
    ],
)
def test_an_event_of_a_window_is_late_by_the_end_of_its_window(ts_ms: int, too_early: int) -> None:
    sent = events(("p1", 0, ts_ms), ("p1", 1, CLOCK_MS))
    assert _called_late_too_early(sent, {("p1", 0): 1}, WINDOWS, CLOCK_MS - 1) == too_early


def test_a_record_of_which_no_copy_is_left_was_no_duplicate() -> None:
    again: dict[Identity, int] = {("p1", 1): 1, ("p2", 1): 1}
    once = SENT.filter(pc.invert(among(SENT, again)))
    assert _called_duplicate_wrongly(once, again) == 1  # p2-1 came once, p1-1 twice
    assert _called_duplicate_wrongly(SENT, {}) == 0


def letters(*origins: int) -> Letters:
    return Letters(total=len(origins), origins={(b"0", str(offset).encode()) for offset in origins})


@pytest.mark.parametrize(
    ("origins", "lost", "duplicated"),
    [
        pytest.param((1, 2, 3, 4, 5), 0, 0, id="one for each"),
        pytest.param((1, 2, 3), 2, 0, id="two are missing"),
        pytest.param((1, 2, 3, 4, 5, 5), 0, 1, id="one is there twice"),
        pytest.param((1, 2, 3, 4, 5, 6, 7), 0, 2, id="two of records that were not set aside"),
    ],
)
def test_every_record_set_aside_leaves_one_letter(
    origins: tuple[int, ...], lost: int, duplicated: int
) -> None:
    receipts = [receipt(0, {0: (0, 9)}, rejected=2, late=1, duplicates=7), receipt(1, {0: (9, 12)}, late=2)]
    found = _letters_compared(SPEC, "dead-letters", letters(*origins), receipts)
    assert (found.expected, found.lost, found.duplicated) == (5, lost, duplicated)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_the_good_records_of_all_producers_are_taken_together(name: str, tmp_path: Path) -> None:
    plan, ledgers = WORKLOADS[name](malformed=0.2, invalid=0.2), []
    for producer in ("p1", "p2"):
        chunk = plan.records(producer, 1_000).chunk(300, 1_800_000_000_000)
        with LedgerWriter(tmp_path / producer, plan, producer) as ledger:
            ledger.record(chunk)
            ledger.settle(300)
        ledgers.append(read_ledger(tmp_path / producer))
    sent = read_sent(ledgers, "not asked", "nowhere")
    good = [sum(row["fate"] == "ok" for row in one.records.to_pylist()) for one in ledgers]
    assert (sent.count, sent.good.num_rows) == (600, sum(good))
    assert Counter(sent.good["producer"].to_pylist()) == {"p1": good[0], "p2": good[1]}


def test_receipts_stand_by_query_and_batch_and_the_later_of_two(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path / "journal.jsonl")
    first, again, other = (
        receipt(3, {0: (0, 5)}, decoded=4),
        receipt(3, {0: (0, 5)}, decoded=5),
        receipt(3, {0: (0, 9)}, query="q-events"),
    )
    for one in (receipt(10, {0: (5, 6)}), first, other, again):
        journal.write(Batch(0, one, Latency()))
    journal.close()
    assert read_receipts(tmp_path / "journal.jsonl") == [again, receipt(10, {0: (5, 6)}), other]
