"""All stores, for the tests of what they have in common."""

from __future__ import annotations

import pytest

from tests.integration.places.clickhouse import ClickHousePlace
from tests.integration.places.kafka import KafkaPlace
from tests.integration.places.place import Place
from tests.integration.places.postgres import PostgresPlace

STORES: dict[str, type[Place]] = {
    "kafka": KafkaPlace,
    "clickhouse": ClickHousePlace,
    "postgres": PostgresPlace,
}


def only(*stores: str) -> pytest.MarkDecorator:
    """Marks a rule that not every store keeps, or what one does instead."""
    return pytest.mark.parametrize("place", stores, indirect=True)
