"""clickhouse-connect, unchanged, against the embedded ClickHouse."""

# ruff: noqa: S608 - the tables are the tests' own

from __future__ import annotations

import decimal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import urlsplit

import clickhouse_connect
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError

from penstock.local.services import Addresses

pytestmark = pytest.mark.integration


def connect(address: str, **options: Any) -> Client:
    where = urlsplit(address)
    return clickhouse_connect.get_client(host=where.hostname or "", port=where.port or 0, **options)


@pytest.fixture
def client(services: Addresses) -> Iterator[Client]:
    with connect(services.clickhouse) as client:
        yield client


@pytest.fixture
def table(client: Client, request: pytest.FixtureRequest) -> str:
    name = "t_" + "".join(c if c.isalnum() else "_" for c in request.node.name)
    client.command(
        f"CREATE TABLE {name} (id UInt64, text Nullable(String), price Decimal(18, 4), "
        "at DateTime64(6, 'UTC'), day Date, tags Array(String), ok Bool) ENGINE = MergeTree ORDER BY id "
        "SETTINGS non_replicated_deduplication_window = 100"
    )
    return name


def test_an_insert_that_the_table_refuses_is_an_error(client: Client, table: str) -> None:
    client.command(f"ALTER TABLE {table} ADD CONSTRAINT known CHECK id < 100")
    with pytest.raises(DatabaseError, match="469"):
        client.insert(table, [[1], [100]], column_names=["id"])
    with pytest.raises(DatabaseError, match="469"):
        client.insert_arrow(table, pa.table({"id": pa.array([2, 200], pa.uint64())}))
    assert client.query(f"SELECT count() FROM {table}").result_rows == [(0,)]


def test_columns_that_are_not_given_have_their_defaults(client: Client, table: str) -> None:
    client.command(
        f"ALTER TABLE {table} ADD COLUMN twice UInt64 MATERIALIZED id * 2, ADD COLUMN n UInt8 DEFAULT 7"
    )
    client.insert(table, [[21]], column_names=["id"])
    assert client.query(f"SELECT id, twice, n, text FROM {table}").result_rows == [(21, 42, 7, None)]


ROWS: list[list[Any]] = [
    [
        1,
        "semicolon;\nnew line\t'quoted' \\ naïve 🚰",
        decimal.Decimal("12.3400"),
        datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        date(2026, 1, 2),
        ["a", "b"],
        True,
    ],
    [2, None, decimal.Decimal("-0.0001"), datetime(1999, 12, 31, tzinfo=UTC), date(1999, 12, 31), [], False],
]


@pytest.mark.parametrize("compress", ["lz4", "zstd", "gzip", False])
def test_rows_come_back_as_they_went_whatever_the_compression(
    services: Addresses, table: str, compress: str | bool
) -> None:
    with connect(services.clickhouse, compress=compress, tz_mode="aware") as client:
        summary = client.insert(table, ROWS)
        assert summary.written_rows == 2
        assert [list(row) for row in client.query(f"SELECT * FROM {table} ORDER BY id").result_rows] == ROWS


@pytest.mark.parametrize("compress", ["lz4", "zstd", "gzip", False])
def test_a_large_insert_of_many_blocks_and_its_large_answer_are_whole(
    services: Addresses, compress: str | bool
) -> None:
    count = 300_000
    with connect(services.clickhouse, compress=compress) as client:
        client.command("CREATE OR REPLACE TABLE big (n UInt64, s String) ENGINE = MergeTree ORDER BY n")
        frame = pd.DataFrame({"n": range(count), "s": [f"row;\n{n}" for n in range(count)]})
        client.insert_df("big", frame)
        back = client.query_df("SELECT n, s FROM big ORDER BY n")
    assert back["s"].tolist() == frame["s"].tolist()


def test_arrow_goes_in_and_comes_out(client: Client, table: str) -> None:
    client.insert(table, ROWS)
    arrow = client.query_arrow(f"SELECT id, text, price, at FROM {table} ORDER BY id", use_strings=True)
    assert arrow.column("text").to_pylist() == [ROWS[0][1], None]
    client.command(f"CREATE TABLE {table}_copy AS {table}")
    summary = client.insert_arrow(f"{table}_copy", arrow)
    assert summary.written_rows == 2
    assert client.query_arrow(f"SELECT id, text, price, at FROM {table}_copy ORDER BY id").equals(
        client.query_arrow(f"SELECT id, text, price, at FROM {table} ORDER BY id")
    )
    assert isinstance(arrow, pa.Table)


def test_raw_inserts_and_raw_queries_pass_bytes_through(client: Client) -> None:
    client.command("CREATE OR REPLACE TABLE raw (n UInt8, s String) ENGINE = Memory")
    client.raw_insert("raw", ["n", "s"], insert_block=b'1,"a;\nb"\n2,c\n', fmt="CSV")
    client.raw_insert("raw", ["n", "s"], insert_block=(part for part in (b'3,"d"\n', b"4,e\n")), fmt="CSV")
    assert (
        client.raw_query("SELECT n, s FROM raw ORDER BY n", fmt="CSV") == b'1,"a;\nb"\n2,"c"\n3,"d"\n4,"e"\n'
    )


