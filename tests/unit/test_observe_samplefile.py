"""Samples in their file: bounded, and readable while it grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.observe import samplefile
from penstock.observe.samplefile import SampleReader, SampleWriter, older
from penstock.observe.samples import (
    AuditVerdict,
    Load,
    ProcessLoad,
    Sample,
    SinkVerdict,
    StageWork,
    StateWork,
    Work,
)

WORK = Work(
    at_ms=3,
    query="clickstream",
    batch=7,
    offsets_ms=4,
    planning_ms=30,
    log_ms=12,
    run_ms=600,
    commit_ms=11,
    total_ms=660,
    watermark_ms=1_800_000_000_000,
    state=StateWork(10, 2, 1_000_000, 2_000_000, 300, 5, 80, 40_000),
    stages=(StageWork(0, 8, 200, 390, 350, 3, 20_000, 0, 0, 900_000, 12, 0),),
)
VERDICT = AuditVerdict(5, 0, 0, 7, (SinkVerdict("sessions", 0, 0),), ("a gap",))


def load(at_ms: int) -> Load:
    return Load(at_ms, (ProcessLoad("jvm", 1.5, 900_000_000, 1, 2, 3, 4), ProcessLoad("driver", 0.5, 90)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "clickstream" / "samples.jsonl"


def test_what_was_written_is_read_as_it_was(path: Path) -> None:
    writer = SampleWriter(path)
    for sample in (WORK, load(4), VERDICT):
        writer.write(sample)
    assert list(SampleReader(path).new()) == [WORK, load(4), VERDICT]


def test_a_reader_goes_on_where_it_stopped(path: Path) -> None:
    reader = SampleReader(path)
    assert list(reader.new()) == []
    writer = SampleWriter(path)
    for at_ms in range(3):
        writer.write(load(at_ms))
        assert list(reader.new()) == [load(at_ms)]
    assert list(reader.new()) == []


def test_a_line_that_is_being_written_waits(path: Path) -> None:
    SampleWriter(path).write(load(1))
    reader = SampleReader(path)
    assert list(reader.new()) == [load(1)]
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(whole[:20])
        file.flush()
        assert list(reader.new()) == []
        file.write(whole[20:])
    assert list(reader.new()) == [load(1)]


def test_the_half_line_of_a_killed_writer_swallows_nothing(path: Path) -> None:
    SampleWriter(path).write(load(1))
    with path.open("ab") as file:
        file.write(b'{"what":"load","at')
    SampleWriter(path).write(load(2))
    assert list(SampleReader(path).new()) == [load(1), load(2)]


def test_the_files_are_bounded_and_a_reader_follows_from_one_to_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samplefile, "BYTES_MAX", 2_000)
    writer, reader = SampleWriter(path), SampleReader(path)
    followed: list[Sample] = []
    for at_ms in range(100):
        writer.write(load(at_ms))
        if at_ms % 4 == 0:
            followed += reader.new()
    followed += reader.new()
    assert followed == [load(at_ms) for at_ms in range(100)]
    assert path.stat().st_size <= 2_000
    assert older(path).stat().st_size <= 2_000
    kept = list(SampleReader(path).new())
    assert kept == [load(at_ms) for at_ms in range(100 - len(kept), 100)]
    assert len(kept) > 5
