"""What producers sent and the topic holds, record by record, by the names that records carry."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.audit.topic import read_topic
from penstock.deadletters.originals import REPLAYED_HEADER
from penstock.produce.ledger import Ledger

Identity = tuple[str, int]
"""A producer and its sequence number: a record's name."""


@dataclass(frozen=True)
class Sent:
    """The good records that are in the topic, in the order of the ledgers; and how many are there in all."""

    good: pa.Table
    count: int


def read_sent(ledgers: list[Ledger], topic: str, kafka: str) -> Sent:
    """The records of all ledgers known to be in the topic, each with its producer.

    Of the records that a killed producer left uncertain, the good ones are looked up by their name. A flawed
    one may have none: as many of those count as sent as the topic holds beyond the others.
    """
    found, in_topic = Counter[Identity](), 0
    uncertain = {ledger.producer for ledger in ledgers if ledger.uncertain}
    if uncertain:
        found, in_topic = _identities_in_topic(kafka, topic, uncertain)
    parts, nameless = [], 0
    for ledger in ledgers:
        producer = pa.array([ledger.producer] * ledger.records.num_rows)
        records = ledger.records.append_column("producer", producer)
        status = records["status"].cast(pa.string())
        acknowledged = records.filter(pc.equal(status, "acknowledged"))
        doubtful = records.filter(pc.equal(status, "uncertain"))
        good = pc.equal(doubtful["fate"].cast(pa.string()), "ok")
        nameless += doubtful.num_rows - int(pc.sum(good).as_py() or 0)
        # A repeated event is in the topic once for each of its copies.
        seen = acknowledged["seq"].filter(pc.is_in(acknowledged["seq"], doubtful["seq"].combine_chunks()))
        found.subtract((ledger.producer, seq) for seq in seen.to_pylist())
        there = []
        for seq in doubtful["seq"].to_pylist():
            there.append(found[ledger.producer, seq] > 0)
            found[ledger.producer, seq] -= 1
        parts += [acknowledged, doubtful.filter(pc.and_(good, pa.array(there, pa.bool_())))]
    stored = pa.concat_tables(parts).unify_dictionaries()
    count = min(max(in_topic, stored.num_rows), stored.num_rows + nameless)
    return Sent(stored.filter(pc.equal(stored["fate"].cast(pa.string()), "ok")), count)


def _identities_in_topic(kafka: str, topic: str, producers: set[str]) -> tuple[Counter[Identity], int]:
    found: Counter[Identity] = Counter()
    total = 0
    for message in read_topic(kafka, topic):
        if REPLAYED_HEADER in dict(message.headers() or []):
            continue
        total += 1
        name = identity(message.value())
        if name is not None and name[0] in producers:
            found[name] += 1
    return found, total


def identity(value: bytes | None) -> Identity | None:
    """The name of a record, if it can be read."""
    try:
        event = json.loads(value or b"")
        return event["producer"], event["seq"]
    except (ValueError, TypeError, KeyError):
        return None


def among(records: pa.Table, names: Mapping[Identity, int]) -> pa.Array:
    """Which records bear one of the names; of a record that was sent twice, as many copies as are named.

    The last ones: what is late or a duplicate is what came later, and of two clicks of the same moment the
    order counts.
    """
    joined = pc.binary_join_element_wise(records["producer"], records["seq"].cast(pa.string()), "-")
    mask = np.zeros(records.num_rows, dtype=bool)
    left = {f"{producer}-{seq}": count for (producer, seq), count in names.items()}
    candidates = np.flatnonzero(pc.is_in(joined, pa.array(list(left), pa.string())).to_numpy())
    names_there = joined.take(pa.array(candidates)).to_pylist()
    for at, name in zip(candidates[::-1], reversed(names_there), strict=True):
        mask[at] = left[name] > 0
        left[name] -= 1
    return pa.array(mask)
