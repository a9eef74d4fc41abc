"""Nothing lost, nothing doubled: what producers sent against what the pipeline says and its sinks hold."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.receipt import Receipt
from penstock.errors import PenstockError
from penstock.observe.compare import COMPARED, Comparison, compare
from penstock.observe.journal import Batch, JournalReader
from penstock.observe.topic import read_topic
from penstock.paths import DataDir
from penstock.produce.ledger import Ledger, read_ledgers
from penstock.produce.oracle import expected_sessions
from penstock.sinks.clickhouse import connect
from penstock.spec import ClickHouseSink, KafkaSink, PipelineSpec, Sessions

_ROW = pa.schema(
    [
        ("session_id", pa.string()),
        ("version", pa.int64()),
        ("kind", pa.string()),
        ("end_ms", pa.int64()),
        ("events", pa.int64()),
        ("purchases", pa.int64()),
        ("revenue", pa.float64()),
        ("first_page", pa.string()),
        ("last_page", pa.string()),
    ]
)
Identity = tuple[str, int]
"""A producer and its sequence number: an event's name."""


@dataclass(frozen=True)
class Audit:
    """The outcome; `lost` and `duplicated` count records, at the place where most are missing or too many."""

    sent: int
    decoded: int
    rejected: int
    late: int
    lost: int
    duplicated: int
    expected: int
    sinks: dict[str, Comparison]
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.problems


def audit(spec: PipelineSpec, data: DataDir, kafka: str, clickhouse: str) -> Audit:
    """Reconcile a stopped or idle clickstream with the ledgers of its producers."""
    ledgers = read_ledgers(data.produced / spec.name)
    if not ledgers:
        raise PenstockError(
            f"nothing to audit: {data.produced / spec.name} holds no record of what was sent",
            hint=f"Send events with: penstock produce {spec.name}",
        )
    sessions = _sessions_of(spec)
    receipts = read_receipts(data.runs / spec.name / "journal.jsonl")
    late = _late_events(spec, kafka)
    stored, sent = _stored(ledgers, spec, kafka)
    accepted = stored.filter(pc.equal(stored["fate"].cast(pa.string()), "ok"))
    clock_ms = (pc.max(accepted["ts_ms"]).as_py() or 0) - sessions.out_of_order.ms
    expected = expected_sessions(_without(accepted, late), sessions.gap.ms, clock_ms)
    sinks = {name: compare(expected, rows) for name, rows in _final_rows(spec, kafka, clickhouse).items()}

    decoded, rejected = sum(r.decoded for r in receipts), sum(r.rejected for r in receipts)
    too_early = _called_late_too_early(accepted, late, spec, clock_ms)
    missing = sent - decoded - rejected
    lost = max(missing, too_early, *(sink.lost for sink in sinks.values()), 0)
    duplicated = max(-missing, *(sink.duplicated for sink in sinks.values()), 0)
    problems = [
        *_offset_problems(receipts),
        *([f"{missing} records were sent and are neither decoded nor rejected"] if missing > 0 else []),
        *([f"{-missing} more records were read than sent"] if missing < 0 else []),
        *([f"{too_early} records were called late and were not"] if too_early else []),
        *_difference("rejected", rejected, sent - accepted.num_rows),
        *(line for name, sink in sinks.items() for line in _sink_problems(name, sink)),
    ]
    return Audit(
        sent=sent,
        decoded=decoded,
        rejected=rejected,
        late=sum(r.late for r in receipts),
        lost=lost,
        duplicated=duplicated,
        expected=expected.num_rows,
        sinks=sinks,
        problems=tuple(problems),
    )


def _sessions_of(spec: PipelineSpec) -> Sessions:
    if spec.sessions is None:
        raise PenstockError(f"{spec.name} has no sessions to audit")
    return spec.sessions


def read_receipts(journal: Path) -> list[Receipt]:
    """One receipt a batch, in order. A batch that ran twice left two; the later one stands."""
    by_batch = {
        entry.receipt.batch: entry.receipt
        for entry in JournalReader(journal).new()
        if isinstance(entry, Batch)
    }
    return [by_batch[number] for number in sorted(by_batch)]


def _offset_problems(receipts: list[Receipt]) -> list[str]:
    """Each batch must start where the one before it ended, in every partition."""
    problems, reached = [], dict[int, int]()
    for receipt in receipts:
        for partition, (start, end) in receipt.offsets.items():
            before = reached.get(partition, start)
            if start != before:
                word = "skips" if start > before else "repeats"
                problems.append(
                    f"batch {receipt.batch} {word} offsets {min(start, before)} to {max(start, before) - 1} "
                    f"of partition {partition}"
                )
            reached[partition] = end
        if receipt.unaccounted:
            problems.append(
                f"batch {receipt.batch}: {receipt.unaccounted} records read and not accounted for"
            )
    return problems


