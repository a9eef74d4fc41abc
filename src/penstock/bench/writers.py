"""How fast events leave: written by the driver, and by several tasks.

The shipped transactions: nested payments in 8 partitions, decoded, checked, flattened; each good one a row,
exactly once. Every number of writers reads the same topic, in batches of the same size.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from penstock.bench.result import Column, Result, Row, Spread, in_words
from penstock.bench.rig import Rig, open_rig
from penstock.engine.outputs import Endpoints
from penstock.engine.pipeline import Pipeline
from penstock.engine.receipt import Receipt
from penstock.paths import shipped
from penstock.produce.transactions import TransactionsPlan
from penstock.produce.wire import Message
from penstock.spec import PipelineSpec, load

COLUMNS = (
    Column("store", "store"),
    Column("writers", "writers"),
    Column("rows_per_s", "rows/s", drawn=True),
    Column("compute_ms", "compute, ms"),
    Column("write_ms", "write, ms"),
)
STORES = ("kafka", "clickhouse", "postgres")
_CHUNK = 1_000
_TOPIC = "payments"
# Of the types that JSON has.
_COLUMNS = ["transaction_id", "state", "currency", "method", "last4", "customer_id", "country", "first_sku"]


def payments(events: int) -> Iterator[list[Message]]:
    plan = TransactionsPlan()
    stream, encoder = plan.records("bench", 1.0), plan.encoder("bench")
    for sent in range(0, events, _CHUNK):
        yield encoder.encode(stream.chunk(min(_CHUNK, events - sent), time.time_ns() // 1_000_000))


def described(store: str, writers: int, batch: int, number: int) -> PipelineSpec:
    """The shipped pipeline with one sink, on a checkpoint and a target of its own."""
    name = f"bench{number}"
    settings = {"name": name, "source.topic": _TOPIC, "source.max_batch": str(batch)}
    spec = load(shipped("pipelines") / "transactions.toml", environ={}, overrides=settings)
    target = {"kafka": "topic", "clickhouse": "table", "postgres": "table"}[store]
    sink = {"rows": "events", "key": "transaction_id", "columns": _COLUMNS, "writers": writers}
    given = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    return PipelineSpec(**{**given, "sink": [{"kind": store, target: name, **sink}]})


def run(rig: Rig, spec: PipelineSpec, events: int) -> list[Receipt]:
    """The receipts of all batches but the first, in which Spark compiles and workers start."""
    at = Endpoints(rig.addresses.kafka, rig.addresses.clickhouse, rig.addresses.postgres)
    stop, receipts = threading.Event(), list[Receipt]()

    def keep(receipt: Receipt) -> None:
        receipts.append(receipt)
        if sum(one.records for one in receipts) >= events:
            stop.set()

    pipeline = Pipeline(spec, rig.data, at, rig.spark, on_receipt=keep, say=lambda _: None)
    try:
        pipeline.run(stop)
    finally:
        pipeline.close()
    return receipts[1:]


def measure(
    store: str, events: int, batch: int, several: Sequence[int], rounds: int, say: Callable[[str], None]
) -> Result:
    """Every number of writers in turns; the first round is the warm-up."""
    first = described(store, 1, batch, 0)
    found: dict[int, list[list[Receipt]]] = {}
    with open_rig(first, say, sorted({"kafka", store})) as rig:
        events = rig.fill(_TOPIC, first.source.partitions, payments(events))
        for number in range(rounds + 1):
            for writers in several:
                name = number * len(several) + several.index(writers) + 1
                receipts = run(rig, described(store, writers, batch, name), events)
                say(f"round {number}  {store:10} {writers:2} writers {_eps(receipts):9,.0f}/s")
                if number:
                    found.setdefault(writers, []).append(receipts)
    return Result(
        "writers",
        f"{events:,} payments in batches of {batch:,}, each a row in {store}, exactly once;"
        f" {in_words(rounds)} in turns behind one that warms up. One writer is the driver, more are tasks.",
        COLUMNS,
        [_row(store, writers, runs) for writers, runs in found.items()],
    )


def _eps(receipts: Sequence[Receipt]) -> float:
    return sum(r.records for r in receipts) / (sum(r.total_ms for r in receipts) / 1000)


def _row(store: str, writers: int, runs: Sequence[Sequence[Receipt]]) -> Row:
    return {
        "store": store,
        "writers": writers,
        "rows_per_s": Spread.of([_eps(receipts) for receipts in runs]),
        "compute_ms": Spread.of([median(r.compute_ms for r in receipts) for receipts in runs]),
        "write_ms": Spread.of([median(r.sinks[0].write_ms for r in receipts) for receipts in runs]),
    }
