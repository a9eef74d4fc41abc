"""What a workload is: records for one shipped pipeline, drawn from a seed, and what must become of them."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.errors import PenstockError
from penstock.produce.chunk import INVALID_FLAWS, MALFORMED_FLAWS, C, Chunk, Later, Timing
from penstock.produce.wire import Message
from penstock.spec import PipelineSpec

OUT_OF_ORDER_MAX_MS = 2_000
DELAYED_MIN_MS = 4_000
REPEAT_AFTER_MS = 300  # long enough that the copy often lands in another micro-batch

C_contra = TypeVar("C_contra", bound=Chunk, contravariant=True)


class Encoder(Protocol[C_contra]):
    """Makes messages of the chunks of one producer."""

    def encode(self, chunk: C_contra) -> list[Message]: ...


@dataclass(frozen=True)
class Expected:
    """What a sink must hold once all is through: one row for each key."""

    rows: pa.Table
    key: str
    weight: str | None = None
    """The column with the number of records in a row; without one a row counts as one."""


@dataclass(frozen=True)
class Workload(ABC, Generic[C]):
    """A plan: all that decides the records but the rate and the time. Shares are of all fresh records.

    Every record has a producer and a sequence number in its JSON, by which the audit knows it.
    """

    name: ClassVar[str]
    """Of the pipeline that it is made for."""
    records_are: ClassVar[str]
    results_are: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]
    """What a schema may name; there is more on the wire, for decoders to skip."""
    ledger_columns: ClassVar[Mapping[str, pa.DataType]]
    """The chunk's own columns: what the oracle needs, as numbers."""

    seed: int = 7
    malformed: float = 0.005
    invalid: float = 0.002
    out_of_order: float = 0.05
    delayed: float = 0.002
    delayed_max_ms: int = 90_000  # inside 3 s out of order + 2 minutes of lateness
    late: float = 0.001
    late_min_ms: int = 2_700_000  # beyond a 30-minute gap + 2 minutes of lateness, with room to spare
    duplicate: float = 0.002

    def __post_init__(self) -> None:
        if problems := list(self.problems()):
            raise PenstockError(f"not a possible {self.name}: {self}", hint="; ".join(problems) + ".")

    def problems(self) -> Iterator[str]:
        """What makes the plan impossible."""
        if min(self.shares) < 0 or sum(self.shares) > 1:
            yield "shares must be >= 0 and at most 1 in all"
        if self.delayed_max_ms < DELAYED_MIN_MS:
            yield f"delayed_max_ms must be at least {DELAYED_MIN_MS}"
        if self.late_min_ms < self.delayed_max_ms:
            yield "late_min_ms must not be under delayed_max_ms"

    @property
    def shares(self) -> tuple[float, ...]:
        return (self.malformed, self.invalid, self.out_of_order, self.delayed, self.late, self.duplicate)

    @classmethod
    def fitting(cls, spec: PipelineSpec, seed: int) -> Self:
        """Records whose delays fit the pipeline's idea of late."""
        grouping = spec.grouping
        if grouping is None:
            return cls(seed=seed)
        allowed_ms = span_ms(spec) + grouping.lateness.ms + grouping.out_of_order.ms
        delayed_max_ms = max(DELAYED_MIN_MS, grouping.lateness.ms)
        return cls(seed=seed, delayed_max_ms=delayed_max_ms, late_min_ms=2 * allowed_ms)

    def flawless(self) -> Self:
        """The same records, all of them good, in time, and sent once."""
        return replace(self, malformed=0, invalid=0, out_of_order=0, delayed=0, late=0, duplicate=0)

    @abstractmethod
    def records(self, producer: str, rate_eps: float) -> Records[C]:
        """An endless stream of records."""

    @abstractmethod
    def encoder(self, producer: str) -> Encoder[C]: ...

    def clock_chunk(self, *, ts_ms: int, created_ms: int) -> C:  # noqa: ARG002  (not here)
        """One good event by a key of its own, with no other purpose than to move event time on."""
        raise PenstockError(f"{self.name} has no sessions or windows that a clock could close")

    @abstractmethod
    def named(self, events: pa.Table, producer: str) -> dict[str, pa.Array]:
        """The ledger's own columns with names for numbers."""

    @abstractmethod
    def expected(self, spec: PipelineSpec, events: pa.Table, clock_ms: int) -> dict[str, Expected]:
        """What sinks must hold of the good events, by the kind of rows they take; see oracle.py."""

    def write_reference(self, directory: Path) -> None:
        """Write the reference data that the records point at."""


