"""Values of every type into ClickHouse and back."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import ReplayDiffers, SinkError
from penstock.local.services import Addresses
from penstock.sinks.chcolumns import storable
from penstock.sinks.protocol import Batch
from tests.integration.places.clickhouse import ClickHousePlace
from tests.integration.places.place import new_place

pytestmark = pytest.mark.integration

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
DECIMALS = st.decimals(-(10**8), 10**8, places=6)
MOMENTS = st.datetimes(datetime(1901, 1, 1), datetime(2298, 12, 31))
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), TEXTS),
    "tiny": (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    "small": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "whole": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "big": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "single": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "truth": (pa.bool_(), st.booleans()),
    "amount": (pa.decimal128(18, 6), DECIMALS),
    "day": (pa.date32(), MOMENTS.map(lambda moment: moment.date())),
    "moment": (pa.timestamp("us", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
    "clock": (pa.timestamp("ms"), MOMENTS.map(lambda moment: moment.replace(microsecond=5_000))),
    "raw": (pa.binary(), st.binary(max_size=8)),
    "texts": (pa.list_(pa.string()), st.lists(st.none() | TEXTS, max_size=3)),
    "amounts": (pa.list_(pa.decimal128(18, 6)), st.lists(DECIMALS, max_size=3)),
    "raws": (pa.list_(pa.binary()), st.lists(st.binary(max_size=4), max_size=3)),
    "item": (
        pa.struct([("name", pa.string()), ("prices", pa.map_(pa.string(), pa.float64()))]),
        st.fixed_dictionaries({"name": TEXTS, "prices": st.just([("a", 1.5)])}),
    ),
}
TYPED = pa.schema([("event_id", pa.int64()), *((name, kind) for name, (kind, _) in VALUES.items())])
TYPED_ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, (_, values) in VALUES.items()}),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def place(services: Addresses) -> Iterator[ClickHousePlace]:
    """A table for rows of every type, kept over all examples."""
    with new_place(ClickHousePlace, services.clickhouse, key=("event_id",)) as here:
        yield here


def typed(place: ClickHousePlace, rows: list[dict[str, Any]]) -> Batch:
    columns = pa.Table.from_pylist([{"event_id": at, **row} for at, row in enumerate(rows)], TYPED)
    stamps = (("query", place.query, pa.string()), ("batch", 0, pa.int64()), ("slot", 0, pa.int32()))
    for name, value, kind in stamps:
        columns = columns.append_column(name, pa.array([value] * len(rows), kind))
    return Batch.of(place.query, 0, columns)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=TYPED_ROWS, other=TYPED_ROWS)
def test_rows_of_every_type_that_were_left_without_a_position_compare_as_what_they_were(
    place: ClickHousePlace, rows: list[dict[str, Any]], other: list[dict[str, Any]]
) -> None:
    # [3] So they came back as they went: the comparison reads them all.
    with closing(place.beside(query=f"typed-{uuid.uuid4().hex}")) as here:
        batch, differing = typed(here, rows), typed(here, other)
        here.die_before_position(batch)
        if len(other) == len(rows) and storable(differing.rows) != storable(batch.rows):
            with pytest.raises(ReplayDiffers):
                here.write(differing)
        assert not here.write(batch).replayed


def test_readers_see_the_values_that_were_written(place: ClickHousePlace) -> None:
    here = place.beside(target=f"{place.target}_seen")
    moment = datetime(2026, 7, 1, 12, 0, 0, 5, tzinfo=UTC)
    rows = pa.table(
        {
            "event_id": ["a"],
            "amount": pa.array([Decimal("12.34")], pa.decimal128(12, 2)),
            "day": [moment.date()],
            "at": pa.array([moment], pa.timestamp("us", "UTC")),
            "tags": pa.array([["x", None]], pa.list_(pa.string())),
            "none": pa.array([None], pa.list_(pa.string())),
            "item": [{"name": "é", "price": Decimal("1.50")}],
            "query": [place.query],
            "batch": [0],
            "slot": [0],
        }
    )
    here.write(Batch.of(place.query, 0, rows))
    [row] = here.select("amount, day, toString(at), tags, none, item")
    assert row == (
        Decimal("12.34"),
        moment.date(),
        "2026-07-01 12:00:00.000005",
        ["x", None],
        [],
        '{"name":"é","price":"1.50"}',
    )


def test_a_column_of_a_type_that_has_no_place_is_named(place: ClickHousePlace) -> None:
    rows = pa.table({"event_id": ["a"], "took": pa.array([timedelta(1)])})
    with pytest.raises(SinkError, match=r"no type for column took \(duration"):
        place.write(Batch.of(place.query, 0, rows))
