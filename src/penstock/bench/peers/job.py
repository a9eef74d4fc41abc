"""The work that every peer does, and what it says of itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow.parquet as pq
from pyarrow import csv

Guarantee = Literal["exactly_once", "at_least_once"]

_LOOKUPS = {
    "users": ("user_id", "segment", "country"),
    "catalogue": ("product_id", "category", "brand"),
}


@dataclass(frozen=True)
class Job:
    """Sessions of all clicks that are in a topic; each round writes them to a topic of its own."""

    bootstrap: str
    topic: str
    reference: Path
    """The directory with users.parquet and catalogue.parquet."""
    output: str
    rounds: int
    guarantee: Guarantee = "exactly_once"

    def output_of(self, number: int) -> str:
        return f"{self.output}-{number}"


@dataclass(frozen=True)
class Round:
    """One run of a job over the whole topic, and what it took."""

    job: str
    guarantee: Guarantee
    events: int
    seconds: float
    """From the first record that is read to the last session that is written."""
    committed_s: float
    """From the first record to the commit of the last: a job that commits by the clock waits for it."""
    events_per_s: float
    cpu_s_per_million: float
    """Of the peer's own processes, from the first record to the last commit; Kafka's not counted."""
    rss_mb: float
    """The most that was seen."""
    sessions: int
    warm: bool
    """The process has done the same before."""
    problems: tuple[str, ...] = ()
    """How its sessions differ from those that must come; none when they are the same."""


@dataclass(frozen=True)
class First:
    """A round's first record has been read."""


@dataclass(frozen=True)
class Done:
    """A round is over and all is committed."""

    events: int
    sessions: int
    seconds: float
    committed_s: float


def mark(line: str) -> First | Done | None:
    """What a line of a peer's output says of a round; None for whatever else is printed."""
    if not line.startswith('{"mark":'):
        return None
    said = json.loads(line)
    match said.pop("mark"):
        case "first":
            return First()
        case "done":
            return Done(**said)
        case _:
            return None


def write_lookups(reference: Path, directory: Path) -> None:
    """The reference data as text, which peers can read without a library for Parquet."""
    directory.mkdir(parents=True, exist_ok=True)
    text = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    for name, columns in _LOOKUPS.items():
        table = pq.read_table(reference / f"{name}.parquet", columns=list(columns))
        csv.write_csv(table, directory / f"{name}.tsv", text)
