"""The journal: what is written is read, whatever a killed writer left behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.audit.exact import read_receipts
from penstock.engine.receipt import Receipt, SinkReceipt
from penstock.observe.journal import Batch, Entry, JournalReader, JournalWriter, Lag, Note
from penstock.observe.latency import Latency

RECEIPT = Receipt(
    query="clickstream",
    batch=3,
    offsets={0: (10, 30), 1: (0, 7)},
    decoded=25,
    rejected=2,
    late=1,
    duplicates=2,
    opened=4,
    closed=3,
    corrected=2,
    merged=1,
    sinks=(SinkReceipt("sessions", 3, "00ff", replayed=False, write_ms=12.5, visible_at_ms=1_000),),
    started_at_ms=900,
    compute_ms=80.0,
    total_ms=101.5,
)
ONE, TWO = Note(1, "running"), Note(2, 'broker "1" is away;\nwaiting ü')


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "journal.jsonl"


def write(path: Path, *entries: Entry) -> None:
    writer = JournalWriter(path)
    for entry in entries:
        writer.write(entry)
    writer.close()


def read(path: Path) -> list[Entry]:
    return list(JournalReader(path).new())


def test_notes_and_lags_come_back_as_they_were(path: Path) -> None:
    lag = Lag(5, {0: 100, 11: 50}, {0: 90, 11: 50})
    write(path, ONE, TWO, lag)
    assert read(path) == [ONE, TWO, lag]


def test_a_batch_comes_back_with_its_receipt_and_its_latency(path: Path) -> None:
    counts = ((3, 20), (9, 5))
    write(path, Batch(7, replace(RECEIPT, latency_ms=counts), Latency.of(counts)))
    [found] = read(path)
    assert isinstance(found, Batch)
    # The counts are kept as a histogram only.
    assert (found.at_ms, found.receipt) == (7, RECEIPT)
    assert found.latency.percentiles() == Latency.of(counts).percentiles()


def test_lag_is_what_is_left_of_each_partition() -> None:
    lag = Lag(5, ends={0: 100, 1: 50, 2: 7}, done={0: 90, 1: 50})
    assert lag.by_partition == {0: 10, 1: 0, 2: 7}
    assert lag.total == 17


def test_a_reader_goes_on_from_where_it_stopped(path: Path) -> None:
    reader = JournalReader(path)
    assert list(reader.new()) == []  # not there yet
    write(path, ONE)
    assert list(reader.new()) == [ONE]
    assert list(reader.new()) == []
    write(path, TWO)
    assert list(reader.new()) == [TWO]


def test_a_reader_from_the_end_sees_only_what_comes_after_it(path: Path) -> None:
    write(path, ONE)
    reader = JournalReader(path, from_end=True)
    write(path, TWO)
    assert list(reader.new()) == [TWO]


def test_a_reader_from_the_end_of_nothing_sees_all_that_comes(path: Path) -> None:
    reader = JournalReader(path, from_end=True)
    write(path, ONE)
    assert list(reader.new()) == [ONE]


def test_a_line_that_is_still_being_written_waits(path: Path) -> None:
    write(path, ONE, TWO)
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        reader = JournalReader(path)
        before = list(reader.new())
        path.write_bytes(whole)
        assert [*before, *reader.new()] == [ONE, TWO], f"cut at byte {cut}"


def test_the_half_line_of_a_killed_writer_swallows_no_other(path: Path) -> None:
    write(path, ONE, TWO)
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole)):
        path.write_bytes(whole[:cut])
        write(path, Note(3, "back"))
        found = read(path)
        # Only the newline can be missing of an entry that is there.
        expected = [ONE, TWO] if cut == len(whole) - 1 else [ONE]
        assert found == [*expected, Note(3, "back")], f"cut at byte {cut}"


def test_a_reader_from_the_end_that_began_within_a_line_sees_the_next_ones(path: Path) -> None:
    write(path, ONE)
    path.write_bytes(path.read_bytes()[:-5])
    reader = JournalReader(path, from_end=True)
    write(path, TWO)
    assert list(reader.new()) == [TWO]


def test_a_second_writer_appends(path: Path) -> None:
    write(path, ONE)
    write(path, TWO)
    assert read(path) == [ONE, TWO]
    assert path.read_bytes().count(b"\n") == 2


def test_threads_do_not_mix_their_lines(path: Path) -> None:
    writer = JournalWriter(path)
    notes = [[Note(thread, f"{thread} " * 200 + str(number)) for number in range(200)] for thread in range(4)]

    def write_all(mine: list[Note]) -> None:
        for note in mine:
            writer.write(note)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write_all, notes))
    writer.close()
    found = read(path)
    assert [[note for note in found if note.at_ms == thread] for thread in range(4)] == notes


def test_of_a_batch_that_ran_twice_the_later_receipt_stands(path: Path) -> None:
    first, again = replace(RECEIPT, batch=4, decoded=1), replace(RECEIPT, batch=4, decoded=2)
    entries = [Batch(number, receipt, Latency()) for number, receipt in enumerate((first, RECEIPT, again))]
    write(path, ONE, *entries)
    assert [(receipt.batch, receipt.decoded) for receipt in read_receipts(path)] == [(3, 25), (4, 2)]


def test_a_moment_is_found_without_reading_up_to_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    writer = JournalWriter(path)
    for second in range(20_000):
        writer.write(Note(second * 1000, "x" * 40))
    writer.close()
    for wanted_ms in (0, 1_000, 7_654_321, 19_999_000, 30_000_000):
        reader = JournalReader(path)
        reader.skip_to(wanted_ms)
        moments = [entry.at_ms for entry in reader.new()]
        assert [at for at in moments if at >= wanted_ms] == list(
            range(-(-wanted_ms // 1000) * 1000, 20_000_000, 1000)
        )
        assert sum(at < wanted_ms for at in moments) < 2_000


def test_lines_that_mean_nothing_are_told_of_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"what":"note","at_ms":1,"text":"a"}\n{"what":"news"}\n{"wh\n[]\n')
    missed: list[bytes] = []
    assert list(JournalReader(path, unread=missed.append).new()) == [Note(1, "a")]
    assert missed == [b'{"what":"news"}\n', b'{"wh\n', b"[]\n"]
