"""Reference data while a pipeline runs: looked at again from time to time, told of when that fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa

from penstock.engine.reference import Source, Version, row_of_unknown_keys
from penstock.engine.unusable import Unusable
from penstock.errors import SpecError, first_line
from penstock.paths import DataDir
from penstock.spec import Enrich, PipelineSpec


class Reference:
    """One table of a pipeline: its newest version, and whoever takes the next one."""

    def __init__(self, enrich: Enrich, source: Source, say: Callable[[str], None]) -> None:
        self.enrich = enrich
        self.started = False
        self.newest: Version
        self.schema: pa.Schema
        """Of all versions while the pipeline runs: the types are in Spark's plan."""
        self.unknown: pa.Table
        """The row that an unknown key gives."""
        self.loaded: WeakValueDictionary[str, Any] = WeakValueDictionary()
        """Versions in Spark's memory, for all queries of the pipeline."""
        self.stale_since_ms: int | None = None
        """When looking for a new version first failed, if it still does."""
        self._source = source
        self._say = say
        self._seen: object = None
        self._takers: list[Callable[[Version], None]] = []
        self._told: set[str] = set()

    def start(self, kept: Version | None) -> None:
        """Read the first version; what a checkpoint kept will do where reading fails but is tried again."""
        try:
            self._seen = self._source.stamp()
            table = self._source.read()
            self._begin(Version.of(table), table.schema)
        except Unusable as error:
            if kept is None or self.enrich.refresh is None:
                raise self._as_spec_error(error) from error
            try:
                self._begin(kept, kept.table(self.enrich).schema)
            except Unusable:  # it was kept for another spec
                raise self._as_spec_error(error) from error
            self._seen = None
            self._failed(error)

    def _begin(self, version: Version, schema: pa.Schema) -> None:
        self.newest, self.schema = version, schema
        self.unknown = row_of_unknown_keys(self.enrich, schema)
        self.started = True

    def _as_spec_error(self, error: Unusable) -> SpecError:
        given = f'path = "{self.enrich.path}"' if self.enrich.path else "query"
        return SpecError(f"enrich {self.enrich.name}", [f"{given}: {reason}" for reason in error.reasons])

    def offer_to(self, taker: Callable[[Version], None]) -> None:
        """Have every new version taken, in the thread that found it."""
        self._takers.append(taker)

    def look(self) -> None:
        """Look for a new version. A failure leaves the old one, and is told once for each kind of it."""
        try:
            stamp = self._source.stamp()
            if stamp is None or stamp != self._seen:
                self._take(Version.of(self._source.read(self.schema)))
                self._seen = stamp
        except Unusable as error:
            self._failed(error)
        except Exception as error:  # whatever it is, the next look may work
            self._failed(Unusable(type(error).__name__, first_line(error)))
        else:
            self._worked()

    def _take(self, version: Version) -> None:
        if version.id == self.newest.id:
            return
        for taker in self._takers:
            taker(version)
        self.newest = version
        self._say(f"lookup {self.enrich.name}: version {version.id} from the next batch on")

    def _failed(self, error: Unusable) -> None:
        self.stale_since_ms = self.stale_since_ms or time.time_ns() // 1_000_000
        if error.kind not in self._told:
            self._told.add(error.kind)
            still = f"still on version {self.newest.id} of {self.newest.at}"
            self._say(f"lookup {self.enrich.name}: refresh failed, {still}: {error}")

    def _worked(self) -> None:
        if self.stale_since_ms is not None:
            self._say(f"lookup {self.enrich.name}: refresh works again, version {self.newest.id}")
        self.stale_since_ms = None
        self._told.clear()


def references(
    spec: PipelineSpec, data: DataDir, postgres: str, say: Callable[[str], None]
) -> list[Reference]:
    """The tables of a pipeline, none of them read yet."""
    return [Reference(enrich, Source(enrich, data.root, postgres), say) for enrich in spec.enrich]


@contextmanager
def refreshing(tables: Sequence[Reference]) -> Iterator[None]:
    """Look at each table as often as it asks for, on a thread of its own."""
    over = threading.Event()

    def keep_looking(table: Reference, every_s: float) -> None:
        while not over.wait(every_s):
            table.look()

    for table in tables:
        if table.enrich.refresh is not None:
            arguments = (table, table.enrich.refresh.seconds)
            name = f"lookup-{table.enrich.name}"
            threading.Thread(target=keep_looking, args=arguments, name=name, daemon=True).start()
    try:
        yield
    finally:
        over.set()
