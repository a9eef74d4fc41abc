"""What the parts of a description must agree on. Each check is a generator of problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from penstock.spec.column_types import is_number
from penstock.spec.names import nearest_or_all, quoted
from penstock.spec.problems import Path, Problem, key
from penstock.spec.sinks import ASIDE
from penstock.spec.sql import TIMES, columns_of

if TYPE_CHECKING:
    from penstock.spec.pipeline import PipelineSpec
    from penstock.spec.sinks import Sink

T = TypeVar("T")

_RENAME = "make one of another name in cleanse.set, and use that"

STATEFUL = ("final", "live", "late")
STAMPS = ("query", "batch", "slot")
"""Columns of every row that leaves."""
RESERVED = ("session_id", "window_id", "start_ms", "end_ms", "kind", "version", *STAMPS)
"""Columns of a row of a session or window, beside its key and its measures."""
INTERNAL = frozenset(
    {
        *("span_id", "key", "is_final", "new_events", "new_spans", "oldest_created_ms"),
        *("partition", "offset", "ts", "reason", "raw"),
    }
)
"""Columns that it has beside those inside the engine (see Told.java)."""


def problems_between(spec: PipelineSpec, *, draft: bool = False) -> Iterator[Problem]:
    """All problems between the parts. A draft lacks its invalid fields: a check ends where it misses one."""
    checks = [_source_columns, _cleanse_columns, _enrichment, _grouping, _measures]
    for check in [*checks, _sinks, _sink_rows, _event_sinks]:
        try:
            yield from check(spec)
        except AttributeError:
            if not draft:
                raise


def _source_columns(spec: PipelineSpec) -> Iterator[Problem]:
    types = {column.name: column.type for column in spec.source.columns}
    times = {name: getattr(spec.source, name, None) for name in ("event_time", "created")}
    for name, column in times.items():
        if column in types and types[column] not in TIMES and column not in spec.cleanse.set:
            yield Problem(
                ("source", name),
                f"expected a long (epoch milliseconds) or timestamp column, but it is {types[column]}",
            )
        elif column is not None:
            yield from _unknown(("source", name), [column], spec.clean_columns())
    yield from _unknown(("source", "key"), [spec.source.key], spec.clean_columns())


def _cleanse_columns(spec: PipelineSpec) -> Iterator[Problem]:
    came = [column.name for column in spec.source.columns]
    known = spec.clean_columns()
    for name, expression in spec.cleanse.set.items():
        here: Path = ("cleanse", "set", name)
        yield from _unknown(here, columns_of(expression), came, named=True)
        if same := [column for column in came if column != name and column.lower() == name.lower()]:
            yield Problem(here, f"is {quoted(same[0])} in another spelling; Spark ignores case")
    for index, column in enumerate(spec.cleanse.require):
        yield from _unknown(("cleanse", "require", index), [column], known)
    for name, condition in spec.cleanse.where.items():
        yield from _unknown_in_sql(spec, ("cleanse", "where", name), condition)
    if spec.cleanse.dedupe is not None:
        yield from _unknown(("cleanse", "dedupe", "on"), [spec.cleanse.dedupe.on], known)
        if spec.grouping is None:
            yield Problem(
                ("cleanse", "dedupe"),
                "needs [sessions] or [windows], whose state remembers the ids;"
                " without, a sink with a key takes a repeated event only once",
            )


def _enrichment(spec: PipelineSpec) -> Iterator[Problem]:
    columns = spec.clean_columns()
    taken: dict[str, Path] = {name.lower(): ("cleanse", "set", name) for name in spec.cleanse.set}
    taken |= {column.name.lower(): ("source", "schema") for column in spec.source.columns}
    names: dict[str, Path] = {}
    for index, table in _having(spec.enrich, "name", "on", "take"):
        here: Path = ("enrich", index)
        yield from _unknown((*here, "on"), [table.on], columns)
        yield from _clash(names, table.name, (*here, "name"))
        if [getattr(table, name, "") for name in ("path", "query")].count(None) != 1:
            yield Problem(here, "expected either a path or a query")
        for place, column in enumerate(table.take):
            yield from _clash(taken, column.lower(), (*here, "take", place))
        for column in getattr(table, "default", ()):
            yield from _unknown((*here, "default", column), [column], table.take, named=True)


def _grouping(spec: PipelineSpec) -> Iterator[Problem]:
    if spec.sessions is not None and spec.windows is not None:
        yield Problem(("windows",), "a pipeline has [sessions] or [windows], not both; make it two pipelines")
    section = "sessions" if spec.sessions is not None else "windows"
    if spec.grouping is not None:
        yield from _unknown((section, "key"), [spec.grouping.key], spec.columns())
        if spec.grouping.key in RESERVED:
            yield Problem((section, "key"), f"is a column of every row; {_RENAME}")
        if spec.grouping.combine and spec.cleanse.dedupe is not None:
            yield Problem(
                (section, "combine"),
                "not with [cleanse.dedupe], for which each event must be known by itself",
            )
    if spec.windows is not None and spec.windows.size.ms % spec.windows.step.ms:
        yield Problem(("windows", "slide"), f"the size, {spec.windows.size}, is not a multiple of it")


def _measures(spec: PipelineSpec) -> Iterator[Problem]:
    if spec.grouping is None:
        return
    section = "sessions" if spec.sessions is not None else "windows"
    reserved = {*RESERVED, *INTERNAL, getattr(spec.grouping, "key", "")}
    types: dict[str, str] = {column.name: column.type for column in spec.source.columns}
    names = {measure.name for measure in spec.grouping.measures}
    for measure in spec.grouping.measures:
        here: Path = (section, "measures", measure.name)
        if measure.name in reserved:
            yield Problem(here, f"{measure.name} is a column of every row; give the measure another name")
        if measure.function == "distinct" and f"{measure.name}_exact" in names:
            yield Problem(here, f"makes the column {measure.name}_exact too, which is another measure's name")
        if measure.expression is None:
            continue
        yield from _unknown_in_sql(spec, here, measure.expression)
        plain = measure.expression not in spec.cleanse.set
        if measure.function == "sum" and plain and not is_number(types.get(measure.expression, "int")):
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
        if sink.kind == "kafka" and sink.topic == getattr(spec.source, "topic", None):
            yield Problem(target, "this is the source's topic: the pipeline would read its own output")


def _sink_rows(spec: PipelineSpec) -> Iterator[Problem]:
    for index, sink in _having(spec.sink, "rows"):
        path: Path = ("sink", index, "rows")
        yield from _rows_together(path, sink)
        missing = [kind for kind in sink.rows if kind in STATEFUL]
        if missing and spec.grouping is None:
            yield Problem(path, f"there are no {' or '.join(missing)} rows without [sessions] or [windows]")
        if "duplicate" in sink.rows and spec.cleanse.dedupe is None:
            yield Problem(path, "there are no duplicate rows without [cleanse.dedupe]")


def _rows_together(path: Path, sink: Sink) -> Iterator[Problem]:
    """Sessions, events and records set aside have no column in common, so no sink holds two of them."""
    rows = sink.rows
    aside = [kind for kind in rows if kind in ASIDE]
    if aside and len(aside) < len(rows):
        yield Problem(path, f"{' and '.join(aside)} rows are set aside: give them a sink of their own")
    elif aside and sink.kind != "kafka":
        yield Problem(path, f"{' and '.join(aside)} rows go to Kafka only, as the bytes that came")
    elif "events" in rows and len(rows) > 1:
        yield Problem(path, "events rows have columns of their own: give them a sink of their own")


def _event_sinks(spec: PipelineSpec) -> Iterator[Problem]:
    for index, sink in _having(spec.sink, "rows", "guarantee", "key", "columns"):
        yield from _event_sink(("sink", index), sink, spec)


def _event_sink(path: Path, sink: Sink, spec: PipelineSpec) -> Iterator[Problem]:
    realtime = sink.kind == "kafka" and getattr(sink, "latency", "batch") == "realtime"
    if "events" in sink.rows:
        if sink.key is None:
            yield Problem((*path, "key"), "required for rows = events: the column that names an event")
        else:
            yield from _unknown((*path, "key"), [sink.key], spec.event_columns(sink))
        for place, column in enumerate(sink.columns):
            yield from _unknown((*path, "columns", place), [column], spec.columns())
        for column in spec.event_columns(sink):
            if column in STAMPS and not realtime:
                yield Problem((*path, "columns"), f"{quoted(column)} is a column of every row; {_RENAME}")
        if realtime and sink.guarantee != "at_least_once":
            yield Problem(
                (*path, "guarantee"),
                "a realtime sink is at_least_once: readers tell a repeated event by its key",
            )
        if realtime and getattr(sink, "writers", 1) > 1:
            yield Problem((*path, "writers"), "a realtime sink is written by the tasks that read the source")
        return
    for name in ("key", "columns"):
        if getattr(sink, name):
            yield Problem((*path, name), "is for rows = events only")
    if getattr(sink, "writers", 1) > 1:
        yield Problem((*path, "writers"), "more than 1 is for rows = events only: the others are few")
    if realtime:
        yield Problem((*path, "latency"), "realtime is for rows = events only")


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
