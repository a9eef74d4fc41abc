"""Reference data beside each event: by the kernel's lookup, or by a join."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.checkpoint import Checkpoint
from penstock.engine.reference import KEY, Source, Version
from penstock.engine.refresh import Reference
from penstock.engine.unusable import Unusable
from penstock.engine.versions import Versions
from penstock.paths import DataDir
from penstock.spec import PipelineSpec


@dataclass
class _Lookup:
    """One table of a query."""

    reference: Reference
    function: Any
    """The kernel's, as the query's plan has it."""
    newest: Version
    """What a batch that has not run before gets."""
    used: str
    """The version that the function stands at."""
    table: Any
    """The newest version in Spark's memory; held here so that it stays there."""


class Lookups:
    """The reference tables of one query, each at the version that the batch at hand uses."""

    def __init__(
        self,
        spark: SparkSession,
        tables: Sequence[Reference],
        checkpoint: Checkpoint,
        say: Callable[[str], None],
        *,
        at_once: bool = False,
    ) -> None:
        """With `at_once` a new version is used as soon as it is there, and none is tied to a batch."""
        self._spark = spark
        self._at_once = at_once
        self._query = checkpoint.path.name
        self._versions = Versions(checkpoint.path)
        self._may_have_run = checkpoint.last_planned()
        """The newest batch that may have run before, with versions that are written down."""
        self._say = say
        self._lock = threading.Lock()
        self._lookups = {reference.enrich.name: self._open(reference) for reference in tables}

    def _open(self, reference: Reference) -> _Lookup:
        name = reference.enrich.name
        if not reference.started:
            last = self._versions.last(name)
            reference.start(self._versions.read(name, last) if last else None)
        version = reference.newest
        self._versions.keep(name, version)
        self._versions.sweep(name, version.id)
        table = self._load(reference, version)
        functions = self._spark._jvm.penstock.kernel.Functions  # type: ignore[union-attr]
        function = functions.lookup(f"{self._query}-{name}", table)
        reference.offer_to(partial(self._take, name))
        return _Lookup(reference, function, version, version.id, table)

    def enrich(self, events: DataFrame) -> DataFrame:
        """Add the columns that each lookup takes; the defaults where the key is null or unknown."""
        for name, lookup in self._lookups.items():
            enrich = lookup.reference.enrich
            call = f"penstock.lookup.`{self._query}-{name}`(CAST(`{enrich.on}` AS string))"
            taken = [F.col(f"_found.`{column}`").alias(column) for column in enrich.take]
            columns = [F.col(f"`{column}`") for column in events.columns]
            events = events.select(*columns, F.expr(call).alias("_found")).select(*columns, *taken)
        return events

    def before(self, batch: int) -> dict[str, str]:
        """Make the tables ready for a batch, before its tasks run; the version of each.

        A batch that may have run before gets what it had then, any other the newest. It is written down
        before the batch can use it.
        """
        with self._lock:
            chosen = {name: self._choose(name, batch) for name in self._lookups}
            ids = {name: version.id for name, version in chosen.items()}
            self._versions.begin(batch, ids)
            self._may_have_run = max(self._may_have_run, batch)
            for name, version in chosen.items():
                lookup = self._lookups[name]
                if version.id != lookup.used:
                    lookup.function.use(self._load(lookup.reference, version))
                    lookup.used = version.id
            return ids

    def stale_since_ms(self) -> dict[str, int]:
        """The tables of which no new version can be read, and since when."""
        stale = {name: lookup.reference.stale_since_ms for name, lookup in self._lookups.items()}
        return {name: since_ms for name, since_ms in stale.items() if since_ms is not None}

    def _choose(self, name: str, batch: int) -> Version:
        lookup = self._lookups[name]
        had = self._versions.used(name, batch) if batch <= self._may_have_run else None
        if had is None or had == lookup.newest.id:
            return lookup.newest
        kept = self._versions.read(name, had)
        try:
            if kept is None:
                raise Unusable("gone", "it is not in the checkpoint")
            kept.table(lookup.reference.enrich, lookup.reference.schema)
            return kept
        except Unusable as error:
            self._say(f"lookup {name}: batch {batch} had version {had}, gets {lookup.newest.id} now: {error}")
            return lookup.newest

    def _take(self, name: str, version: Version) -> None:
        """A new version, in the thread that found it: all that takes time is done here, not in a batch."""
        lookup = self._lookups[name]
        self._versions.keep(name, version)
        table = self._load(lookup.reference, version)
        with self._lock:
            lookup.newest, lookup.table = version, table
            if self._at_once:
                lookup.function.use(table)
                lookup.used = version.id
            self._versions.sweep(name, version.id)

    def _load(self, reference: Reference, version: Version) -> Any:
        """A version as the kernel has it, broadcast; Spark forgets it when nobody holds it any more."""
        loaded = reference.loaded.get(version.id)
        if loaded is None:
            rows = version.table(reference.enrich, reference.schema)
            loaded = reference.loaded[version.id] = _broadcast(self._spark, reference.unknown, rows)
        return loaded


def _broadcast(spark: SparkSession, unknown: pa.Table, rows: pa.Table) -> Any:
    with TemporaryDirectory(prefix="penstock-lookup-") as directory:
        path = Path(directory) / "rows.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, unknown.schema) as stream:
            for part in (unknown, rows):
                stream.write_table(part, max_chunksize=50_000)
        context = spark._jsc
        return spark._jvm.penstock.kernel.LookupTable.load(context, str(path))  # type: ignore[union-attr]


def join(
    spark: SparkSession, events: DataFrame, spec: PipelineSpec, data: DataDir, postgres: str
) -> DataFrame:
    """What Lookups.enrich does, by Spark's own joins; read once, never refreshed."""
    for enrich in spec.enrich:
        table = Reference(enrich, Source(enrich, data.root, postgres), lambda _: None)
        table.start(None)
        rows = spark.createDataFrame(table.newest.table(enrich, table.schema))
        matching = F.col(f"`{enrich.on}`").cast("string") == F.col(KEY)
        columns = [F.col(f"`{name}`") for name in events.columns]
        taken = []
        for name in enrich.take:
            default = F.lit(table.unknown.column(name)[0].as_py()).cast(rows.schema[name].dataType)
            taken.append(F.when(F.col(KEY).isNull(), default).otherwise(F.col(f"`{name}`")).alias(name))
        events = events.join(F.broadcast(rows), matching, "left").select(*columns, *taken)
    return events
