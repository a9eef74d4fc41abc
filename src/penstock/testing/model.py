"""A whole pipeline in plain Python: from records to the rows that must come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.testing.cleanse import Cleanse
from penstock.testing.clock import Batch, clocked
from penstock.testing.events import Record, Row
from penstock.testing.sessions import Sessions
from penstock.testing.windows import Windows


@dataclass(frozen=True)
class Model:
    """An independent statement of what a pipeline does, to hold the engine against."""

    cleanse: Cleanse
    grouping: Sessions | Windows
    out_of_order_ms: int

    def run(self, *runs: Sequence[Sequence[Record]]) -> list[list[Row]]:
        """The rows of every batch. Each argument is one run, from a start of the pipeline to its end."""
        batches: list[Batch] = []
        rejected: list[list[Row]] = []
        for run in runs:
            split = [self.cleanse.split(records) for records in run]
            clock_ms = batches[-1][1] if batches else 0
            batches += clocked([good for good, _ in split], self.out_of_order_ms, clock_ms)
            rejected += [bad for _, bad in split]
            rejected += [[]] * (len(batches) - len(rejected))
        rows = self.grouping.run(batches)
        return [bad + told for bad, told in zip(rejected, rows, strict=True)]
