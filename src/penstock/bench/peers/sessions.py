"""The sessions that must come, those that came, and how they differ.

What must come is computed from what was sent: `penstock.produce.oracle` for most of it, and here for the
measures that need reference data.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.audit.compare import compare
from penstock.audit.topic import read_topic
from penstock.bench.stages import chunks
from penstock.produce.chunk import Flaw
from penstock.produce.clickstream import ClickstreamPlan
from penstock.produce.oracle import expected_sessions
from penstock.produce.workload import Expected

_GAP_MS = 30 * 60 * 1000
_NO_PRICE = -1

SCHEMA = pa.schema(
    [
        ("user_id", pa.string()),
        ("start_ms", pa.int64()),
        ("end_ms", pa.int64()),
        ("events", pa.int64()),
        ("purchases", pa.int64()),
        ("revenue", pa.float64()),
        ("first_page", pa.string()),
        ("last_page", pa.string()),
        ("segment", pa.string()),
        ("country", pa.string()),
        ("top_price", pa.float64()),
        ("last_category", pa.string()),
    ]
)


def sent(plan: ClickstreamPlan, events: int) -> pa.Table:
    """The good ones of so many clicks, in the order they are sent."""
    parts = []
    for chunk in chunks(plan, events):
        good = chunk[chunk.flaw == Flaw.NONE]
        parts.append({name: getattr(good, name) for name in (*plan.ledger_columns, "ts_ms")})
    table = pa.table({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    return pa.table({"ts_ms": table["ts_ms"], **plan.named(table, "bench")})


def expected(plan: ClickstreamPlan, events: int, reference: Path) -> pa.Table:
    """The sessions of so many clicks, each once."""
    clicks = sent(plan, events)
    sessions = expected_sessions(clicks, _GAP_MS).sort_by(
        [("user_id", "ascending"), ("start_ms", "ascending")]
    )
    # Clicks in the order of their sessions: those of a session are a run, as long as it says.
    ordered = (
        clicks.append_column("_place", pa.array(np.arange(clicks.num_rows)))
        .select(["user_id", "ts_ms", "_place", "product_id", "price_cents"])
        .set_column(0, "user_id", clicks["user_id"].cast(pa.string()))
        .sort_by([("user_id", "ascending"), ("ts_ms", "ascending"), ("_place", "ascending")])
    )
    last = np.cumsum(sessions["events"].to_numpy()) - 1
    first = np.append(0, last[:-1] + 1)
    cents = ordered["price_cents"].fill_null(_NO_PRICE).to_numpy()
    top = np.maximum.reduceat(cents, first)
    users = _columns(reference / "users.parquet", "user_id", sessions["user_id"])
    products = _columns(
        reference / "catalogue.parquet", "product_id", ordered["product_id"].take(pa.array(last))
    )
    more = {
        "segment": users["segment"],
        "country": users["country"],
        "top_price": pa.array(top / 100, mask=top == _NO_PRICE),
        "last_category": products["category"],
    }
    for name, column in more.items():
        sessions = sessions.append_column(name, column)
    return sessions.select(SCHEMA.names).cast(SCHEMA)


def held(bootstrap: str, topic: str) -> pa.Table:
    """The sessions that a committed reader finds in a topic."""
    rows = (json.loads(message.value() or b"{}") for message in read_topic(bootstrap, topic))
    return pa.Table.from_pylist([{name: row[name] for name in SCHEMA.names} for row in rows], SCHEMA)


def differences(wanted: pa.Table, came: pa.Table) -> tuple[str, ...]:
    """What is wrong with the sessions that came, in words; nothing when each one came once and no other."""
    found = compare(Expected(_named(wanted), "session_id"), _named(came))
    counts = {"lost": found.lost, "duplicated or not expected": found.duplicated, "wrong": found.wrong}
    told = [f"{count:,} of {found.expected:,} sessions {what}" for what, count in counts.items() if count]
    return (*told, *found.examples)


def _named(sessions: pa.Table) -> pa.Table:
    """With a name for each, and a version, so that the same one twice is seen as such."""
    start = pc.cast(sessions["start_ms"], pa.string())
    name = pc.binary_join_element_wise(sessions["user_id"], start, "@")
    one = pa.array(np.ones(sessions.num_rows, dtype=np.int64))
    return sessions.append_column("session_id", name).append_column("version", one)


def _columns(file: Path, key: str, wanted: pa.ChunkedArray) -> pa.Table:
    """The rows of a reference table with these keys, in their order."""
    table = pq.read_table(file)
    return table.take(pc.index_in(wanted.cast(pa.string()), table[key].combine_chunks()))
