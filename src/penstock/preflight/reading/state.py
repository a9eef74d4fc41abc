"""The files that state is made of: whole, as far as their checksums tell.

Spark checks them too, but says of an empty one only that it ended early, and not which.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

_HEADER = struct.Struct(">4sI")
"""Of a checksum file: a mark, and how many bytes there are to each checksum."""


def damaged_state(state: Path, version: int) -> Iterator[str]:
    """What is wrong with the files that make up a version of the state."""
    for partition in sorted(state.glob("[0-9]*/[0-9]*")):
        for file in _needed(partition, version):
            if not _is_whole(file):
                yield f"{file} is damaged: it differs from its checksums"


def _needed(partition: Path, version: int) -> Iterator[Path]:
    """The newest snapshot up to the version, and what changed from there on."""
    snapshots = [int(file.stem) for file in partition.glob("[0-9]*.zip") if file.stem.isdecimal()]
    newest = max((number for number in snapshots if number <= version), default=0)
    for file in (partition / f"{newest}.zip", *_changes(partition, newest, version)):
        if file.exists():
            yield file


def _changes(partition: Path, after: int, version: int) -> Iterator[Path]:
    for number in range(after + 1, version + 1):
        yield partition / f"{number}.changelog"


def _is_whole(file: Path) -> bool:
    checksums = file.with_name(f".{file.name}.crc")
    if not checksums.exists():
        return True
    try:
        _, size = _HEADER.unpack_from(said := checksums.read_bytes())
        with file.open("rb") as content:
            found = [zlib.crc32(part) for part in iter(lambda: content.read(size), b"")]
        return said[_HEADER.size :] == struct.pack(f">{len(found)}I", *found)
    except (OSError, ValueError, struct.error):
        return False
