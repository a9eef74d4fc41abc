"""What the newest part of a pipeline's journal tells of its cost and its pace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from penstock.engine.receipt import Receipt, SinkReceipt
from penstock.observe.journal import Batch, JournalReader, Lag
from penstock.preflight.facts import JournalFacts, SinkCost

_READ_BYTES = 1_000_000
"""Some 500 batches."""
_LARGEST = 10
"""Batches by which the pace of catching up is told: the largest, since small ones are mostly overhead."""


def read_journal(path: Path) -> JournalFacts:
    entries = list(JournalReader.tail(path, _READ_BYTES).new())
    receipts = [entry.receipt for entry in entries if isinstance(entry, Batch)]
    return JournalFacts(
        last_at_ms=entries[-1].at_ms if entries else None,
        costs=_costs(receipts),
        capacity_eps=_capacity_eps(receipts),
        added_eps=_added_eps([entry for entry in entries if isinstance(entry, Lag)]),
    )


def _costs(receipts: Sequence[Receipt]) -> dict[str, SinkCost]:
    writes: dict[str, list[tuple[SinkReceipt, float]]] = {}
    for receipt in receipts:
        for sink in receipt.sinks:
            if not sink.replayed:
                writes.setdefault(sink.name, []).append((sink, max(receipt.total_ms, sink.write_ms, 1.0)))
    return {
        name: SinkCost(
            batches=len(told),
            write_ms=median(sink.write_ms for sink, _ in told),
            share=median(sink.write_ms / total_ms for sink, total_ms in told),
            write_ms_max=max(sink.write_ms for sink, _ in told),
        )
        for name, told in writes.items()
    }


def _capacity_eps(receipts: Sequence[Receipt]) -> float | None:
    largest = sorted(receipts, key=lambda receipt: receipt.records)[-_LARGEST:]
    took_ms = sum(receipt.total_ms for receipt in largest)
    records = sum(receipt.records for receipt in largest)
    return records * 1000 / took_ms if took_ms > 0 and records else None


def _added_eps(lags: Sequence[Lag]) -> dict[int, float]:
    if len(lags) < 2 or lags[-1].at_ms == lags[0].at_ms:
        return {}
    first, last = lags[0], lags[-1]
    took_s = (last.at_ms - first.at_ms) / 1000
    return {p: max(0, end - first.ends.get(p, end)) / took_s for p, end in last.ends.items()}
