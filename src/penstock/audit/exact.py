"""Nothing lost, nothing doubled: what producers sent against what the pipeline says and its sinks hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.audit.compare import Comparison, compare
from penstock.audit.held import Letters, dead_letters, held_rows, newest_tick_ms
from penstock.audit.reconcile import continuity
from penstock.audit.sent import Identity, Sent, among, read_sent
from penstock.deadletters.marks import count_marks
from penstock.engine.clock import clock_topic
from penstock.engine.outputs import Endpoints
from penstock.engine.receipt import Receipt
from penstock.errors import PenstockError
from penstock.observe.journal import Batch, JournalReader
from penstock.paths import DataDir
from penstock.produce.ledger import read_ledgers
from penstock.produce.oracle import forgotten_ms
from penstock.produce.workload import Expected
from penstock.spec import KafkaSink, PipelineSpec

_ASIDE = {"rejected": "rejected", "late": "late", "duplicate": "duplicates", "refused": "refused"}
"""Rows that single records leave as, and where receipts count them."""


@dataclass(frozen=True)
class Audit:
    """The outcome; `lost` and `duplicated` count records, at the place where most are missing or too many."""

    results_are: str
    """Sessions, windows or transactions: what sinks hold."""
    sent: int
    decoded: int
    rejected: int
    late: int
    lost: int
    duplicated: int
    expected: int
    """Results that must have come out, for good."""
    sinks: dict[str, Comparison]
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.problems


def audit(spec: PipelineSpec, data: DataDir, at: Endpoints) -> Audit:
    """Reconcile a stopped or idle pipeline with the ledgers of its producers."""
    ledgers = read_ledgers(data.produced / spec.name)
    if not ledgers:
        raise PenstockError(
            f"nothing to audit: {data.produced / spec.name} holds no record of what was sent",
            hint=f"Send events with: penstock produce {spec.name}",
        )
    plan = ledgers[0].plan
    receipts = read_receipts(data.runs / spec.name / "journal.jsonl")
    queries = [
        [r for r in receipts if r.query == query] for query in dict.fromkeys(r.query for r in receipts)
    ]
    # The query that makes sessions or windows has the pipeline's name, and so has its only one.
    main = [receipt for receipt in receipts if receipt.query == spec.name]
    sent = read_sent(ledgers, spec.source.topic, at.kafka)
    letters = _letters(spec, at.kafka)
    # The producers' ledgers know nothing of records that were put back, and the topic holds them once more.
    replayed = sum(
        count_marks(at.kafka, sink.topic)
        for sink in spec.sink
        if isinstance(sink, KafkaSink) and sink.name in letters
    )
    late = {name: count for found in letters.values() for name, count in found.late.items()}
    again = {name: count for found in letters.values() for name, count in found.duplicate.items()}
    clock_ms = _clock_ms(spec, sent, at.kafka) if main else 0
    once = sent.good.filter(pc.invert(among(sent.good, again)))
    expected = plan.expected(spec, once.filter(pc.invert(among(once, late))), clock_ms)
    sinks = {
        **_compared(spec, expected, at),
        **{name: _letters_compared(spec, name, found, main) for name, found in letters.items()},
    }
    too_early = _called_late_too_early(once, late, spec, clock_ms)
    unique = _called_duplicate_wrongly(once, again)
    to_read = sent.count + replayed
    missing = [to_read - sum(r.decoded + r.rejected for r in each) for each in queries] or [to_read]
    rejected = sum(r.rejected for r in main)
    result = expected.get("final", expected.get("events"))
    return Audit(
        results_are=plan.results_are,
        sent=sent.count,
        decoded=sum(r.decoded for r in main),
        rejected=rejected,
        late=sum(r.late for r in main),
        lost=max(*missing, too_early, unique, *(sink.lost for sink in sinks.values()), 0),
        duplicated=max(*(-number for number in missing), *(sink.duplicated for sink in sinks.values()), 0),
        expected=result.rows.num_rows if result else 0,
        sinks=sinks,
        problems=(
            *(line for each in queries for line in _offset_problems(each, markers=replayed > 0)),
            *(line for number in missing for line in _missing_problems(number)),
            *([f"{too_early} records were called late and were not"] if too_early else []),
            *([f"{unique} records were called duplicate and came once"] if unique else []),
            *_rejected_problems(rejected, sent.count - sent.good.num_rows, replayed),
            *([] if result and sinks else ["no sink holds what the audit could compare"]),
            *(line for name, sink in sinks.items() for line in _sink_problems(name, sink)),
        ),
    )


def read_receipts(journal: Path) -> list[Receipt]:
    """One receipt for each batch of each query, in order. Of a batch that ran twice the later one stands."""
    by_batch = {
        (entry.receipt.query, entry.receipt.batch): entry.receipt
        for entry in JournalReader(journal).new()
        if isinstance(entry, Batch)
    }
    return [by_batch[place] for place in sorted(by_batch)]


def _offset_problems(receipts: list[Receipt], *, markers: bool = False) -> list[str]:
    """Where the topic holds markers of transactions, offsets are more than records."""
    unaccounted = [
        f"{receipt.query}: batch {receipt.batch}: {receipt.unaccounted} records read and not accounted for"
        for receipt in receipts
        if receipt.unaccounted < 0 or (receipt.unaccounted and not markers)
    ]
    return [*continuity(receipts).problems, *unaccounted]


def _clock_ms(spec: PipelineSpec, sent: Sent, kafka: str) -> int:
    """Where the clock stands once all records and ticks are through."""
    if spec.grouping is None:
        return 0
    newest_ms = pc.max(sent.good["ts_ms"]).as_py() or 0
    return max(newest_ms, newest_tick_ms(clock_topic(spec), kafka)) - spec.grouping.out_of_order.ms


def _called_late_too_early(
    good: pa.Table, late: Mapping[Identity, int], spec: PipelineSpec, clock_ms: int
) -> int:
    """Late records that were inside the allowed lateness even at the end of all."""
    called = good.filter(among(good, late))
    return int((forgotten_ms(spec, called["ts_ms"].to_numpy()) > clock_ms).sum())


def _called_duplicate_wrongly(once: pa.Table, again: Mapping[Identity, int]) -> int:
    """Records of which no copy is left when those that were called duplicates are taken away."""
    left = set(zip(once["producer"].to_pylist(), once["seq"].to_pylist(), strict=True)) if again else set()
    return sum(name not in left for name in again)


def _compared(spec: PipelineSpec, expected: Mapping[str, Expected], at: Endpoints) -> dict[str, Comparison]:
    found = {}
    for sink in spec.sink:
        kind = next((kind for kind in ("live", "final", "events") if kind in sink.rows), "")
        if kind in expected:
            rows = held_rows(spec, sink, expected[kind].rows.schema, at)
            found[sink.name] = compare(expected[kind], rows, exactly_once=sink.guarantee == "exactly_once")
    return found


def _letters(spec: PipelineSpec, kafka: str) -> dict[str, Letters]:
    return {
        sink.name: dead_letters(sink, spec.name, kafka)
        for sink in spec.sink
        if isinstance(sink, KafkaSink) and set(sink.rows) & set(_ASIDE)
    }


def _letters_compared(spec: PipelineSpec, name: str, letters: Letters, receipts: list[Receipt]) -> Comparison:
    """Every record that was set aside must have left one letter."""
    [sink] = [sink for sink in spec.sink if sink.name == name]
    counters = [counter for kind, counter in _ASIDE.items() if kind in sink.rows]
    expected = sum(getattr(receipt, counter) for receipt in receipts for counter in counters)
    repeated = letters.total - len(letters.origins) if sink.guarantee == "exactly_once" else 0
    short = expected - len(letters.origins)
    return Comparison(
        expected, len(letters.origins), lost=max(short, 0), duplicated=max(-short, 0) + repeated
    )


def _missing_problems(missing: int) -> list[str]:
    if missing > 0:
        return [f"{missing} records were sent and are neither decoded nor rejected"]
    return [f"{-missing} more records were read than sent"] if missing else []


def _rejected_problems(found: int, expected: int, replayed: int) -> list[str]:
    """Any of the records that were replayed may have been rejected again."""
    if expected <= found <= expected + replayed:
        return []
    most = f" to {expected + replayed}" if replayed else ""
    return [f"rejected: {found}, expected {expected}{most}"]


def _sink_problems(name: str, sink: Comparison) -> list[str]:
    if sink.agrees:
        return []
    head = (
        f"{name}: {sink.lost} records lost, {sink.duplicated} duplicated, "
        f"{sink.wrong} rows with a wrong value"
    )
    return [head, *(f"  {example}" for example in sink.examples)]
