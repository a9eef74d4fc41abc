"""The embedded services, real ones, started once for all integration tests."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.local.services import Addresses, Services
from penstock.paths import DataDir
from penstock.testing import Topic
from penstock.testing.stream import EngineRun, open_test_spark
from tests.integration.clicks import NewRig, clickstream, rigs
from tests.integration.streams import BROKER_MS
from tests.integration.users import NewUsers, Users, sql

NewStream = Callable[..., EngineRun]


@pytest.fixture(scope="session")
def services() -> Iterator[Addresses]:
    """One broker, ClickHouse and PostgreSQL on a data directory of their own.

    Not in pytest's temporary directory: another pytest that starts closes it for PostgreSQL's own user.
    """
    with TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as directory:
        running = Services(DataDir.at(Path(directory)), tie_to_parent=True)
        try:
            yield running.start()
        finally:
            running.stop()


def write_small_reference(data: DataDir) -> None:
    users = {"user_id": ["u1", "u2"], "segment": ["new", "loyal"], "country": ["FR", "PE"]}
    pq.write_table(pa.table(users), data.reference / "users.parquet")
    products = {"product_id": ["p00001"], "category": ["books"], "brand": ["acme"]}
    pq.write_table(pa.table(products), data.reference / "catalogue.parquet")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark for all tests: a JVM takes ten seconds to start."""
    with open_test_spark(clickstream(), tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def new_rig(services: Addresses, spark: SparkSession, tmp_path: Path) -> NewRig:
    """Makes a clickstream with topics and tables of its own."""
    return rigs(services, spark, tmp_path)


@pytest.fixture
def new_stream(spark: SparkSession, tmp_path: Path) -> NewStream:
    """Makes a stream on a data directory of its own."""

    def make(engine: str = "kernel", **overrides: str) -> EngineRun:
        data = DataDir.at(tmp_path / engine)
        write_small_reference(data)
        return EngineRun(spark, clickstream(engine, **overrides), data, topic=Topic(BROKER_MS))

    return make


@pytest.fixture
def new_users(spark: SparkSession, tmp_path: Path) -> NewUsers:
    """Makes a stream with a lookup on a data directory of its own."""
    return partial(Users.looked_up, spark, tmp_path)


@pytest.fixture
def users_table(services: Addresses) -> Iterator[str]:
    """A name for a table of the test's own in PostgreSQL."""
    name = f"users_{uuid.uuid4().hex[:8]}"
    yield name
    sql(services, f"DROP TABLE IF EXISTS {name}")
