"""The measured figures that a plan rests on: those of this machine where an experiment left any."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.paths import cache_dir

SHIPPED = Path(__file__).with_name("figures.toml")
_FILE = "figures.json"


@dataclass(frozen=True)
class Figure:
    """One measured figure, and what measured it."""

    what: str
    value: float
    unit: str
    source: str
    here: bool = False
    """Measured on this machine, or given by the person who asks."""


@dataclass(frozen=True)
class Figures:
    """What figures.toml explains."""

    event_us: Figure
    key_us: Figure
    batch_s: Figure
    record_bytes: Figure
    session_bytes: Figure
    checkpoint_ratio: Figure
    lookup_bytes: Figure
    slot_bytes: Figure
    rocksdb_bytes: Figure


def figures(file: Path | None = None, **given: float | None) -> Figures:
    """The shipped ones, then those of this machine, then those that are given."""
    shipped = {name: Figure(**entry) for name, entry in tomllib.loads(SHIPPED.read_text()).items()}
    here = {name: (entry["value"], entry["source"]) for name, entry in _kept(file).items()}
    here |= {name: (value, "given") for name, value in given.items() if value is not None}
    found = {
        name: replace(shipped[name], value=value, source=source, here=True)
        for name, (value, source) in here.items()
        if name in shipped
    }
    return Figures(**shipped | found)


def keep(name: str, value: float, command: str, file: Path | None = None) -> None:
    """Leave a figure of this machine behind, for the plans to come."""
    if name not in {field.name for field in fields(Figures)} or not 0 < value < float("inf"):
        raise ValueError(f"no figure: {name} = {value}")
    path = file or cache_dir() / _FILE
    known: dict[str, Any] = {**_kept(path)}
    known[name] = {"value": value, "source": f"{command}, {datetime.now(UTC):%Y-%m-%d}"}
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(known, indent=1) + "\n")
    fresh.replace(path)


def _kept(file: Path | None) -> Mapping[str, Mapping[str, Any]]:
    path = file or cache_dir() / _FILE
    try:
        known: Mapping[str, Mapping[str, Any]] = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise PenstockError(
            f"{path} cannot be read: {error}", hint="Delete it, and measure again: make bench"
        ) from error
    return known
