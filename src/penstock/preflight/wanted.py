"""What a spec wants of a table: its columns, its key, and positions beside it."""

from __future__ import annotations

import pyarrow as pa

from penstock.engine.events import EVENT_PREFIX
from penstock.engine.rows import for_sink, span_id
from penstock.sinks.postgres import POSITIONS_TABLE
from penstock.spec import PipelineSpec, Sink


def columns_of(spec: PipelineSpec, sink: Sink) -> list[str]:
    """The columns of a sink's rows, by sending no rows through the engine's own routing."""
    grouping = spec.grouping
    measures = [name for measure in grouping.measures for name in measure.columns] if grouping else []
    names = ["kind", "span_id", "start_ms", "end_ms", "version", "key", *measures]
    names += [EVENT_PREFIX + name for name in spec.columns()]
    schema = pa.schema([(name, pa.string()) for name in names]).append(pa.field("is_final", pa.bool_()))
    return list(for_sink(schema.empty_table(), sink, spec, spec.name, 0).column_names)


def key_of(spec: PipelineSpec, sink: Sink) -> str:
    """The column that tells a table's rows apart."""
    return str(sink.key) if "events" in sink.rows else span_id(spec)


def positions_beside(table: str) -> str:
    """PostgreSQL's table of positions for a sink's table: in the same schema."""
    return ".".join([*table.split(".")[:-1], POSITIONS_TABLE])
