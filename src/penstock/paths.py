"""Where things are kept: one data directory for what runs, one cache for what is fetched."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import PenstockError

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE = Path(__file__).resolve().parent


def cache_dir() -> Path:
    """Fetched jars and the compiled kernel; safe to delete, shared by all data directories."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "penstock"


def default_data_dir() -> Path:
    """$PENSTOCK_DATA, or .penstock in the current directory."""
    return Path(os.environ.get("PENSTOCK_DATA", ".penstock"))


def shipped(name: str) -> Path:
    """A directory shipped with Penstock: beside the sources in a checkout, inside a wheel otherwise."""
    beside = PROJECT / name
    return beside if beside.is_dir() else PACKAGE / name


@dataclass(frozen=True)
class DataDir:
    """All that a set of pipelines and its embedded services keep on disk."""

    root: Path

    @classmethod
    def at(cls, root: Path | None = None) -> DataDir:
        """Open the data directory, and make it when it is not there."""
        path = (root or default_data_dir()).absolute()
        try:
            path.mkdir(parents=True, exist_ok=True)
            probe = path / f".writable-{os.getpid()}"
            probe.write_bytes(b"x")
            probe.unlink()
        except OSError as error:
            raise PenstockError(
                f"cannot write to the data directory {path}: {error.strerror}",
                hint="Free some space or name another one with --data DIR or PENSTOCK_DATA.",
            ) from error
        return cls(path)

    def __truediv__(self, name: str) -> Path:
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def services(self) -> Path:
        return self / "services"

    @property
    def logs(self) -> Path:
        return self / "logs"

    @property
    def checkpoints(self) -> Path:
        return self / "checkpoints"

    @property
    def reference(self) -> Path:
        return self / "reference"

    @property
    def produced(self) -> Path:
        return self / "produced"

    @property
    def runs(self) -> Path:
        return self / "runs"
