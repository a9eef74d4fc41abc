"""Clicks for the engine, and the rows that come out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

T0 = 1_800_000_000_000
"""Event times in tests count from here, in milliseconds."""

BROKER_MS = T0 + 3_600_000
"""When the broker took every record."""


def click(user: str | None, at_ms: int, **fields: Any) -> bytes:
    """A click `at_ms` after T0."""
    event = {
        "event_id": f"{user}-{at_ms}",
        "producer": "p1",
        "seq": at_ms,
        "user_id": user,
        "event_type": "view",
        "product_id": "p00001",
        "page": f"/{at_ms}",
        "price": None,
        "ts": T0 + at_ms,
        "created_ms": T0 + at_ms,
        **fields,
    }
    return json.dumps(event).encode()


def kinds(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [row["kind"] for row in rows]


def of_kind(rows: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] == kind]


def kept_keys(spark: SparkSession, checkpoint: Path) -> list[str]:
    """The keys that state still holds; what says when they are due is there for no others."""
    kept, lists = (
        spark.read.format("statestore").option("stateVarName", name).load(str(checkpoint)).collect()
        for name in ("spans", "due-lists")
    )
    assert {row["key"]["value"] for row in kept} == {row["key"]["value"] for row in lists}
    return [bytes(row["user_map_key"]["value"]).decode() for row in kept]
