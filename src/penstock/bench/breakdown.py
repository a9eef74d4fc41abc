"""Where the time of an event went, from its creation until it could be read: event by event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from penstock.engine.receipt import Receipt

PARTS = ("producer and broker", "waiting for its batch", "read and state", "sinks")
_CREATED = b'"created_ms":'
_DIGITS = 13


@dataclass(frozen=True)
class Stamped:
    """A record: where it is, when it was made, and when it was in the log."""

    partition: int
    offset: int
    created_ms: int
    appended_ms: int


def stamped(messages: Iterable[Message]) -> Iterable[Stamped]:
    """Those that tell when they were made."""
    for message in messages:
        value = message.value() or b""
        if (at := value.find(_CREATED)) >= 0:
            created = value[at + len(_CREATED) : at + len(_CREATED) + _DIGITS]
            if created.isdigit():
                _, appended_ms = message.timestamp()
                yield Stamped(
                    int(message.partition() or 0), int(message.offset() or 0), int(created), appended_ms
                )


def breakdown(
    records: Iterable[Stamped], receipts: Sequence[Receipt], sink: str, from_ms: float, to_ms: float
) -> NDArray[np.float64]:
    """One row for each record that was made between two moments, one column for each of the parts."""
    found: list[tuple[float, float, float, float]] = []
    starts = _starts(receipts)
    for record in records:
        if not from_ms <= record.created_ms < to_ms or record.partition not in starts:
            continue
        offsets, of_partition = starts[record.partition]
        at = int(np.searchsorted(offsets, record.offset, side="right")) - 1
        if at < 0 or record.offset >= of_partition[at].offsets[record.partition][1]:
            continue
        receipt = of_partition[at]
        computed_ms = receipt.started_at_ms + receipt.compute_ms
        [visible_ms] = [one.visible_at_ms for one in receipt.sinks if one.name == sink]
        found.append(
            (
                record.appended_ms - record.created_ms,
                receipt.started_at_ms - record.appended_ms,
                receipt.compute_ms,
                visible_ms - computed_ms,
            )
        )
    return np.array(found, dtype=np.float64).reshape(-1, len(PARTS))


def _starts(receipts: Sequence[Receipt]) -> dict[int, tuple[NDArray[np.int64], list[Receipt]]]:
    """By partition: where each batch's share begins, and the batches."""
    found: dict[int, list[tuple[int, Receipt]]] = {}
    for receipt in receipts:
        for partition, (start, end) in receipt.offsets.items():
            if end > start:
                found.setdefault(partition, []).append((start, receipt))
    made = {}
    for partition, shares in found.items():
        shares.sort(key=lambda share: share[0])
        made[partition] = (np.array([start for start, _ in shares]), [receipt for _, receipt in shares])
    return made
