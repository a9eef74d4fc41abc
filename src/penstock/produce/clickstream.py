"""The clickstream: visitors of a shop, as columns and as JSON. Pure; the time is an argument.

Joining Arrow columns costs 0.37 us an event in chunks of 1,500, a bytes template in a loop 0.93 us.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.produce.chunk import Chunk, Flaw, Timing
from penstock.produce.oracle import expected_sessions
from penstock.produce.reference import list_prices_cents, product_ids, user_ids, write_reference
from penstock.produce.wire import Message, cents, messages
from penstock.produce.workload import Expected, Records, Workload, name_numbers
from penstock.spec import PipelineSpec

EVENT_TYPES = ("view", "click", "search", "cart", "purchase")
VIEW, CLICK, SEARCH, CART, PURCHASE = range(5)
_TYPE_SHARES = (0.50, 0.25, 0.10, 0.10, 0.05)

_SPOILT = {
    Flaw.BAD_UTF8: (b'"page":"', b'"page":"\xff\xc0'),
    Flaw.WRONG_TYPE: (b'"ts":', b'"ts":"yesterday","was":'),
    Flaw.UNKNOWN_VALUE: (b'"event_type":"', b'"event_type":"un'),
    Flaw.NEGATIVE: (b'"price":', b'"price":-'),
    Flaw.NO_ID: (b'"user_id":', b'"visitor":'),
}
# Fields that no schema names: a decoder has to skip text with escapes, objects and arrays.
_TAILS = pa.array(
    [
        f',"referrer":"{site}","device":{{"os":"{system}","v":[{major},2]}}}}'
        for site in ("news", "search", "mail", 'a \\"friend\\"')
        for system, major in (("ios", 17), ("linux", 6), ("android", 14))
    ]
)
_NOTHING = pa.scalar("")


@dataclass(frozen=True)
class ClickChunk(Chunk):
    """Some clicks in the order they are sent."""

    user: NDArray[np.int32]
    kind: NDArray[np.int8]  # index into EVENT_TYPES, also where the wire says something else
    product: NDArray[np.int32]
    price_cents: NDArray[np.int32]  # 0: no price


@dataclass(frozen=True)
class ClickstreamPlan(Workload[ClickChunk]):
    """Visitors of a shop."""

    name: ClassVar[str] = "clickstream"
    records_are: ClassVar[str] = "clicks"
    results_are: ClassVar[str] = "sessions"
    fields: ClassVar[tuple[str, ...]] = (
        *("event_id", "producer", "seq", "user_id", "event_type"),
        *("product_id", "page", "price", "ts", "created_ms"),
    )
    ledger_columns: ClassVar[Mapping[str, pa.DataType]] = {
        "user": pa.int32(),
        "kind": pa.int8(),
        "product": pa.int32(),
        "price_cents": pa.int32(),
    }

    users: int = 200_000
    products: int = 20_000
    mean_clicks: float = 20
    think_time_ms: int = 1_000

    def problems(self) -> Iterator[str]:
        if self.users < 1 or self.products < 1:
            yield "users and products must be at least 1"
        if self.mean_clicks < 1:
            yield "mean_clicks must be at least 1"
        if self.think_time_ms < 1:
            yield "think_time_ms must be at least 1"
        yield from super().problems()

    def user_names(self) -> pa.Array:
        """The users, and `clock`, one past the pool."""
        return pa.concat_arrays([user_ids(self.users), pa.array(["clock"])])

    def pages(self) -> pa.Array:
        """The page of (event type, product), at `kind * products + product`."""
        numbers = range(self.products)
        pages = [f"/catalogue/{n}" for n in numbers] * 2  # view, click
        pages += [f"/search/{n % 500}" for n in numbers]
        return pa.array(pages + ["/cart"] * self.products + ["/checkout"] * self.products)

    def records(self, producer: str, rate_eps: float) -> Clicks:
        return Clicks(self, producer, rate_eps)

    def encoder(self, producer: str) -> ClickEncoder:
        return ClickEncoder(self, producer)

    def clock_chunk(self, *, ts_ms: int, created_ms: int) -> ClickChunk:
        return ClickChunk(
            seq=np.array([0], np.int64),
            ts_ms=np.array([ts_ms], np.int64),
            created_ms=np.array([created_ms], np.int64),
            flaw=np.array([Flaw.NONE], np.int8),
            timing=np.array([Timing.PROMPT], np.int8),
            user=np.array([self.users], np.int32),
            kind=np.array([VIEW], np.int8),
            product=np.array([0], np.int32),
            price_cents=np.array([0], np.int32),
        )

    def named(self, events: pa.Table, _producer: str) -> dict[str, pa.Array]:
        kind, product, price = (events[name].to_numpy() for name in ("kind", "product", "price_cents"))
        price_cents = pa.array(price, mask=price == 0)
        return {
            "user_id": name_numbers(events["user"], self.user_names()),
            "event_type": name_numbers(events["kind"], pa.array(EVENT_TYPES)),
            "product_id": name_numbers(events["product"], product_ids(self.products)),
            # Plain text: the pages of different kinds repeat, and a dictionary must not.
            "page": self.pages().take(pa.array(kind.astype(np.int32) * self.products + product)),
            "price_cents": price_cents,
            "price": pc.divide(price_cents.cast(pa.float64()), 100.0),
        }

    def expected(self, spec: PipelineSpec, events: pa.Table, clock_ms: int) -> dict[str, Expected]:
        if spec.sessions is None:
            return {}
        gap_ms, length = spec.sessions.gap.ms, spec.sessions.max_length
        every = expected_sessions(events, gap_ms, length_ms=length.ms if length else 0)
        final = every.filter(pc.less_equal(pc.add(every["end_ms"], gap_ms), clock_ms))
        return {
            "final": Expected(final, "session_id", weight="events"),
            "live": Expected(every, "session_id", weight="events"),
        }

    def write_reference(self, directory: Path) -> None:
        write_reference(directory, users=self.users, products=self.products, seed=self.seed)


class Clicks(Records[ClickChunk]):
    """A set of users is active at a time, each clicks about every think time.

    They leave after `mean_clicks` clicks (geometric); the next of the pool takes the place.
    """

    def __init__(self, plan: ClickstreamPlan, producer: str, rate_eps: float) -> None:
        super().__init__(plan, producer)
        self._plan = plan
        self._prices = list_prices_cents(plan.products, plan.seed)
        self._type_bounds = np.cumsum(_TYPE_SHARES)[:-1]
        self._pool = self._rng.permutation(plan.users).astype(np.int32)
        active = min(plan.users, max(1, round(rate_eps * plan.think_time_ms / 1000)))
        self._active = self._pool[:active].copy()
        self._next_in_pool = active

    def _fresh(self, n: int, now_ms: int) -> ClickChunk:
        rng, drawn = self._rng, self._drawn(n, now_ms)
        kind = np.searchsorted(self._type_bounds, rng.random(n), side="right").astype(np.int8)
        product = (self._plan.products * rng.random(n) ** 2).astype(np.int32)  # low numbers are popular
        negative = drawn["flaw"] == Flaw.NEGATIVE
        kind[negative] = CART
        price = np.where(kind >= CART, self._prices[product], np.int32(0))
        price[negative] *= -1
        return ClickChunk(
            **drawn, user=self._clicking_users(n), kind=kind, product=product, price_cents=price
        )

    def _clicking_users(self, n: int) -> NDArray[np.int32]:
        places = self._rng.integers(0, len(self._active), n)
        users = self._active[places]
        leaving = places[self._rng.random(n) < 1 / self._plan.mean_clicks]
        newcomers = np.arange(self._next_in_pool, self._next_in_pool + len(leaving)) % len(self._pool)
        self._active[leaving] = self._pool[newcomers]
        self._next_in_pool += len(leaving)
        return users


class ClickEncoder:
    """Encodes the chunks of one producer from tables made once for its plan."""

    def __init__(self, plan: ClickstreamPlan, producer: str) -> None:
        self._products = plan.products
        self._user_names = plan.user_names()
        self._keys = np.array([name.encode() for name in self._user_names.to_pylist()], dtype=object)
        self._middles = _middles(plan)
        self._head = pa.scalar(f'{{"event_id":"{producer}-')
        self._producer = pa.scalar(f'","producer":"{producer}","seq":')

    def encode(self, chunk: ClickChunk) -> list[Message]:
        seq = pc.cast(pa.array(chunk.seq), pa.string())
        middle = chunk.kind.astype(np.int32) * self._products + chunk.product
        values = pc.binary_join_element_wise(
            self._head,
            seq,
            self._producer,
            seq,
            pa.scalar(',"user_id":"'),
            self._user_names.take(pa.array(chunk.user)),
            self._middles.take(pa.array(middle)),
            pc.cast(pa.array(chunk.ts_ms), pa.string()),
            pa.scalar(',"created_ms":'),
            pc.cast(pa.array(chunk.created_ms), pa.string()),
            _TAILS.take(pa.array(chunk.seq % len(_TAILS))),
            _NOTHING,
        )
        return messages(chunk, self._keys[chunk.user].tolist(), values, _SPOILT)


def _middles(plan: ClickstreamPlan) -> pa.Array:
    """The text from user_id's closing quote to the event time, at `kind * products + product`."""
    products = product_ids(plan.products).to_pylist()
    prices = [cents(price) for price in list_prices_cents(plan.products, plan.seed).tolist()]
    pages = iter(plan.pages().to_pylist())
    texts = []
    for kind, name in enumerate(EVENT_TYPES):
        for product, price in zip(products, prices, strict=True):
            # Views say null and the other unpriced events say nothing: both must decode to no price.
            priced = f'"price":{price},' if kind >= CART else '"price":null,' if kind == VIEW else ""
            texts.append(
                f'","event_type":"{name}","product_id":"{product}","page":"{next(pages)}",{priced}"ts":'
            )
    return pa.array(texts)
