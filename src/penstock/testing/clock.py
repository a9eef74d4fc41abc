"""The clock that a batch sees: Spark's watermark."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.testing.events import Event

Batch = tuple[Sequence[Event], int]
"""The events of a batch, and the clock in milliseconds that all of them are judged by."""


def clocked(
    batches: Sequence[Sequence[Event]], out_of_order_ms: int, clock_ms: int = 0
) -> list[tuple[Sequence[Event], int]]:
    """The batches that Spark makes of one run, from the clock that the run before left.

    The clock is the newest event time of the batches before, less `out_of_order_ms`; it starts at 1970 and
    never goes back. When the last batch has moved it, one more batch follows that has no events.
    """
    sequence: list[Batch] = []
    for events in batches:
        sequence.append((events, clock_ms))
        clock_ms = max([clock_ms, *(event.ts_ms - out_of_order_ms for event in events)])
    if sequence and clock_ms > sequence[-1][1]:
        sequence.append(([], clock_ms))
    return sequence
