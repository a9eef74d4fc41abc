"""Payments: nested JSON, some sent twice, some authorised first and captured later under the same id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.produce.chunk import Chunk, Flaw, Later
from penstock.produce.oracle import newest_by_id
from penstock.produce.reference import COUNTRIES, list_prices_cents
from penstock.produce.wire import Message, cents, messages
from penstock.produce.workload import Expected, Records, Workload, name_numbers
from penstock.spec import PipelineSpec

STATES = ("authorised", "captured")
AUTHORISED, CAPTURED = range(2)
CURRENCIES = ("EUR", "GBP", "PLN", "SEK", "USD")
CAPTURE_AFTER_MS = 600  # behind the copy of a repeated authorisation, so that no copy undoes a capture

_WRITTEN_CURRENCIES = (*CURRENCIES, *(name.lower() for name in CURRENCIES))
_METHODS = (
    *(("card", f"{number * 677 % 10_000:04d}") for number in range(40)),
    ("transfer", None),
    ("wallet", None),
)
_CHANNELS = ("web", "app", "shop", None)
_SKUS = 1_000
_SPOILT = {
    Flaw.BAD_UTF8: (b'"country":"', b'"country":"\xff\xc0'),
    Flaw.WRONG_TYPE: (b'"amount":', b'"amount":"1.00","was":'),
    Flaw.UNKNOWN_VALUE: (b'"currency":"', b'"currency":"X'),
    Flaw.NEGATIVE: (b'"amount":', b'"amount":-'),
    Flaw.NO_ID: (b'"transaction_id":', b'"reference":'),
}


@dataclass(frozen=True)
class PaymentChunk(Chunk):
    """Some payments in the order they are sent."""

    number: NDArray[np.int64]  # of the transaction: the same for its authorisation and its capture
    state: NDArray[np.int8]
    basket: NDArray[np.int32]
    customer: NDArray[np.int32]
    currency: NDArray[np.int8]  # index into _WRITTEN_CURRENCIES
    method: NDArray[np.int8]
    channel: NDArray[np.int8]


@dataclass(frozen=True)
class Baskets:
    """What customers buy, by the number of the basket."""

    amount_cents: NDArray[np.int64]
    item_count: NDArray[np.int32]
    first_sku: pa.Array
    items: pa.Array
    """As JSON."""


@dataclass(frozen=True)
class TransactionsPlan(Workload[PaymentChunk]):
    """Payments of a shop, upserted by their id: the last record of an id stands."""

    name: ClassVar[str] = "transactions"
    records_are: ClassVar[str] = "payments"
    results_are: ClassVar[str] = "transactions"
    fields: ClassVar[tuple[str, ...]] = (
        *("transaction_id", "producer", "seq", "state", "customer", "payment", "items", "tags"),
        *("ts", "created_ms"),
    )
    ledger_columns: ClassVar[Mapping[str, pa.DataType]] = {
        "number": pa.int64(),
        "state": pa.int8(),
        "basket": pa.int32(),
        "customer": pa.int32(),
        "currency": pa.int8(),
        "method": pa.int8(),
        "channel": pa.int8(),
    }

    delayed: float = 0.0
    late: float = 0.0
    duplicate: float = 0.02
    captured: float = 0.3
    customers: int = 20_000
    baskets: int = 5_000

    def problems(self) -> Iterator[str]:
        if self.customers < 1 or self.baskets < 1:
            yield "customers and baskets must be at least 1"
        if not 0 <= self.captured <= 1:
            yield "captured must be a share"
        yield from super().problems()

    def countries(self) -> NDArray[np.int64]:
        """The country of each customer, as an index into COUNTRIES."""
        return np.arange(self.customers) * 7 % len(COUNTRIES)

    def contents(self) -> Baskets:
        rng = np.random.default_rng([self.seed, 4])
        prices = list_prices_cents(_SKUS, self.seed)
        count = rng.integers(1, 6, self.baskets)
        skus, quantities = rng.integers(0, _SKUS, (self.baskets, 5)), rng.integers(1, 5, (self.baskets, 5))
        bought = np.arange(5) < count[:, None]
        texts = [
            "["
            + ",".join(_item(s, q, int(prices[s])) for s, q in zip(sku[:n], quantity[:n], strict=True))
            + "]"
            for sku, quantity, n in zip(skus.tolist(), quantities.tolist(), count.tolist(), strict=True)
        ]
        return Baskets(
            amount_cents=np.where(bought, prices[skus].astype(np.int64) * quantities, 0).sum(axis=1),
            item_count=count.astype(np.int32),
            first_sku=pa.array([f"s{sku:05d}" for sku in skus[:, 0].tolist()]),
            items=pa.array(texts),
        )

    def records(self, producer: str, _rate_eps: float) -> Payments:
        return Payments(self, producer)

    def encoder(self, producer: str) -> PaymentEncoder:
        return PaymentEncoder(self, producer)

    def named(self, events: pa.Table, producer: str) -> dict[str, pa.Array]:
        basket, customer = (pa.array(events[name].to_numpy()) for name in ("basket", "customer"))
        method, channel = (events[name].combine_chunks() for name in ("method", "channel"))
        currency = pa.array(events["currency"].to_numpy() % len(CURRENCIES))
        baskets = self.contents()
        return {
            "transaction_id": _ids(producer, events["number"]),
            "state": name_numbers(events["state"], pa.array(STATES)),
            "amount": _decimals(baskets.amount_cents[basket.to_numpy()]),
            "currency": pa.array(CURRENCIES).take(currency),
            "method": pa.array([kind for kind, _ in _METHODS]).take(method),
            "last4": pa.array([last4 for _, last4 in _METHODS], pa.string()).take(method),
            "customer_id": _customer_ids(self).take(customer),
            "country": pa.array(COUNTRIES).take(pa.array(self.countries()[customer.to_numpy()])),
            "item_count": pa.array(baskets.item_count).take(basket),
            "first_sku": baskets.first_sku.take(basket),
            "channel": pa.array(_CHANNELS, pa.string()).take(channel),
        }

    def expected(self, _spec: PipelineSpec, events: pa.Table, _clock_ms: int) -> dict[str, Expected]:
        newest = newest_by_id(events, "transaction_id")
        columns = {
            name: newest[name].cast(pa.string())
            if pa.types.is_dictionary(newest[name].type)
            else newest[name]
            for name in _COMPARED
        }
        ts = newest["ts_ms"].cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
        return {"events": Expected(pa.table({**columns, "ts": ts}), "transaction_id")}


_COMPARED = (
    *("transaction_id", "state", "amount", "currency", "method", "last4", "customer_id", "country"),
    *("item_count", "first_sku", "channel", "created_ms"),
)


class Payments(Records[PaymentChunk]):
    """New payments, and the captures of earlier ones that are due."""

    def __init__(self, plan: TransactionsPlan, producer: str) -> None:
        super().__init__(plan, producer)
        self._plan = plan
        self._next_number = 0
        self._captures = Later[PaymentChunk](CAPTURE_AFTER_MS)

    def _fresh(self, n: int, now_ms: int) -> PaymentChunk:
        drawn, captures = self._drawn(n, now_ms), self._captures.take(n, now_ms)
        new = self._new(n - (len(captures) if captures else 0))
        if captures:
            state = np.full(len(captures), CAPTURED, np.int8)
            new = {
                name: np.concatenate([state if name == "state" else getattr(captures, name), column])
                for name, column in new.items()
            }
        chunk = PaymentChunk(**drawn, **new)
        lucky = self._rng.random(n) < self._plan.captured
        self._captures.put(chunk[lucky & (chunk.state == AUTHORISED) & (chunk.flaw == Flaw.NONE)])
        return chunk

    def _new(self, n: int) -> dict[str, NDArray[Any]]:
        rng, plan = self._rng, self._plan
        self._next_number += n
        return {
            "number": np.arange(self._next_number - n, self._next_number, dtype=np.int64),
            "state": np.full(n, AUTHORISED, np.int8),
            "basket": rng.integers(0, plan.baskets, n, dtype=np.int32),
            "customer": rng.integers(0, plan.customers, n, dtype=np.int32),
            "currency": rng.integers(0, len(_WRITTEN_CURRENCIES), n, dtype=np.int8),
            "method": rng.integers(0, len(_METHODS), n, dtype=np.int8),
            "channel": rng.integers(0, len(_CHANNELS), n, dtype=np.int8),
        }


class PaymentEncoder:
    """Encodes the chunks of one producer from tables made once for its plan."""

    def __init__(self, plan: TransactionsPlan, producer: str) -> None:
        baskets = plan.contents()
        countries = [COUNTRIES[country] for country in plan.countries()]
        self._producer = producer
        self._middle = pa.scalar(f'","producer":"{producer}","seq":')
        self._states = pa.array([f',"state":"{state}","customer":{{"id":"' for state in STATES])
        self._customers = pa.array(
            [
                f'{customer}","country":"{country}"}},"payment":{{"amount":'
                for customer, country in zip(_customer_ids(plan).to_pylist(), countries, strict=True)
            ]
        )
        self._amounts = pa.array([cents(amount) for amount in baskets.amount_cents.tolist()])
        self._currencies = pa.array([f',"currency":"{name}","method":' for name in _WRITTEN_CURRENCIES])
        self._methods = pa.array([_method(*method) for method in _METHODS])
        self._items = baskets.items
        self._tags = pa.array([_tags(channel) for channel in _CHANNELS])

    def encode(self, chunk: PaymentChunk) -> list[Message]:
        ids = _ids(self._producer, pa.chunked_array([chunk.number]))
        basket = pa.array(chunk.basket)
        ts = pa.array(chunk.ts_ms).cast(pa.timestamp("ms", "UTC"))
        values = pc.binary_join_element_wise(
            pa.scalar('{"transaction_id":"'),
            ids,
            self._middle,
            pc.cast(pa.array(chunk.seq), pa.string()),
            self._states.take(pa.array(chunk.state)),
            self._customers.take(pa.array(chunk.customer)),
            self._amounts.take(basket),
            self._currencies.take(pa.array(chunk.currency)),
            self._methods.take(pa.array(chunk.method)),
            pa.scalar('},"items":'),
            self._items.take(basket),
            self._tags.take(pa.array(chunk.channel)),
            pc.strftime(ts, "%Y-%m-%dT%H:%M:%SZ"),
            pa.scalar('","created_ms":'),
            pc.cast(pa.array(chunk.created_ms), pa.string()),
            pa.scalar("}"),
            pa.scalar(""),
        )
        keys = ids.cast(pa.binary()).to_numpy(zero_copy_only=False).tolist()
        return messages(chunk, keys, values, _SPOILT)


def _ids(producer: str, numbers: pa.ChunkedArray) -> pa.Array:
    texts = pc.cast(numbers.combine_chunks(), pa.string())
    return pc.binary_join_element_wise(pa.scalar(f"{producer}-"), texts, pa.scalar(""))


def _customer_ids(plan: TransactionsPlan) -> pa.Array:
    return pa.array([f"c{number:06d}" for number in range(plan.customers)])


def _decimals(hundredths: NDArray[np.int64]) -> pa.Array:
    whole = pa.array(hundredths).cast(pa.decimal128(19, 0))
    return pc.multiply(whole, pa.scalar(Decimal("0.01"))).cast(pa.decimal128(12, 2))


def _item(sku: int, quantity: int, price_cents: int) -> str:
    return f'{{"sku":"s{sku:05d}","qty":{quantity},"price":{cents(price_cents)}}}'


def _method(kind: str, last4: str | None) -> str:
    """A transfer says null and a wallet says nothing: both must decode to no number."""
    number = f',"last4":"{last4}"' if last4 else ',"last4":null' if kind == "transfer" else ""
    return f'{{"kind":"{kind}"{number}}}'


def _tags(channel: str | None) -> str:
    tags = f'{{"channel":"{channel}","locale":"en \\"GB\\""}}' if channel else "{}"
    return f',"tags":{tags},"ts":"'
