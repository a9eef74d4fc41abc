"""How fast events leave: written by the driver, and by several tasks.

The shipped transactions: nested payments in 8 partitions, decoded, checked, flattened; each good one a row,
exactly once. Every number of writers reads the same topic, in batches of the same size.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator
from statistics import median

from penstock.bench.rig import Rig, open_rig
from penstock.engine.outputs import Endpoints
from penstock.engine.pipeline import Pipeline
from penstock.engine.receipt import Receipt
from penstock.paths import shipped
from penstock.produce.transactions import TransactionsPlan
from penstock.produce.wire import Message
from penstock.spec import PipelineSpec, load

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


def told(writers: int, receipts: list[Receipt]) -> str:
    records, seconds = sum(r.records for r in receipts), sum(r.total_ms for r in receipts) / 1000
    compute, write = (
        median(values)
        for values in ([r.compute_ms for r in receipts], [r.sinks[0].write_ms for r in receipts])
    )
    return (
        f"{writers:2} writers {records / seconds:9,.0f}/s   compute {compute:6.0f} ms, write {write:6.0f} ms"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--store", choices=["kafka", "clickhouse", "postgres"], default="postgres")
    options.add_argument("--events", type=int, default=200_000)
    options.add_argument("--batch", type=int, default=20_000)
    options.add_argument("--writers", type=int, nargs="+", default=[1, 2, 4])
    options.add_argument("--rounds", type=int, default=2, help="the first is the warm-up")
    given = options.parse_args()
    first = described(given.store, 1, given.batch, 0)
    with open_rig(first, print, sorted({"kafka", given.store})) as rig:
        events = rig.fill(_TOPIC, first.source.partitions, payments(given.events))
        number = 0
        for turn in range(given.rounds):
            for writers in given.writers:
                number += 1
                receipts = run(rig, described(given.store, writers, given.batch, number), events)
                print(f"round {turn}  {given.store:10} {told(writers, receipts)}", flush=True)


if __name__ == "__main__":
    main()
