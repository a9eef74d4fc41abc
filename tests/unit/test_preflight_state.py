"""The files of a state against their checksums."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.preflight.reading.state import damaged_state

CHUNK = 512


def checksums(content: bytes) -> bytes:
    sums = (zlib.crc32(content[at : at + CHUNK]) for at in range(0, len(content), CHUNK))
    return struct.pack(">4sI", b"crc\0", CHUNK) + b"".join(struct.pack(">I", each) for each in sums)


def write(partition: Path, name: str, content: bytes) -> Path:
    partition.mkdir(parents=True, exist_ok=True)
    (partition / f".{name}.crc").write_bytes(checksums(content))
    (partition / name).write_bytes(content)
    return partition / name


@pytest.fixture
def state(tmp_path: Path) -> Path:
    for partition in ("0", "1"):
        for version in (1, 2, 3, 4, 5):
            write(tmp_path / "0" / partition, f"{version}.changelog", bytes([version]) * 700)
        write(tmp_path / "0" / partition, "3.zip", b"all up to here")
    return tmp_path


def test_whole_files_are_not_spoken_of(state: Path) -> None:
    assert list(damaged_state(state, 5)) == []


@pytest.mark.parametrize("content", [b"", bytes([5]) * 699, bytes([5]) * 512, b"x" * 700])
def test_a_file_that_was_emptied_cut_or_overwritten_is_named(state: Path, content: bytes) -> None:
    file = state / "0" / "1" / "5.changelog"
    file.write_bytes(content)
    [told] = damaged_state(state, 5)
    assert str(file) in told


@pytest.mark.parametrize("name", ["2.changelog", "3.changelog", "5.changelog"])
def test_what_the_version_does_not_need_may_be_damaged(state: Path, name: str) -> None:
    (state / "0" / "0" / name).write_bytes(b"")
    assert list(damaged_state(state, 4)) == []


def test_the_snapshot_that_the_version_begins_with_must_be_whole(state: Path) -> None:
    (state / "0" / "0" / "3.zip").write_bytes(b"half of it")
    assert len(list(damaged_state(state, 5))) == 1


def test_a_file_without_checksums_is_taken_as_it_is(state: Path) -> None:
    (state / "0" / "0" / ".5.changelog.crc").unlink()
    assert list(damaged_state(state, 5)) == []


@given(content=st.binary(max_size=3 * CHUNK), other=st.binary(max_size=3 * CHUNK))
def test_any_other_content_is_noticed(
    content: bytes, other: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    state = tmp_path_factory.mktemp("state")
    file = write(state / "0" / "0", "1.changelog", content)
    file.write_bytes(other)
    assert (list(damaged_state(state, 1)) == []) == (content == other)