class Records(ABC, Generic[C]):
    """An endless stream of records: the same (n, now_ms) sequence gives the same records."""

    def __init__(self, plan: Workload[C], producer: str) -> None:
        self._rng = np.random.default_rng([plan.seed, zlib.crc32(producer.encode())])
        self._lot_bounds = np.cumsum(plan.shares)
        self._timing_bounds_ms = (
            (2, Timing.OUT_OF_ORDER, 1, OUT_OF_ORDER_MAX_MS),
            (3, Timing.DELAYED, DELAYED_MIN_MS, plan.delayed_max_ms),
            (4, Timing.LATE, plan.late_min_ms, 2 * plan.late_min_ms),
            (5, Timing.REPEATED, 0, 0),
        )
        self._next_seq = 0
        self._copies = Later[C](REPEAT_AFTER_MS)

    def chunk(self, n: int, now_ms: int) -> C:
        """The next `n` records, made at `now_ms`; copies that are due come first."""
        copies = self._copies.take(n, now_ms)
        fresh = self._fresh(n - (len(copies) if copies else 0), now_ms)
        to_repeat = fresh.timing == Timing.REPEATED
        if to_repeat.any():
            self._copies.put(fresh[to_repeat])
            fresh.timing[to_repeat] = Timing.PROMPT
        return copies + fresh if copies else fresh

    @abstractmethod
    def _fresh(self, n: int, now_ms: int) -> C:
        """`n` new records; those marked REPEATED are to be sent a second time."""

    def _drawn(self, n: int, now_ms: int) -> dict[str, Any]:
        """The columns that all chunks have."""
        lot = np.searchsorted(self._lot_bounds, self._rng.random(n), side="right")
        timing, back_ms = self._timings(lot)
        self._next_seq += n
        return {
            "seq": np.arange(self._next_seq - n, self._next_seq, dtype=np.int64),
            "ts_ms": now_ms - back_ms,
            "created_ms": np.full(n, now_ms, dtype=np.int64),
            "flaw": self._flaws(lot),
            "timing": timing,
        }

    def _flaws(self, lot: NDArray[np.intp]) -> NDArray[np.int8]:
        flaw = np.zeros(len(lot), dtype=np.int8)
        for number, flaws in enumerate((MALFORMED_FLAWS, INVALID_FLAWS)):
            rows = np.flatnonzero(lot == number)
            flaw[rows] = self._rng.choice(np.array(flaws, dtype=np.int8), len(rows))
        return flaw

    def _timings(self, lot: NDArray[np.intp]) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        timing = np.zeros(len(lot), dtype=np.int8)
        back_ms = np.zeros(len(lot), dtype=np.int64)
        for number, kind, low, high in self._timing_bounds_ms:
            rows = np.flatnonzero(lot == number)
            timing[rows] = kind
            back_ms[rows] = self._rng.integers(low, high, len(rows), endpoint=True)
        return timing, back_ms


def span_ms(spec: PipelineSpec) -> int:
    """How long after an event the session or window that it is in can end."""
    span = spec.sessions.gap if spec.sessions else spec.windows.size if spec.windows else None
    return span.ms if span else 0


def name_numbers(numbers: pa.ChunkedArray, names: pa.Array) -> pa.Array:
    """Names for numbers, each name held once."""
    return pa.DictionaryArray.from_arrays(numbers.combine_chunks(), names)
