"""What the parts of a description must agree on. Each check is a generator of problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from penstock.spec.column_types import is_number
from penstock.spec.names import nearest_or_all, quoted
from penstock.spec.problems import Path, Problem, key
from penstock.spec.sql import columns_of

if TYPE_CHECKING:
    from penstock.spec.pipeline import PipelineSpec
    from penstock.spec.sections import Sink

T = TypeVar("T")

SINGLE_RECORDS = ("rejected", "late")
# Columns of every session row, beside its key.
RESERVED = ("session_id", "start_ms", "end_ms", "kind", "version")


def problems_between(spec: PipelineSpec, *, draft: bool = False) -> Iterator[Problem]:
    """All problems between the parts. A draft lacks its invalid fields: a check ends where it misses one."""
    for check in (_source_columns, _cleanse_columns, _enrichment, _session_key, _measures, _sinks):
        try:
            yield from check(spec)
        except AttributeError:
            if not draft:
                raise


def _source_columns(spec: PipelineSpec) -> Iterator[Problem]:
    types = {column.name: column.type for column in spec.source.columns}
    times = {"event_time": getattr(spec.source, "event_time", None), "created": spec.source.created}
    for name, column in times.items():
        if column in types and types[column] != "bigint":
            yield Problem(
                ("source", name), f"expected a long column (epoch milliseconds), but it is {types[column]}"
            )
        elif column is not None:
            yield from _unknown(("source", name), [column], types)
    yield from _unknown(("source", "key"), [spec.source.key], types)


def _cleanse_columns(spec: PipelineSpec) -> Iterator[Problem]:
    known = [column.name for column in spec.source.columns]
    for index, column in enumerate(spec.cleanse.require):
        yield from _unknown(("cleanse", "require", index), [column], known)
    if spec.cleanse.where is not None:
        yield from _unknown_in_sql(spec, ("cleanse", "where"), spec.cleanse.where)


def _enrichment(spec: PipelineSpec) -> Iterator[Problem]:
    columns = [column.name for column in spec.source.columns]
    taken: dict[str, Path] = {name.lower(): ("source", "schema") for name in columns}
    names: dict[str, Path] = {}
    for index, table in _having(spec.enrich, "name", "on", "take"):
        yield from _unknown(("enrich", index, "on"), [table.on], columns)
        yield from _clash(names, table.name, ("enrich", index, "name"))
        for place, column in enumerate(table.take):
            yield from _clash(taken, column.lower(), ("enrich", index, "take", place))


def _session_key(spec: PipelineSpec) -> Iterator[Problem]:
    yield from _unknown(
        ("sessions", "key"), [spec.sessions.key], [column.name for column in spec.source.columns]
    )


def _measures(spec: PipelineSpec) -> Iterator[Problem]:
    reserved = {*RESERVED, getattr(spec.sessions, "key", "")}
    types = {column.name: column.type for column in spec.source.columns}
    for measure in spec.sessions.measures:
        here: Path = ("sessions", "measures", measure.name)
        if measure.name in reserved:
            yield Problem(here, f"{measure.name} is a column of every session; give the measure another name")
        if measure.expression is None:
            continue
        yield from _unknown_in_sql(spec, here, measure.expression)
        if measure.function == "sum" and not is_number(types.get(measure.expression, "int")):
            yield Problem(
                here, f"sum needs a number, but {measure.expression} is {types[measure.expression]}"
            )


def _sinks(spec: PipelineSpec) -> Iterator[Problem]:
    names: dict[str, Path] = {}
    targets: dict[str, Path] = {}
    for index, sink in _having(spec.sink, "name", "target"):
        target: Path = ("sink", index, "topic" if sink.kind == "kafka" else "table")
        same_target = list(_clash(targets, f"{sink.kind} {sink.target}", target))
        yield from same_target or _clash(names, sink.name, ("sink", index, "name"))
        yield from _sink_rows(("sink", index, "rows"), sink)
        if sink.kind == "kafka" and sink.topic == getattr(spec.source, "topic", None):
            yield Problem(target, "this is the source's topic: the pipeline would read its own output")


def _sink_rows(path: Path, sink: Sink) -> Iterator[Problem]:
    """Sessions and single records have no column in common, so no sink holds both."""
    aside = [kind for kind in getattr(sink, "rows", ()) if kind in SINGLE_RECORDS]
    if aside and len(aside) < len(sink.rows):
        yield Problem(path, f"{' and '.join(aside)} rows are single records: give them a sink of their own")
    elif aside and sink.kind != "kafka":
        yield Problem(path, f"{' and '.join(aside)} rows go to Kafka only, as the bytes that came")


def _having(items: tuple[T, ...], *needed: str) -> Iterator[tuple[int, T]]:
    """The items that a check can judge, with their index: in a draft some lack what it needs."""
    return ((index, item) for index, item in enumerate(items) if all(hasattr(item, name) for name in needed))


def _unknown(
    path: Path, columns: Iterable[str], known: Iterable[str], *, named: bool = False
) -> Iterator[Problem]:
    """Columns that do not exist; `named` when the value at the path is more than the column's name."""
    known = list(known)
    for column in columns:
        if column not in known:
            name = f" {quoted(column)}" if named else ""
            yield Problem(path, f"no such column{name}{nearest_or_all(column, known)}")


def _unknown_in_sql(spec: PipelineSpec, path: Path, text: str) -> Iterator[Problem]:
    return _unknown(path, columns_of(text), spec.columns(), named=True)


def _clash(seen: dict[str, Path], name: str, path: Path) -> Iterator[Problem]:
    first = seen.setdefault(name, path)
    if first != path:
        yield Problem(path, f'"{name}" is already used by {key(first)}; choose another')