def _stored(ledgers: list[Ledger], spec: PipelineSpec, kafka: str) -> tuple[pa.Table, int]:
    """The records of all ledgers known to be in the topic, each with its producer; and how many are there.

    Of the records that a killed producer left uncertain, the good ones are looked up by their name. A flawed
    one may have none: as many of those count as sent as the topic holds beyond the others.
    """
    found, in_topic = Counter[Identity](), 0
    uncertain = {ledger.producer for ledger in ledgers if ledger.uncertain}
    if uncertain:
        found, in_topic = _identities_in_topic(kafka, spec.source.topic, uncertain)
    parts, nameless = [], 0
    for ledger in ledgers:
        producer = pa.array([ledger.producer] * ledger.records.num_rows)
        records = ledger.records.append_column("producer", producer)
        status = records["status"].cast(pa.string())
        acknowledged = records.filter(pc.equal(status, "acknowledged"))
        doubtful = records.filter(pc.equal(status, "uncertain"))
        good = pc.equal(doubtful["fate"].cast(pa.string()), "ok")
        nameless += doubtful.num_rows - _sum(good)
        # A repeated event is in the topic once for each of its copies.
        seen = acknowledged["seq"].filter(pc.is_in(acknowledged["seq"], doubtful["seq"].combine_chunks()))
        found.subtract((ledger.producer, seq) for seq in seen.to_pylist())
        there = []
        for seq in doubtful["seq"].to_pylist():
            there.append(found[ledger.producer, seq] > 0)
            found[ledger.producer, seq] -= 1
        parts += [acknowledged, doubtful.filter(pc.and_(good, pa.array(there, pa.bool_())))]
    stored = pa.concat_tables(parts).unify_dictionaries()
    return stored, min(max(in_topic, stored.num_rows), stored.num_rows + nameless)


def _identities_in_topic(kafka: str, topic: str, producers: set[str]) -> tuple[Counter[Identity], int]:
    found: Counter[Identity] = Counter()
    total = 0
    for message in read_topic(kafka, topic):
        total += 1
        identity = _identity(message.value())
        if identity is not None and identity[0] in producers:
            found[identity] += 1
    return found, total


def _identity(value: bytes | None) -> Identity | None:
    try:
        event = json.loads(value or b"")
        return event["producer"], event["seq"]
    except (ValueError, TypeError, KeyError):
        return None


def _late_events(spec: PipelineSpec, kafka: str) -> dict[Identity, int]:
    """How often each event left by the side door, by the dead letters."""
    late: dict[Identity, int] = {}
    for sink in spec.sink:
        if not isinstance(sink, KafkaSink) or "late" not in sink.rows:
            continue
        for message in read_topic(kafka, sink.topic):
            kind = dict(message.headers() or []).get("penstock.kind")
            identity = _identity(message.value()) if kind == b"late" else None
            if identity is not None:
                late[identity] = late.get(identity, 0) + 1
    return late


def _late_mask(events: pa.Table, late: dict[Identity, int]) -> pa.Array:
    """Which events left by the side door; of an event that was sent twice, as many copies as did."""
    names = pc.binary_join_element_wise(events["producer"], events["seq"].cast(pa.string()), "-")
    mask = np.zeros(events.num_rows, dtype=bool)
    left = {f"{producer}-{seq}": count for (producer, seq), count in late.items()}
    candidates = np.flatnonzero(pc.is_in(names, pa.array(list(left), pa.string())).to_numpy())
    for at, name in zip(candidates, names.take(pa.array(candidates)).to_pylist(), strict=True):
        mask[at] = left[name] > 0
        left[name] -= 1
    return pa.array(mask)


def _without(events: pa.Table, late: dict[Identity, int]) -> pa.Table:
    return events.filter(pc.invert(_late_mask(events, late)))


def _called_late_too_early(
    events: pa.Table, late: dict[Identity, int], spec: PipelineSpec, clock_ms: int
) -> int:
    """Late events that were inside the allowed lateness even at the end of all."""
    called = events.filter(_late_mask(events, late))
    allowed_ms = _sessions_of(spec).gap.ms + _sessions_of(spec).lateness.ms
    return _sum(pc.greater(pc.add(called["ts_ms"], allowed_ms), clock_ms))


def _final_rows(spec: PipelineSpec, kafka: str, clickhouse: str) -> dict[str, pa.Table]:
    """All rows that each sink of final sessions holds, by kind of sink."""
    found = {}
    for sink in spec.sink:
        if "final" not in sink.rows:
            continue
        if isinstance(sink, KafkaSink):
            rows = [json.loads(message.value() or b"") for message in read_topic(kafka, sink.topic)]
            found["kafka"] = pa.Table.from_pylist(
                [{name: row[name] for name in _ROW.names} for row in rows], _ROW
            )
        elif isinstance(sink, ClickHouseSink):
            client = connect(clickhouse)
            query = f"SELECT {', '.join(_ROW.names)} FROM {sink.table}"  # noqa: S608  (names of the spec)
            found["clickhouse"] = client.query_arrow(query, use_strings=True).cast(_ROW)
            client.close()
    return found


def _sum(values: pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)


def _difference(what: str, found: int, expected: int) -> list[str]:
    return [] if found == expected else [f"{what}: {found}, expected {expected}"]


def _sink_problems(name: str, sink: Comparison) -> list[str]:
    if not (sink.lost or sink.duplicated or sink.wrong):
        return []
    head = (
        f"{name}: {sink.lost} records lost, {sink.duplicated} duplicated, "
        f"{sink.wrong} sessions with a wrong measure"
    )
    return [head, *(f"  {example}" for example in sink.examples)]


assert set(COMPARED) <= set(_ROW.names)  # noqa: S101  (what is compared must be read)
