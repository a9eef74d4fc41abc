"""Some records as columns, and what is wrong with each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray


class Fate(IntEnum):
    """What a correct pipeline does with a record."""

    OK = 0
    MALFORMED = 1  # the decoder rejects it
    INVALID = 2  # it decodes; cleansing rejects it


class Flaw(IntEnum):
    """What is wrong with a record on the wire."""

    NONE = 0
    TRUNCATED = 1
    NOT_JSON = 2
    BAD_UTF8 = 3
    EMPTY = 4
    WRONG_TYPE = 5
    UNKNOWN_VALUE = 6
    NEGATIVE = 7
    NO_ID = 8


MALFORMED_FLAWS = (Flaw.TRUNCATED, Flaw.NOT_JSON, Flaw.BAD_UTF8, Flaw.EMPTY, Flaw.WRONG_TYPE)
INVALID_FLAWS = (Flaw.UNKNOWN_VALUE, Flaw.NEGATIVE, Flaw.NO_ID)
FATE_OF_FLAW = np.array(
    [
        Fate.MALFORMED if f in MALFORMED_FLAWS else Fate.INVALID if f in INVALID_FLAWS else Fate.OK
        for f in Flaw
    ],
    dtype=np.int8,
)


class Timing(IntEnum):
    """How the event time of a record relates to the moment it was made."""

    PROMPT = 0
    OUT_OF_ORDER = 1
    DELAYED = 2  # behind the clock, inside the allowed lateness: a correction
    LATE = 3  # too old for any session or window
    REPEATED = 4  # the second copy of a prompt event


@dataclass(frozen=True)
class Chunk:
    """Some records in the order they are sent, one array a column; workloads add columns of their own."""

    seq: NDArray[np.int64]
    ts_ms: NDArray[np.int64]
    created_ms: NDArray[np.int64]
    flaw: NDArray[np.int8]
    timing: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.seq)

    def _map(self, change: Callable[[str, NDArray[Any]], NDArray[Any]]) -> Self:
        return type(self)(**{f.name: change(f.name, getattr(self, f.name)) for f in fields(self)})

    def __getitem__(self, rows: slice | NDArray[np.bool_ | np.int64]) -> Self:
        return self._map(lambda _, column: column[rows])

    def __add__(self, other: Self) -> Self:
        return self._map(lambda name, column: np.concatenate([column, getattr(other, name)]))


C = TypeVar("C", bound=Chunk)


class Later(Generic[C]):
    """Records put by, and given back in order once they are `after_ms` old."""

    def __init__(self, after_ms: int) -> None:
        self._after_ms = after_ms
        self._waiting: C | None = None

    def put(self, chunk: C) -> None:
        if len(chunk):
            self._waiting = chunk if self._waiting is None else self._waiting + chunk

    def take(self, n: int, now_ms: int) -> C | None:
        """Those that are due, at most `n`; None when there are none."""
        waiting = self._waiting
        if waiting is None:
            return None
        due = min(n, int(np.searchsorted(waiting.created_ms, now_ms - self._after_ms, side="right")))
        self._waiting = waiting[due:] if due < len(waiting) else None
        return waiting[:due] if due else None
