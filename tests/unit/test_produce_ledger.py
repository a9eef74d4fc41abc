from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.produce.clickstream import EVENT_TYPES, ClickChunk, Clicks, ClickstreamPlan
from penstock.produce.ledger import LedgerWriter, next_producer_id, read_ledger, read_ledgers

PLAN = ClickstreamPlan(users=1_000, products=100, malformed=0.1)
NOW_MS = 1_800_000_000_000


def write(directory: Path, *, chunks: int = 5, size: int = 40) -> list[ClickChunk]:
    clicks = Clicks(PLAN, "p1", 1_000)
    made = [clicks.chunk(size, NOW_MS + 40 * number) for number in range(chunks)]
    with LedgerWriter(directory, PLAN, "p1") as ledger:
        assert [ledger.record(chunk) for chunk in made] == [size * number for number in range(chunks)]
    return made


def test_what_was_recorded_is_read_back_by_name(tmp_path: Path) -> None:
    [chunk] = write(tmp_path, chunks=1)
    ledger = read_ledger(tmp_path)
    assert (ledger.producer, ledger.plan) == ("p1", PLAN)
    rows = ledger.records.to_pylist()
    assert [row["seq"] for row in rows] == chunk.seq.tolist()
    assert [row["user_id"] for row in rows] == [f"u{user:07d}" for user in chunk.user]
    assert [row["event_type"] for row in rows] == [EVENT_TYPES[kind] for kind in chunk.kind]
    assert [row["product_id"] for row in rows] == [f"p{product:05d}" for product in chunk.product]
    assert [row["price"] for row in rows] == [cents / 100 if cents else None for cents in chunk.price_cents]
    assert [row["ts_ms"] for row in rows] == chunk.ts_ms.tolist()
    assert {row["page"] for row in rows if row["event_type"] == "purchase"} <= {"/checkout"}
    assert {row["fate"] for row in rows} == {"ok", "malformed"}


def test_the_clock_user_is_read_back_as_clock(tmp_path: Path) -> None:
    with LedgerWriter(tmp_path, PLAN, "p1") as ledger:
        ledger.record(PLAN.clock_chunk(ts_ms=NOW_MS, created_ms=NOW_MS))
    assert read_ledger(tmp_path).records["user_id"].to_pylist() == ["clock"]


def test_records_without_an_acknowledgement_are_uncertain(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "acks.jsonl").write_text('{"settled": 80, "failed": [], "unknown": []}\n')
    ledger = read_ledger(tmp_path)
    assert (ledger.acknowledged, ledger.failed, ledger.uncertain) == (80, 0, 120)


def test_failed_and_unknown_records_do_not_count_as_sent(tmp_path: Path) -> None:
    write(tmp_path)
    with (tmp_path / "acks.jsonl").open("w") as acks:
        acks.write('{"settled": 80, "failed": [3, 4], "unknown": []}\n')
        acks.write('{"settled": 200, "failed": [], "unknown": [100]}\n')
    ledger = read_ledger(tmp_path)
    assert (ledger.acknowledged, ledger.failed, ledger.uncertain) == (197, 2, 1)
    every = ledger.records["seq"].to_pylist()
    assert ledger.with_status("failed")["seq"].to_pylist() == every[3:5]


def test_a_ledger_cut_at_any_byte_keeps_every_whole_chunk_before_the_cut(tmp_path: Path) -> None:
    chunks = write(tmp_path)
    path = tmp_path / "events.arrow"
    whole = path.read_bytes()
    counts = []
    for cut in [*range(0, len(whole), 31), len(whole)]:
        path.write_bytes(whole[:cut])
        seqs = read_ledger(tmp_path).records["seq"].to_numpy()
        assert np.array_equal(seqs, np.concatenate([chunk.seq for chunk in chunks])[: len(seqs)])
        counts.append(len(seqs))
    assert counts == sorted(counts)
    assert set(counts) == {0, 40, 80, 120, 160, 200}


def test_an_acknowledgement_cut_short_by_a_kill_is_ignored(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "acks.jsonl").write_text('{"settled": 80, "failed": [], "unknown": []}\n{"settled": 2')
    assert read_ledger(tmp_path).acknowledged == 80


def test_a_ledger_that_lost_acknowledged_records_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "acks.jsonl").write_text('{"settled": 200, "failed": [], "unknown": []}\n')
    path = tmp_path / "events.arrow"
    path.write_bytes(path.read_bytes()[:2_000])
    with pytest.raises(PenstockError, match="damaged"):
        read_ledger(tmp_path)


def test_a_live_ledger_can_be_read(tmp_path: Path) -> None:
    with LedgerWriter(tmp_path, PLAN, "p1") as ledger:
        ledger.record(Clicks(PLAN, "p1", 1_000).chunk(40, NOW_MS))
        ledger.settle(30)
        now = read_ledger(tmp_path)
    assert (now.acknowledged, now.uncertain) == (30, 10)


def test_the_ledger_of_an_earlier_run_is_never_continued(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(PenstockError, match="earlier run"):
        LedgerWriter(tmp_path, PLAN, "p1")


def test_a_directory_without_a_ledger_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=str(tmp_path)):
        read_ledger(tmp_path)


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: next_producer_id(tmp_path / "clickstream"), range(40)))
    assert sorted(ids, key=lambda name: int(name[1:])) == [f"p{number}" for number in range(1, 41)]


def test_ledgers_of_a_pipeline_are_read_in_the_order_of_their_runs(tmp_path: Path) -> None:
    for _ in range(11):
        producer = next_producer_id(tmp_path)
        with LedgerWriter(tmp_path / producer, PLAN, producer):
            pass
    assert [ledger.producer for ledger in read_ledgers(tmp_path)] == [f"p{n}" for n in range(1, 12)]
