"""Which version of each reference table a batch uses, and the data of it: kept with the checkpoint.

1. What a batch uses is written down before a task of it runs.
2. It never changes: a batch that runs again, after a crash too, uses the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from penstock.engine.reference import Version

_KEPT = 3
"""Versions of a table that are kept. A replay needs the one in use; the others are for people."""

Entry = tuple[int, str]
"""From this batch on, this version."""


class Versions:
    """The versions that one query has used."""

    def __init__(self, checkpoint: Path) -> None:
        self._file = checkpoint / "reference-versions.json"
        self._data = checkpoint / "reference"
        written = json.loads(self._file.read_text()) if self._file.exists() else {}
        self._entries: dict[str, list[Entry]] = {
            table: [(int(batch), version) for batch, version in entries] for table, entries in written.items()
        }

    def used(self, table: str, batch: int) -> str | None:
        """The version that a batch uses by what was written down."""
        return next((id_ for first, id_ in reversed(self._entries.get(table, [])) if first <= batch), None)

    def last(self, table: str) -> str | None:
        return self._entries[table][-1][1] if self._entries.get(table) else None

    def begin(self, batch: int, versions: Mapping[str, str]) -> None:
        """Write down what a batch and those after it use."""
        changed = {table: id_ for table, id_ in versions.items() if self.used(table, batch) != id_}
        if not changed:
            return
        for table, id_ in changed.items():
            before = [entry for entry in self._entries.get(table, []) if entry[0] < batch]
            self._entries[table] = [*before, (batch, id_)][-_KEPT:]
        _write_durably(self._file, json.dumps(self._entries, indent=1).encode())

    def keep(self, table: str, version: Version) -> None:
        """Keep the data of a version that a batch may use from now on."""
        path = self._path(table, version.id)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_durably(path, version.parquet)

    def sweep(self, table: str, newest: str) -> None:
        """Delete the data of all versions but the newest and those written down."""
        needed = {newest, *(id_ for _, id_ in self._entries.get(table, []))}
        for path in (self._data / table).glob("*"):
            if path.stem not in needed:
                path.unlink(missing_ok=True)

    def read(self, table: str, version: str) -> Version | None:
        """A version that was kept, if it is there still."""
        path = self._path(table, version)
        try:
            return Version(version, path.read_bytes(), path.stat().st_mtime_ns // 1_000_000)
        except OSError:
            return None

    def _path(self, table: str, version: str) -> Path:
        return self._data / table / f"{version}.parquet"


def _write_durably(path: Path, content: bytes) -> None:
    """Whole or not at all, also when the machine goes down."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
