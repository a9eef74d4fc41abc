"""Values of every type into PostgreSQL and back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import SinkError
from penstock.local.services import Addresses
from penstock.sinks.protocol import Batch
from tests.integration.places.place import new_place
from tests.integration.places.postgres import PostgresPlace

pytestmark = pytest.mark.integration


@pytest.fixture
def live(services: Addresses) -> Iterator[PostgresPlace]:
    with new_place(PostgresPlace, services.postgres, exactly_once=False) as here:
        yield here


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
DECIMALS = st.decimals(-(10**8), 10**8, places=6)
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), TEXTS),
    "tiny": (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    "small": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "whole": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "big": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "single": (pa.float32(), st.integers(-(2**16), 2**16).map(lambda n: n / 8)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "truth": (pa.bool_(), st.booleans()),
    "amount": (pa.decimal128(18, 6), DECIMALS),
    "day": (pa.date32(), st.dates(date(1, 1, 2), date(9999, 12, 30))),
    "moment": (pa.timestamp("us", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
    "clock": (pa.timestamp("us"), MOMENTS),
    "raw": (pa.binary(), st.binary(max_size=8)),
    "texts": (pa.list_(pa.string()), st.lists(st.none() | TEXTS, max_size=3)),
    "amounts": (pa.list_(pa.decimal128(18, 6)), st.lists(DECIMALS, max_size=3)),
    "moments": (pa.list_(pa.timestamp("us")), st.lists(st.none() | MOMENTS, max_size=3)),
    "raws": (pa.list_(pa.binary()), st.lists(st.binary(max_size=4), max_size=3)),
    "item": (
        pa.struct([("name", pa.string()), ("counts", pa.list_(pa.int64()))]),
        st.fixed_dictionaries({"name": TEXTS, "counts": st.lists(st.integers(-5, 5), max_size=2)}),
    ),
}


@pytest.fixture(scope="module")
def typed(services: Addresses) -> Iterator[PostgresPlace]:
    """A table for rows of every type, kept over all examples."""
    described = {"key": ("id",), "version": None, "exactly_once": False, "max_rows": 3}
    with new_place(PostgresPlace, services.postgres, **described) as here:
        here.writer()
        yield here


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(
        st.fixed_dictionaries({name: st.none() | values for name, (_, values) in VALUES.items()}),
        min_size=1,
        max_size=5,
    )
)
def test_values_of_every_type_come_back_as_they_went(
    typed: PostgresPlace, rows: list[dict[str, Any]]
) -> None:
    schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in VALUES.items())])
    table = pa.Table.from_pylist([{"id": at, **row} for at, row in enumerate(rows)], schema)
    typed.writers[0].write(Batch.of(typed.query, 0, table))
    held = [row for row in typed.select(f"id, {', '.join(VALUES)}") if row[0] < len(rows)]
    assert [dict(zip(VALUES, row[1:], strict=True)) for row in sorted(held, key=lambda row: row[0])] == rows


def test_what_json_and_text_cannot_hold_comes_as_near_as_it_can(live: PostgresPlace) -> None:
    live.version = None
    money, nan = pa.decimal128(5, 2), float("nan")
    rows = pa.table(
        {
            "session_id": ["a"],
            "note": ["x\0y"],
            "rate": [nan],
            "prices": pa.array([[("p\0", Decimal("1.50"))]], pa.map_(pa.string(), money)),
            "rates": pa.array([[[1.5, nan, None]]], pa.list_(pa.list_(pa.float64()))),
            "at": pa.array([datetime(2026, 7, 1, 12, tzinfo=UTC)], pa.timestamp("ms", "Europe/Paris")),
            "none": pa.array([[]], pa.map_(pa.string(), pa.int64())),
        }
    )
    live.write(Batch.of(live.query, 0, rows))
    [(note, rate, prices, rates, at, none)] = live.select("note, rate, prices, rates, at, none")
    assert note == "x\ufffdy"
    assert rate != rate
    assert prices == {"p\ufffd": "1.50"}
    assert rates == [[1.5, "nan", None]]
    assert at == datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert none == {}


def test_a_column_of_a_type_that_has_no_place_is_named(live: PostgresPlace) -> None:
    rows = pa.table({"session_id": ["a"], "version": [1], "took": pa.array([timedelta(1)])})
    with pytest.raises(SinkError, match=r"no type for column took \(duration"):
        live.write(Batch.of(live.query, 0, rows))
