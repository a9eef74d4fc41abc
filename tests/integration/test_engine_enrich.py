"""Reference data beside events: the values that are found, and data that cannot be used."""

from __future__ import annotations

import gzip
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.checkpoint import Checkpoint
from penstock.engine.enrich import Lookups
from penstock.engine.refresh import references
from penstock.errors import SpecError
from penstock.local.services import Addresses
from tests.integration.users import NewUsers, sql

# ruff: noqa: S608 - tables have names of their own
pytestmark = pytest.mark.integration

ALL_TYPES = {
    "text": pa.array(['naïve, "quoted"', "", None]),
    "whole": pa.array([-1, 2**31 - 1, None], pa.int32()),
    "large": pa.array([2**62, -5, None], pa.int64()),
    "real": pa.array([0.1, -0.0, None], pa.float64()),
    "truth": pa.array([True, False, None]),
    "exact": pa.array([Decimal("12345678901234567890.12"), Decimal("-0.01"), None], pa.decimal128(30, 2)),
    "day": pa.array([date(1969, 12, 31), date(2026, 2, 28), None]),
    "moment": pa.array(
        [datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), datetime(1960, 1, 1, tzinfo=UTC), None],
        pa.timestamp("us", "UTC"),
    ),
}


@pytest.mark.parametrize("engine", ["kernel", "plain"])
def test_every_type_is_found_by_its_key_and_an_unknown_or_null_key_gives_the_defaults(
    new_users: NewUsers, engine: str
) -> None:
    defaults: dict[str, Any] = {
        "text": "?",
        "whole": 7,
        "large": 8,
        "real": 1,
        "truth": True,
        "exact": "3.14",
        "day": "2026-01-01",
        "moment": "2026-01-01T00:00:00+01:00",
    }
    users = new_users(engine, take=list(ALL_TYPES), default=defaults)
    users.write(user_id=["u1", "u2", "u3"], **ALL_TYPES)
    [rows] = users.found(["u1", "u2", "u3", "nobody", None])
    as_written = list(zip(*(column.to_pylist() for column in ALL_TYPES.values()), strict=True))
    moment = datetime(2025, 12, 31, 23, tzinfo=UTC)
    unknown = ("?", 7, 8, 1.0, True, Decimal("3.14"), date(2026, 1, 1), moment)
    assert rows == [*as_written, unknown, unknown]


def test_without_defaults_an_unknown_key_gives_nulls(new_users: NewUsers) -> None:
    users = new_users(take=["segment", "age"])
    users.write(user_id=["u1", None], segment=["new", "of nobody"], age=[30, 31])
    assert users.found(["u1", "u2", None]) == [[("new", 30), (None, None), (None, None)]]


def test_several_columns_of_one_lookup_cost_one_probe(new_users: NewUsers) -> None:
    users = new_users(take=["segment", "country", "age"])
    users.write(user_id=["u1"], segment=["a"], country=["b"], age=[1])
    checkpoint = Checkpoint(users.stream.data.checkpoints / users.stream.spec.name, "t")
    tables = references(users.stream.spec, users.stream.data, "", print)
    spark = users.stream.spark
    lookups = Lookups(spark, tables, checkpoint, print)
    checkpoint.close()
    events = spark.range(3).selectExpr("concat('u', id) AS user_id").repartition(1)
    enriched = lookups.enrich(events)
    plan = enriched._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count(".invoke(") == 1
    assert sorted(enriched.collect(), key=str)[1].asDict() == {
        "user_id": "u1",
        "segment": "a",
        "country": "b",
        "age": 1,
    }


def test_keys_with_equal_rows_and_more_different_rows_than_are_remembered_find_their_own(
    new_users: NewUsers,
) -> None:
    users = new_users(take=["segment", "age"])
    many, ages = 80_000, [1, 2, None]
    users.write(
        user_id=[f"u{number}" for number in range(2 * many)],
        segment=[f"s{number % many}" for number in range(2 * many)],
        age=[ages[number % 3] for number in range(2 * many)],
    )
    asked = [0, 1, 2, 65_535, 65_536, many - 1, many, many + 1, 2 * many - 1]
    [rows] = users.found([*(f"u{number}" for number in asked), "nobody"])
    assert rows == [*((f"s{number % many}", ages[number % 3]) for number in asked), (None, None)]


def test_keys_that_are_numbers_in_the_reference_data_match_as_text(new_users: NewUsers) -> None:
    users = new_users()
    users.write(user_id=pa.array([7, 8], pa.int64()), segment=["seven", "eight"])
    assert users.found(["7", "007"]) == [[("seven",), (None,)]]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_csv_file_has_its_types_guessed_but_keys_stay_text_and_na_is_namibia(
    new_users: NewUsers, suffix: str
) -> None:
    take = ["country", "age", "score", "active", "since", "seen"]
    users = new_users(path=f"users{suffix}", take=take)
    text = (
        "user_id,country,age,score,active,since,seen\n"
        "007,NA,30,0.5,true,2026-01-01,2026-01-01T10:00:00\n"
        '8,"",,,,,\n'
    )
    content = gzip.compress(text.encode()) if suffix == ".csv.gz" else text.encode()
    (users.stream.data.root / f"users{suffix}").write_bytes(content)
    seen = datetime(2026, 1, 1, 10, tzinfo=UTC)
    [rows] = users.found(["007", "8", "7"])
    assert rows == [
        ("NA", 30, 0.5, True, date(2026, 1, 1), seen),
        ("", None, None, None, None, None),
        (None, None, None, None, None, None),
    ]