def test_values_with_semicolons_in_an_insert_statement_arrive(client: Client) -> None:
    client.command("CREATE OR REPLACE TABLE typed (n UInt8, s String) ENGINE = Memory")
    client.command("INSERT INTO typed VALUES (1, 'a;b'), (2, 'c;\nd')")
    client.command("INSERT INTO typed SELECT 3, 'FORMAT CSV'")
    assert client.query("SELECT s FROM typed ORDER BY n").result_columns == [["a;b", "c;\nd", "FORMAT CSV"]]


def test_commands_answer_as_a_server_does(client: Client) -> None:
    assert client.command("SELECT 1") == 1
    assert client.command("SELECT 'a', 'b'") == ["a", "b"]
    assert client.command("EXISTS TABLE nowhere") == 0
    assert client.ping()
    assert client.query("SELECT 1 AS a, 'x' AS b LIMIT 0").column_names == ("a", "b")
    assert client.query("SELECT number FROM numbers(10) WHERE number > 100").result_rows == []


@pytest.mark.parametrize(
    ("sql", "code", "text"),
    [
        ("SELECT * FROM nowhere", 60, "UNKNOWN_TABLE"),
        ("SELECT (1", 62, "SYNTAX_ERROR"),
        ("SELECT nothing_like_it FROM system.one", 47, "UNKNOWN_IDENTIFIER"),
        ("SELECT throwIf(1, 'on purpose')", 395, "on purpose"),
    ],
)
def test_an_error_carries_clickhouses_code_and_text(client: Client, sql: str, code: int, text: str) -> None:
    with pytest.raises(DatabaseError, match=text) as raised:
        client.query(sql)
    assert raised.value.code == code
    assert f"Code: {code}. DB::Exception" in str(raised.value)


def test_a_refused_insert_is_an_error_and_leaves_nothing(client: Client, table: str) -> None:
    with pytest.raises(DatabaseError, match="CANNOT_PARSE"):
        client.raw_insert(table, ["id", "text"], insert_block=b"1,a\nnot a number,b\n", fmt="CSV")
    with pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
        client.raw_insert("nowhere", ["id"], insert_block=b"1\n", fmt="CSV")
    assert client.command(f"SELECT count() FROM {table}") == 0


def test_settings_hold_for_their_statement_alone(client: Client) -> None:
    asked = "SELECT getSetting('max_block_size')"
    usual = client.command(asked)
    assert client.command(asked, settings={"max_block_size": 777}) == 777
    assert client.command(asked) == usual
    with pytest.raises(DatabaseError, match="TOO_MANY_ROWS"):
        client.query("SELECT * FROM numbers(100)", settings={"max_rows_to_read": 10})


def test_an_unknown_setting_is_refused(services: Addresses) -> None:
    request = urllib.request.Request(f"{services.clickhouse}/?no_such_setting=1", data=b"SELECT 1")  # noqa: S310
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(request)  # noqa: S310
    assert raised.value.headers["X-ClickHouse-Exception-Code"] == "115"


def test_bound_parameters_are_bound_by_the_engine(client: Client) -> None:
    nasty = 'it\'s;\n\ta \\ "test" 🚰'
    query = "SELECT {n:UInt64} AS n, {s:String} AS s, {d:DateTime} AS d, {l:Array(String)} AS l"
    bound = {"n": 2**63, "s": nasty, "d": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "l": ["a", nasty]}
    row = client.query(query, parameters=bound).result_rows[0]
    assert (row[0], row[1], list(row[3])) == (2**63, nasty, ["a", nasty])
    assert row[2].replace(tzinfo=None) == datetime(2026, 1, 2, 3, 4, 5)


def test_parameters_too_long_for_a_url_arrive_in_a_form(client: Client) -> None:
    long = "é;" * 200_000
    assert client.query("SELECT {s:String}", parameters={"s": long}).result_rows == [(long,)]


def test_a_repeated_deduplication_token_adds_nothing(client: Client, table: str) -> None:
    for token in ("q-1-0", "q-1-0", "q-2-0"):
        client.insert(table, ROWS, settings={"insert_deduplication_token": token, "async_insert": 0})
    assert client.command(f"SELECT count() FROM {table}") == 4


def test_a_client_has_its_own_database(services: Addresses, client: Client) -> None:
    client.command("CREATE DATABASE IF NOT EXISTS other")
    with connect(services.clickhouse, database="other") as other:
        other.command("CREATE OR REPLACE TABLE only_here (n UInt8) ENGINE = Memory")
        assert other.command("SELECT currentDatabase()") == "other"
    assert client.command("SELECT currentDatabase()") == "default"
    with pytest.raises(DatabaseError, match="UNKNOWN_DATABASE"):
        connect(services.clickhouse, database="missing").command("SELECT 1")


def test_a_slow_statement_keeps_neither_ping_nor_others_waiting(services: Addresses, client: Client) -> None:
    ended: list[float] = []

    def slow() -> None:
        with connect(services.clickhouse) as other:
            other.command("SELECT sleep(3)")
        ended.append(time.monotonic())

    thread = threading.Thread(target=slow)
    thread.start()
    time.sleep(0.5)
    assert client.ping()
    assert client.command("SELECT 1") == 1
    answered = time.monotonic()
    thread.join()
    assert answered < ended[0]


def test_an_empty_get_says_ok(services: Addresses) -> None:
    for path in ("/", "/ping"):
        assert urllib.request.urlopen(services.clickhouse + path).read() == b"Ok.\n"  # noqa: S310
