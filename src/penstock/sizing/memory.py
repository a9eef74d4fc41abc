"""Memory of Spark's processes, and state on disk."""

from __future__ import annotations

import math

from penstock.sizing import arithmetic as sums
from penstock.sizing.batches import Batches
from penstock.sizing.figures import Figures
from penstock.sizing.sheet import Sheet, amount
from penstock.sizing.wanted import Wanted


def memory(sheet: Sheet, w: Wanted, known: Figures, batches: Batches) -> None:
    sheet.about("memory and state")
    slot = known.slot_bytes.value
    slots = min(w.executor_cores, batches.cores)
    sheet.step(
        "executors",
        math.ceil(batches.cores / slots),
        "",
        "cores / cores of an executor, rounded up",
        f"{batches.cores} / {slots}",
    )
    lookup = sheet.step(
        "reference data",
        w.lookup_rows * known.lookup_bytes.value,
        "B",
        "rows x bytes a row, on the driver and on each executor",
        f"{w.lookup_rows:,} x {known.lookup_bytes.value:g} B",
    )
    heap = sheet.step(
        "heap of an executor",
        sums.heap_bytes(slots, slot, lookup),
        "B",
        "slots x heap of a slot + reference data, old and new",
        f"{slots} x {amount(slot, 'B')} + 2 x {amount(lookup, 'B')}",
    )
    rocksdb = sheet.step(
        "RocksDB beside it",
        known.rocksdb_bytes.value if w.alive else 0.0,
        "B",
        "its bound, for each executor" if w.alive else "no state",
    )
    overhead = sums.overhead_bytes(heap)
    sheet.step(
        "memory of an executor",
        heap + rocksdb + overhead,
        "B",
        "heap + RocksDB + Spark's overhead (10 %, at least 384 MiB)",
        " + ".join(amount(part, "B") for part in (heap, rocksdb, overhead)),
    )
    rows = sums.touched(batches.largest, w.alive) if w.alive else batches.largest
    gathered = sheet.step(
        "rows on the driver",
        2 * rows * w.size_bytes,
        "B",
        "rows of the largest batch x size, as they come and as they are sent; a row taken for a record",
        f"2 x {rows:,.0f} x {w.size_bytes:g} B",
    )
    sheet.step(
        "heap of the driver",
        slot + 2 * lookup + gathered,
        "B",
        "a slot's + reference data, old and new + rows; where the driver is the executor, beside its slots",
        " + ".join(amount(part, "B") for part in (slot, 2 * lookup, gathered)),
    )
    state = sheet.step(
        "state on disk",
        w.alive * known.session_bytes.value,
        "B",
        "sessions alive x bytes a session, over all executors",
        f"{w.alive:,} x {known.session_bytes.value:g} B",
    )
    sheet.step(
        "checkpoint",
        state * known.checkpoint_ratio.value,
        "B",
        "state x its snapshots and changelogs",
        f"{amount(state, 'B')} x {known.checkpoint_ratio.value:g}",
    )
