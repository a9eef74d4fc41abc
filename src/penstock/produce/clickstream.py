"""Clicks as columns: who clicks what and when, drawn from a seed. Pure; the time is an argument."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.errors import PenstockError
from penstock.produce.reference import list_prices_cents, user_ids

FIELDS = (
    "event_id",
    "producer",
    "seq",
    "user_id",
    "event_type",
    "product_id",
    "page",
    "price",
    "ts",
    "created_ms",
)  # what a schema may name; there is more on the wire, for decoders to skip
EVENT_TYPES = ("view", "click", "search", "cart", "purchase")
VIEW, CLICK, SEARCH, CART, PURCHASE = range(5)
_TYPE_SHARES = (0.50, 0.25, 0.10, 0.10, 0.05)

OUT_OF_ORDER_MAX_MS = 2_000
DELAYED_MIN_MS = 4_000
REPEAT_AFTER_MS = 300  # long enough that the copy often lands in another micro-batch


class Fate(IntEnum):
    """What a correct pipeline does with a record."""

    OK = 0
    MALFORMED = 1  # the decoder rejects it
    INVALID = 2  # it decodes; cleansing rejects it


class Flaw(IntEnum):
    """What is wrong with a record on the wire."""

    NONE = 0
    TRUNCATED = 1
    TEXT_FOR_TS = 2
    NOT_JSON = 3
    BAD_UTF8 = 4
    EMPTY = 5
    UNKNOWN_TYPE = 6
    NEGATIVE_PRICE = 7
    NO_USER = 8


MALFORMED_FLAWS = (Flaw.TRUNCATED, Flaw.TEXT_FOR_TS, Flaw.NOT_JSON, Flaw.BAD_UTF8, Flaw.EMPTY)
INVALID_FLAWS = (Flaw.UNKNOWN_TYPE, Flaw.NEGATIVE_PRICE, Flaw.NO_USER)
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
    LATE = 3  # too old for any session
    REPEATED = 4  # the second copy of a prompt event


@dataclass(frozen=True)
class ClickstreamPlan:
    """Everything that decides the clicks but the rate and the time. Shares are of all fresh events."""

    seed: int = 7
    users: int = 200_000
    products: int = 20_000
    mean_clicks: float = 20
    think_time_ms: int = 1_000
    malformed: float = 0.005
    invalid: float = 0.002
    out_of_order: float = 0.05
    delayed: float = 0.002
    delayed_max_ms: int = 90_000  # inside 3 s out of order + 2 minutes of lateness
    late: float = 0.001
    late_min_ms: int = 2_700_000  # beyond a 30-minute gap + 2 minutes of lateness, with room to spare
    duplicate: float = 0.002

    def __post_init__(self) -> None:
        problems = [
            text
            for wrong, text in (
                (self.users < 1 or self.products < 1, "users and products must be at least 1"),
                (self.mean_clicks < 1, "mean_clicks must be at least 1"),
                (self.think_time_ms < 1, "think_time_ms must be at least 1"),
                (min(self._shares) < 0 or sum(self._shares) > 1, "shares must be >= 0 and at most 1 in all"),
                (self.delayed_max_ms < DELAYED_MIN_MS, f"delayed_max_ms must be at least {DELAYED_MIN_MS}"),
                (self.late_min_ms < self.delayed_max_ms, "late_min_ms must not be under delayed_max_ms"),
            )
            if wrong
        ]
        if problems:
            raise PenstockError(f"not a possible clickstream: {self}", hint="; ".join(problems) + ".")

    @property
    def _shares(self) -> tuple[float, ...]:
        return (self.malformed, self.invalid, self.out_of_order, self.delayed, self.late, self.duplicate)

    @property
    def clock_user(self) -> int:
        """The number of the reserved user `clock`, one past the pool."""
        return self.users

    def user_names(self) -> pa.Array:
        return pa.concat_arrays([user_ids(self.users), pa.array(["clock"])])

    def pages(self) -> pa.Array:
        """The page of (event type, product), at `kind * products + product`."""
        numbers = range(self.products)
        pages = [f"/catalogue/{n}" for n in numbers] * 2  # view, click
        pages += [f"/search/{n % 500}" for n in numbers]
        return pa.array(pages + ["/cart"] * self.products + ["/checkout"] * self.products)


@dataclass(frozen=True)
class Chunk:
    """Some records in the order they are sent, one array a column."""

    seq: NDArray[np.int64]
    user: NDArray[np.int32]
    kind: NDArray[np.int8]  # index into EVENT_TYPES, also where the wire says something else
    product: NDArray[np.int32]
    price_cents: NDArray[np.int32]  # 0: no price
    ts_ms: NDArray[np.int64]
    created_ms: NDArray[np.int64]
    flaw: NDArray[np.int8]
    timing: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.seq)

    def _map(self, change: Callable[[str, NDArray[np.generic]], NDArray[np.generic]]) -> Chunk:
        return Chunk(*(change(f.name, getattr(self, f.name)) for f in fields(self)))  # type: ignore[arg-type]

    def __getitem__(self, rows: slice | NDArray[np.bool_ | np.int64]) -> Chunk:
        return self._map(lambda _, column: column[rows])

    def __add__(self, other: Chunk) -> Chunk:
        return self._map(lambda name, column: np.concatenate([column, getattr(other, name)]))


class Clicks:
    """An endless clickstream: the same (n, now_ms) sequence gives the same records.

    A set of users is active at a time, each clicks about every think time and leaves after
    `mean_clicks` clicks (geometric); the next of the pool takes the place.
    """

    def __init__(self, plan: ClickstreamPlan, producer: str, rate_eps: float) -> None:
        self._plan = plan
        self._rng = np.random.default_rng([plan.seed, zlib.crc32(producer.encode())])
        self._prices = list_prices_cents(plan.products, plan.seed)
        self._type_bounds = np.cumsum(_TYPE_SHARES)[:-1]
        self._lot_bounds = np.cumsum(plan._shares)
        self._pool = self._rng.permutation(plan.users).astype(np.int32)
        active = min(plan.users, max(1, round(rate_eps * plan.think_time_ms / 1000)))
        self._active = self._pool[:active].copy()
        self._next_in_pool = active
        self._next_seq = 0
        self._repeats = self._fresh(0, 0)

    def chunk(self, n: int, now_ms: int) -> Chunk:
        """The next `n` records, made at `now_ms`; copies that are due come first."""
        due = int(np.searchsorted(self._repeats.created_ms, now_ms - REPEAT_AFTER_MS, side="right"))
        repeated, self._repeats = self._repeats[: min(due, n)], self._repeats[min(due, n) :]
        fresh = self._fresh(n - len(repeated), now_ms)
        to_repeat = fresh.timing == Timing.REPEATED
        if to_repeat.any():
            self._repeats += fresh[to_repeat]
            fresh.timing[to_repeat] = Timing.PROMPT
        return repeated + fresh if len(repeated) else fresh

    def _fresh(self, n: int, now_ms: int) -> Chunk:
        """`n` new events; those marked REPEATED are to be sent a second time."""
        rng, plan = self._rng, self._plan
        lot = np.searchsorted(self._lot_bounds, rng.random(n), side="right")
        kind = np.searchsorted(self._type_bounds, rng.random(n), side="right").astype(np.int8)
        product = (plan.products * rng.random(n) ** 2).astype(np.int32)  # low numbers are popular
        flaw = self._flaws(lot)
        kind[flaw == Flaw.NEGATIVE_PRICE] = CART
        price = np.where(kind >= CART, self._prices[product], np.int32(0))
        price[flaw == Flaw.NEGATIVE_PRICE] *= -1
        timing, back_ms = self._timings(lot)
        self._next_seq += n
        return Chunk(
            seq=np.arange(self._next_seq - n, self._next_seq, dtype=np.int64),
            user=self._clicking_users(n),
            kind=kind,
            product=product,
            price_cents=price,
            ts_ms=now_ms - back_ms,
            created_ms=np.full(n, now_ms, dtype=np.int64),
            flaw=flaw,
            timing=timing,
        )

    def _clicking_users(self, n: int) -> NDArray[np.int32]:
        places = self._rng.integers(0, len(self._active), n)
        users = self._active[places]
        leaving = places[self._rng.random(n) < 1 / self._plan.mean_clicks]
        newcomers = np.arange(self._next_in_pool, self._next_in_pool + len(leaving)) % len(self._pool)
        self._active[leaving] = self._pool[newcomers]
        self._next_in_pool += len(leaving)
        return users

    def _flaws(self, lot: NDArray[np.intp]) -> NDArray[np.int8]:
        flaw = np.zeros(len(lot), dtype=np.int8)
        for number, flaws in enumerate((MALFORMED_FLAWS, INVALID_FLAWS)):
            rows = np.flatnonzero(lot == number)
            flaw[rows] = self._rng.choice(np.array(flaws, dtype=np.int8), len(rows))
        return flaw

    def _timings(self, lot: NDArray[np.intp]) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        plan = self._plan
        timing = np.zeros(len(lot), dtype=np.int8)
        back_ms = np.zeros(len(lot), dtype=np.int64)
        for number, kind, low, high in (
            (2, Timing.OUT_OF_ORDER, 1, OUT_OF_ORDER_MAX_MS),
            (3, Timing.DELAYED, DELAYED_MIN_MS, plan.delayed_max_ms),
            (4, Timing.LATE, plan.late_min_ms, 2 * plan.late_min_ms),
            (5, Timing.REPEATED, 0, 0),
        ):
            rows = np.flatnonzero(lot == number)
            timing[rows] = kind
            back_ms[rows] = self._rng.integers(low, high, len(rows), endpoint=True)
        return timing, back_ms


def clock_chunk(plan: ClickstreamPlan, *, ts_ms: int, created_ms: int) -> Chunk:
    """One valid view by the user `clock`, who has no other purpose than to move event time on."""
    return Chunk(
        seq=np.array([0], np.int64),
        user=np.array([plan.clock_user], np.int32),
        kind=np.array([VIEW], np.int8),
        product=np.array([0], np.int32),
        price_cents=np.array([0], np.int32),
        ts_ms=np.array([ts_ms], np.int64),
        created_ms=np.array([created_ms], np.int64),
        flaw=np.array([Flaw.NONE], np.int8),
        timing=np.array([Timing.PROMPT], np.int8),
    )
