"""How right the clocks are: lag in time against the records', end-to-end latency against a reader's.

The latency of an event is from its creation, which the producer stamps, to the moment its sink's rows can be
read, which the pipeline stamps. Readers that look all the time, one of the topic and one of the table, note
when they see the first row of each batch; the difference is the error of every latency of that batch.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from penstock.bench.guarantees import described
from penstock.bench.inprocess import Run
from penstock.bench.lagtime import Off
from penstock.bench.lagtime import measure as measure_lag
from penstock.bench.result import Column, Result, Row
from penstock.bench.rig import Rig, open_rig
from penstock.bench.running import produce
from penstock.produce.clickstream import ClickstreamPlan
from penstock.sinks.clickhouse import connect
from penstock.sinks.topics import QUIET, ensure_topics
from penstock.spec import PipelineSpec, to_toml

COLUMNS = (
    Column("what", "what"),
    Column("samples", "samples"),
    Column("median_ms", "off by, median ms", 1, drawn=True),
    Column("p99_ms", "p99 ms", 1),
    Column("max_ms", "max ms", 1),
    Column("outside", "outside of its bounds"),
)
_LOOK_S = 0.002
_WITHIN_S = 120.0

Seen = dict[int, int]
"""When the first row of a batch was seen."""


def measure(rate: int, seconds: float, say: Callable[[str], None]) -> Result:
    spec = described("exactly_once", "accuracy-clicks", "accuracy")
    with open_rig(spec, say, ("kafka", "clickhouse")) as rig:
        off = measure_lag(rig.addresses.kafka, round(seconds))
        off += _visible(rig, spec, rate, seconds)
    return Result(
        "accuracy",
        f"Lag in time: records at rates that change each second for {seconds:.0f} s, looked at once a second,"
        f" against the times in them. Visible: {rate:,} clicks a second for {seconds:.0f} s, the moment that"
        " the pipeline tells for each batch against the moment that a reader sees it.",
        COLUMNS,
        [_row(one) for one in off],
    )


def _row(off: Off) -> Row:
    errors = np.array(off.errors_ms or [0.0])
    median, p99, most = np.percentile(errors, [50, 99, 100]).tolist()
    return {
        "what": off.what,
        "samples": len(off.errors_ms),
        "median_ms": median,
        "p99_ms": p99,
        "max_ms": most,
        "outside": off.outside,
    }


def _visible(rig: Rig, spec: PipelineSpec, rate: int, seconds: float) -> list[Off]:
    ClickstreamPlan.fitting(spec, seed=7).write_reference(rig.data.reference)
    rig.fill(spec.source.topic, spec.source.partitions, iter(()))
    file = rig.data.root / "accuracy.toml"
    file.write_text(to_toml(spec))
    topic, live = spec.sink[0], spec.sink[1]
    ensure_topics(rig.addresses.kafka, {topic.target: spec.source.partitions})
    with Run(rig, spec) as pipeline:
        pipeline.ready.wait(_WITHIN_S)
        with (
            _looking(lambda over: _of_topic(rig.addresses.kafka, topic.target, over)) as in_topic,
            _looking(lambda over: _of_table(rig.addresses.clickhouse, live.target, over)) as in_table,
        ):
            produce(rig.data, file, rate, seconds)
            time.sleep(2.0)
    told = [receipt for _, receipt in pipeline.receipts]
    return [
        Off(f"visible in {where}", list(_errors(told_at, seen)))
        for where, name, seen in (("Kafka", topic.name, in_topic), ("ClickHouse", live.name, in_table))
        for told_at in [{r.batch: s.visible_at_ms for r in told for s in r.sinks if s.name == name}]
    ]


def _errors(told: Mapping[int, int], seen: Seen) -> Iterator[float]:
    return (abs(float(told[batch] - at_ms)) for batch, at_ms in seen.items() if batch in told)


@contextmanager
def _looking(look: Callable[[threading.Event], Iterator[int]]) -> Iterator[Seen]:
    """A reader beside what runs; the batches that it saw, when there are any more."""
    seen: Seen = {}
    over = threading.Event()

    def run() -> None:
        for batch in look(over):
            seen.setdefault(batch, time.time_ns() // 1_000_000)

    reader = threading.Thread(target=run, daemon=True)
    reader.start()
    try:
        yield seen
    finally:
        over.set()
        reader.join()


def _of_topic(bootstrap: str, topic: str, over: threading.Event) -> Iterator[int]:
    """The batch of each row that comes, as soon as it can be read."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "penstock-bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            **QUIET,
        }
    )
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    while not over.is_set():
        for message in consumer.consume(1_000, _LOOK_S):
            yield int(json.loads(message.value() or b"{}")["batch"])
    consumer.close()


def _of_table(address: str, table: str, over: threading.Event) -> Iterator[int]:
    """The newest batch that the table holds, asked for again and again."""
    client, given = connect(address), {"table": table}
    while not over.is_set():
        time.sleep(_LOOK_S)
        if client.command("EXISTS TABLE {table:Identifier}", given):
            [[newest]] = client.query("SELECT max(batch) FROM {table:Identifier}", given).result_rows
            yield int(newest)