@pytest.mark.parametrize("engine", ["kernel", "plain"])
def test_a_query_gives_the_types_of_postgresql(
    new_users: NewUsers, services: Addresses, users_table: str, engine: str
) -> None:
    sql(
        services,
        f"CREATE TABLE {users_table} (user_id text, text varchar(9), whole int, large bigint, real float8,"
        " truth bool, exact numeric(30, 2), day date, moment timestamptz, plain timestamp, id uuid)",
    )
    one = "00000000-0000-0000-0000-000000000001"
    sql(
        services,
        f"INSERT INTO {users_table} VALUES ('u1', 'a,\"\n', -1, 4611686018427387904, 0.1, true,"
        " 12345678901234567890.12, '1969-12-31', '2026-01-02 03:04:05.678901+01', '2026-01-02 03:04:05.5',"
        f" '{one}'), ('u2', '', 1, 1, 'NaN', false, 0, '2026-01-01', '2026-01-01', '2026-01-01', '{one}')",
    )
    sql(services, f"INSERT INTO {users_table} (user_id) VALUES ('u3')")
    take = [*ALL_TYPES, "plain", "id"]
    users = new_users(engine, services.postgres, query=f"SELECT * FROM {users_table} -- all", take=take)
    [[first, second, third]] = users.found(["u1", "u2", "u3"])
    assert first == (
        'a,"\n',
        -1,
        2**62,
        0.1,
        True,
        Decimal("12345678901234567890.12"),
        date(1969, 12, 31),
        datetime(2026, 1, 2, 2, 4, 5, 678901, UTC),
        datetime(2026, 1, 2, 3, 4, 5, 500000, UTC),
        one,
    )
    assert second[0] == ""
    assert second[3] != second[3]
    assert third == (None,) * len(take)


@pytest.mark.parametrize("engine", ["kernel", "plain"])
@pytest.mark.parametrize(
    ("columns", "given", "problem"),
    [
        ({"user_id": ["u1", "u1"], "segment": ["a", "b"]}, {}, "'u1' stands twice"),
        ({"user_id": ["u1"], "other": ["a"]}, {}, '"segment": no such column in users.parquet'),
        ({"user_id": [1.5], "segment": ["a"]}, {}, '"user_id" is double: a key is'),
        ({"user_id": ["u1"], "segment": [["a"]]}, {}, '"segment" is list.*cannot hold'),
        (
            {"user_id": ["u1"], "segment": ["a"]},
            {"default": {"segment": 3}},
            r"default.segment = 3: .*string",
        ),
        (
            {"user_id": ["u1"], "segment": [1]},
            {"default": {"segment": True}},
            r"default.segment = True: .*int64",
        ),
        ({"user_id": ["u1"], "segment": [1]}, {"default": {"segment": 2**63}}, "default.segment"),
        ({"user_id": ["u1"], "segment": [date(2026, 1, 1)]}, {"default": {"segment": "soon"}}, "date32"),
        (None, {}, "no such file"),
    ],
)
def test_reference_data_that_cannot_be_used_is_a_spec_error_that_names_the_lookup_and_the_key(
    new_users: NewUsers, engine: str, columns: dict[str, Any] | None, given: dict[str, Any], problem: str
) -> None:
    users = new_users(engine, **given)
    if columns is not None:
        users.write(**columns)
    with pytest.raises(SpecError, match=problem) as raised:
        users.found(["u1"])
    assert "enrich users" in str(raised.value)


def test_a_million_rows_of_five_columns_take_well_under_what_a_hash_map_of_rows_takes(
    new_users: NewUsers,
) -> None:
    rows, take = 1_000_000, ["segment", "country", "year", "score", "active"]
    users = new_users(take=take, refresh="1 hour")
    users.write(
        user_id=[f"u{i:07d}" for i in range(rows)],
        segment=["regular", "new", "loyal", "trade", "casual"] * (rows // 5),
        country=["DE", "FR"] * (rows // 2),
        year=pa.array([2010, 2020] * (rows // 2), pa.int32()),
        score=[0.5] * rows,
        active=[True, False] * (rows // 2),
    )
    started = time.monotonic()
    [found] = users.found([f"u{rows - 1:07d}", "u0000000", "nobody"])
    assert found == [("casual", "FR", 2020, 0.5, False), ("regular", "DE", 2010, 0.5, True), (None,) * 5]
    [reference] = users.stream.tables
    [loaded] = reference.loaded.values()
    jvm: Any = users.stream.spark._jvm
    packed = jvm.org.apache.spark.util.SizeEstimator.estimate(loaded.value()) / rows
    print(  # noqa: T201 - a figure for people
        f"{packed:.0f} bytes a row, read and loaded in {time.monotonic() - started:.1f} s with a first batch"
    )
    values = 8 + 7 + 2 + 4 + 8 + 1
    assert packed - values < 150
