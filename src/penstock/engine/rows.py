"""The rows of a batch, routed to the sinks: pure functions on Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.events import EVENT, EVENT_PREFIX
from penstock.sinks.jsontext import rows_json
from penstock.sinks.protocol import Refusal
from penstock.spec import PipelineSpec, Sink
from penstock.spec.sinks import ASIDE

_SPAN_KINDS = ("live", "final", "corrected", "retracted")
_SPAN = ("start_ms", "end_ms", "kind", "version")

LETTER = pa.schema(
    {
        "kind": pa.string(),
        "reason": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "raw": pa.binary(),
    }
)
"""Of what is set aside."""

ORDER = ("kind", "span_id", "version", "partition", "offset")


def in_order(rows: pa.Table) -> pa.Table:
    """Rows in an order that depends on nothing but the rows: shuffles deliver them as they please."""
    keys = [(name, "ascending") for name in ORDER]
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


def span_id(spec: PipelineSpec) -> str:
    """The column that names a session or window."""
    return "session_id" if spec.sessions is not None else "window_id"


def for_sink(
    rows: pa.Table, sink: Sink, spec: PipelineSpec, query: str, batch: int, slot: int = 0
) -> pa.Table:
    """The rows that a sink asked for, with the columns that readers see."""
    asked = _asked_for(rows, sink)
    if "events" in sink.rows:
        names = spec.event_columns(sink)
        chosen = asked.select([EVENT_PREFIX + name for name in names])
        chosen = chosen.rename_columns(names)
        return _stamped(chosen, query, batch, slot, required=[])
    if ASIDE & set(sink.rows):
        return _stamped(asked.select(LETTER.names), query, batch, slot, required=["kind"])
    grouping = spec.grouping
    measures = [name for measure in grouping.measures for name in measure.columns] if grouping else []
    chosen = asked.select(["span_id", *_SPAN, "key", *measures])
    names = [span_id(spec), *_SPAN]
    chosen = chosen.rename_columns([*names, grouping.key if grouping else "key", *measures])
    return _stamped(chosen, query, batch, slot, required=names)


def _asked_for(rows: pa.Table, sink: Sink) -> pa.Table:
    kinds = rows.column("kind")
    if "events" in sink.rows:
        return rows.filter(pc.equal(kinds, EVENT))
    if ASIDE & set(sink.rows):
        return rows.filter(pc.is_in(kinds, pa.array(sink.rows)))
    is_span = pc.is_in(kinds, pa.array(_SPAN_KINDS))
    return rows.filter(is_span if "live" in sink.rows else pc.and_(is_span, rows.column("is_final")))


def refused_rows(rows: pa.Table, sink: Sink, chosen: pa.Table, refused: Sequence[Refusal]) -> pa.Table:
    """Rows to set aside, of those that were chosen for a sink: as JSON, with the reason of its store."""
    if not refused:
        return rows.slice(0, 0)
    places = pa.array([refusal.row for refusal in refused], pa.int64())
    origins = _asked_for(rows, sink).select(["partition", "offset"]).take(places)
    columns = {
        "kind": pa.array(["refused"] * len(refused), pa.string()),
        "reason": pa.array([f"{sink.name}: {refusal.reason}" for refusal in refused], pa.string()),
        "partition": origins.column("partition"),
        "offset": origins.column("offset"),
        "raw": pa.array(rows_json(chosen.take(places)), pa.binary()),
    }
    return pa.table(columns)


def with_refused(rows: pa.Table, refused: Sequence[pa.Table]) -> pa.Table:
    """Rows with those that are set aside behind them."""
    more = [table for table in refused if table.num_rows]
    return pa.concat_tables([rows, *more], promote_options="permissive") if more else rows


def _stamped(rows: pa.Table, query: str, batch: int, slot: int, required: Sequence[str]) -> pa.Table:
    """Every row that leaves says which query, batch and slot it came from."""
    size = rows.num_rows
    stamps = {
        "query": pa.array([query] * size, pa.string()),
        "batch": pa.array(np.full(size, batch), pa.int64()),
        "slot": pa.array(np.full(size, slot), pa.int32()),
    }
    for name, column in stamps.items():
        rows = rows.append_column(name, column)
    there = {*required, *stamps}
    return rows.cast(pa.schema([field.with_nullable(field.name not in there) for field in rows.schema]))


def tally(rows: pa.Table) -> dict[str, int]:
    """How many records, and sessions or windows, the rows tell of."""
    kinds = {item["values"]: item["counts"] for item in pc.value_counts(rows.column("kind")).to_pylist()}
    late, duplicates = kinds.get("late", 0), kinds.get("duplicate", 0)
    folded = pc.sum(rows.column("new_events")).as_py() or 0
    is_span = pc.is_in(rows.column("kind"), pa.array(["live", "final", "corrected"]))
    merged = pc.and_(
        pc.starts_with(rows.column("reason"), "merged into "), pc.invert(rows.column("is_final"))
    )
    # Of spans that no row tells of: the operator says so of its own.
    counted = (pc.sum(rows.column("new_spans")).as_py() or 0) if "new_spans" in rows.column_names else 0
    first = pc.and_(is_span, pc.equal(rows.column("version"), 1))
    return {
        "decoded": folded + late + duplicates,
        "rejected": kinds.get("rejected", 0),
        "late": late,
        "duplicates": duplicates,
        "opened": (pc.sum(first).as_py() or 0) + counted,
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
