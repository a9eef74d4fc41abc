"""Receipts against the topic and against what sinks hold, batch by batch: pure, and for any pipeline.

It needs no record of what producers sent. Where there is one, audit.py compares row by row as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from penstock.engine.receipt import Receipt

Keeps = Literal["all", "each", "newest"]
"""What a store has of a batch: every row once; every row, perhaps again; or only what nothing replaced."""

_NAMED_MAX = 5


@dataclass(frozen=True)
class Continuity:
    """Whether the batches of a query cover the topic without a hole and without an overlap."""

    batches: int
    records: int
    skipped: int
    repeated: int
    reached: dict[int, int]
    """Where the next batch begins, by partition."""
    problems: tuple[str, ...]


@dataclass(frozen=True)
class SinkCheck:
    """What receipts say a sink holds, and what it holds. All but `keeps` and `problems` count rows."""

    name: str
    keeps: Keeps
    said: int
    held: int
    lost: int
    duplicated: int
    repeated: int
    """Came again in a sink that may repeat: its readers go by the key."""
    problems: tuple[str, ...]


def continuity(receipts: Sequence[Receipt]) -> Continuity:
    """Each batch of a query must start where the one before it ended, in every partition."""
    problems, reached = [], dict[int, int]()
    skipped = repeated = 0
    for receipt in receipts:
        for partition, (start, end) in receipt.offsets.items():
            before = reached.get(partition, start)
            if start != before:
                word = "skips" if start > before else "repeats"
                problems.append(
                    f"{receipt.query}: batch {receipt.batch} {word} offsets {min(start, before)} to "
                    f"{max(start, before) - 1} of partition {partition}"
                )
            skipped += max(0, start - before)
            repeated += max(0, before - start)
            reached[partition] = end
    return Continuity(
        len(receipts),
        sum(receipt.records for receipt in receipts),
        skipped,
        repeated,
        reached,
        tuple(problems),
    )


def check_sink(name: str, keeps: Keeps, receipts: Sequence[Receipt], held: Mapping[int, int]) -> SinkCheck:
    """The rows that a sink holds of each batch against the receipts of these batches.

    Rows of batches without a receipt are of the one under way, and not judged. In a store that keeps the
    newest row of a key, rows of older batches have been replaced: only the last batch must be there whole.
    """
    written = [(receipt.batch, sink) for receipt in receipts for sink in receipt.sinks if sink.name == name]
    said = {batch: sink.rows - sink.refused for batch, sink in written}
    differences = {batch: held.get(batch, 0) - rows for batch, rows in said.items()}
    short = {batch: -more for batch, more in differences.items() if more < 0}
    if keeps == "newest":
        short = {batch: rows for batch, rows in short.items() if batch == max(said)}
    more = {batch: rows for batch, rows in differences.items() if rows > 0}
    problems = [_told(name, receipts, short, "are not there")]
    if keeps != "each":
        problems.append(_told(name, receipts, more, "are there too often"))
    return SinkCheck(
        name=name,
        keeps=keeps,
        said=sum(said.values()),
        held=sum(rows for batch, rows in held.items() if batch in said),
        lost=sum(short.values()),
        duplicated=sum(more.values()) if keeps != "each" else 0,
        repeated=sum(more.values()) if keeps == "each" else 0,
        problems=tuple(line for lines in problems for line in lines),
    )


def _told(sink: str, receipts: Sequence[Receipt], rows: Mapping[int, int], what: str) -> list[str]:
    """A line for each batch, with the offsets it was made of; of many batches the first few."""
    by_batch = {receipt.batch: receipt for receipt in receipts}
    lines = [
        f"{sink}: {rows[batch]} rows of batch {batch} {what}; made of {_places(by_batch[batch])}"
        for batch in sorted(rows)[:_NAMED_MAX]
    ]
    left = sorted(rows)[_NAMED_MAX:]
    if left:
        total = sum(rows[batch] for batch in left)
        lines.append(f"{sink}: {total} rows of {len(left)} more batches {what}, up to batch {left[-1]}")
    return lines


def _places(receipt: Receipt) -> str:
    spans = [
        f"{start} to {end - 1} of partition {partition}"
        for partition, (start, end) in sorted(receipt.offsets.items())
        if end > start
    ]
    return f"offsets {', '.join(spans)}" if spans else "no records"
