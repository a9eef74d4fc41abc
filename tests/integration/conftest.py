"""The embedded services, real ones, started once for all integration tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.local.services import Addresses, Services
from penstock.paths import DataDir


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """One broker, ClickHouse and PostgreSQL on a data directory of their own."""
    running = Services(DataDir.at(tmp_path_factory.mktemp("data")), tie_to_parent=True)
    try:
        yield running.start()
    finally:
        running.stop()
