"""The rows of a batch, routed to the sinks: pure functions on Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spec import PipelineSpec

_SESSION_KINDS = ("live", "final", "corrected", "retracted")
_DEAD = ("rejected", "late")
_IDENTITY = ("session_id", "start_ms", "end_ms", "kind", "version")
_SLOT = 0


def in_order(rows: pa.Table) -> pa.Table:
    """Rows in an order that depends on nothing but the rows: shuffles deliver them as they please."""
    keys = [(name, "ascending") for name in ("kind", "session_id", "version", "partition", "offset")]
    return rows.take(pc.sort_indices(rows, sort_keys=keys))


def with_originals(rows: pa.Table, originals: Mapping[tuple[int, int], bytes | None]) -> pa.Table:
    """Rows with the raw bytes filled in where they were read again."""
    if not originals:
        return rows
    raw = rows.column("raw").to_pylist()
    partitions, offsets = rows.column("partition").to_pylist(), rows.column("offset").to_pylist()
    filled = [
        value if value is not None else originals.get((p, o))
        for value, p, o in zip(raw, partitions, offsets, strict=True)
    ]
    return rows.set_column(rows.schema.get_field_index("raw"), "raw", pa.array(filled, pa.binary()))


def for_sink(rows: pa.Table, wanted: Sequence[str], spec: PipelineSpec, query: str, batch: int) -> pa.Table:
    """The rows that a sink asked for, with the columns that readers see."""
    if set(wanted) & set(_DEAD):
        chosen = rows.filter(
            pc.is_in(rows.column("kind"), pa.array([kind for kind in wanted if kind in _DEAD]))
        )
        names = ["kind", "reason", "partition", "offset", "raw"]
        chosen = chosen.select(names)
    else:
        is_session = pc.is_in(rows.column("kind"), pa.array(_SESSION_KINDS))
        mask = is_session if "live" in wanted else pc.and_(is_session, rows.column("is_final"))
        chosen = rows.filter(mask)
        measures = [measure.name for measure in spec.sessions.measures]
        chosen = chosen.select([*_IDENTITY, "key", *measures])
        chosen = chosen.rename_columns([*_IDENTITY, spec.sessions.key, *measures])
    return _stamped(chosen, query, batch)


def _stamped(rows: pa.Table, query: str, batch: int) -> pa.Table:
    """Every row that leaves says which query and batch it came from."""
    size = rows.num_rows
    stamps = {
        "query": pa.array([query] * size, pa.string()),
        "batch": pa.array(np.full(size, batch), pa.int64()),
        "slot": pa.array(np.full(size, _SLOT), pa.int32()),
    }
    for name, column in stamps.items():
        rows = rows.append_column(name, column)
    required = {*_IDENTITY, *stamps}
    return rows.cast(pa.schema([field.with_nullable(field.name not in required) for field in rows.schema]))


def tally(rows: pa.Table) -> dict[str, int]:
    """How many records and sessions the rows tell of."""
    kinds = {item["values"]: item["counts"] for item in pc.value_counts(rows.column("kind")).to_pylist()}
    late = kinds.get("late", 0)
    folded = pc.sum(rows.column("new_events")).as_py() or 0
    is_session = pc.is_in(rows.column("kind"), pa.array(["live", "final", "corrected"]))
    merged = pc.and_(
        pc.starts_with(rows.column("reason"), "merged into "), pc.invert(rows.column("is_final"))
    )
    first = pc.and_(is_session, pc.equal(rows.column("version"), 1))
    return {
        "decoded": folded + late,
        "rejected": kinds.get("rejected", 0),
        "late": late,
        "opened": pc.sum(first).as_py() or 0,
        "closed": kinds.get("final", 0),
        "corrected": kinds.get("corrected", 0),
        "merged": pc.sum(merged).as_py() or 0,
    }


def latency_counts(rows: pa.Table, visible_at_ms: int) -> tuple[tuple[int, int], ...]:
    """(milliseconds, events) from creation to visible.

    Each row counts all events it newly holds with the age of the oldest of them: never too low.
    """
    told = rows.filter(
        pc.and_(pc.greater(rows.column("new_events"), 0), pc.is_valid(rows.column("oldest_created_ms")))
    )
    if not told.num_rows:
        return ()
    ages = visible_at_ms - told.column("oldest_created_ms").to_numpy()
    values, inverse = np.unique(np.maximum(ages, 0), return_inverse=True)
    events = np.bincount(inverse, weights=told.column("new_events").to_numpy()).astype(int)
    return tuple(zip(values.tolist(), events.tolist(), strict=True))
