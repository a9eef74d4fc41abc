"""How old a click is when the session it belongs to shows it, in ClickHouse and every other sink.

The clickstream as shipped, each click of a user drawn at random from all: the hardest case for the state,
since hardly two clicks of a batch belong to the same session. Services, pipeline and producer share the
machine and the clock, so what the machine lacks is in the figures.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.audit.topic import read_topic
from penstock.bench.breakdown import PARTS, breakdown, stamped
from penstock.bench.running import running_pipeline
from penstock.cli.producing import produce_records
from penstock.cli.running import journal_path
from penstock.local.services import Services
from penstock.observe.journal import Batch, JournalReader
from penstock.observe.latency import Latency, Percentiles
from penstock.paths import DataDir, shipped
from penstock.produce.clickstream import ClickstreamPlan
from penstock.spec import PipelineSpec, Rate, load

_DRAINED_WITHIN_S = 60.0
_SINK = "sessions_live"

SETTINGS = {"sessions.partitions": "2"}
"""As many as this kind of machine has cores: more would only cost more commits."""


@dataclass(frozen=True)
class Outcome:
    """What one run measured, of batches that began after the warm-up and before the producer ended."""

    rate_eps: float
    achieved_eps: float
    """Below the rate, the machine was too busy to make the load, and the latencies are of another one."""
    users: int
    sessions: int
    batches: int
    batch_ms: float
    """What a batch took on average."""
    parts_ms: dict[str, float]
    """Where the time of an event went on average; all of them together are its latency."""
    latency_ms: Percentiles
    p999_ms: int
    sent: int
    read: int
    producer_behind_ms_max: float


def uniform(spec: PipelineSpec, users: int, rate: Rate) -> ClickstreamPlan:
    """All users are there at once, and each click is of any of them."""
    plan = ClickstreamPlan.fitting(spec, seed=7)
    return replace(plan, users=users, mean_clicks=1e9, think_time_ms=round(users / rate.eps * 1000))


def measure(
    data: DataDir, rate: Rate, users: int, seconds: float, warm_up_s: float, settings: Mapping[str, str]
) -> Outcome:
    spec = load(shipped("pipelines") / "clickstream.toml", overrides=settings)
    plan = uniform(spec, users, rate)
    plan.write_reference(data.reference)
    services = Services(data, tie_to_parent=True, only=("kafka", "clickhouse"))
    kafka = services.start().kafka
    try:
        with running_pipeline(data, spec):
            journal = JournalReader(journal_path(data, spec))
            began_ms = time.time() * 1000
            sent = produce_records(
                spec, data, rate, seconds + warm_up_s, plan, threading.Event(), False, data.root / "stats"
            )
            # Behind that the producer writes its ledger, and takes a core for seconds.
            ended_ms = began_ms + (warm_up_s + seconds) * 1000
            batches: list[Batch] = []
            deadline_s = time.monotonic() + _DRAINED_WITHIN_S
            while sum(batch.receipt.records for batch in batches) < sent.acknowledged:
                batches += [entry for entry in journal.new() if isinstance(entry, Batch)]
                if time.monotonic() > deadline_s:
                    break
                time.sleep(0.2)
            receipts = [batch.receipt for batch in batches]
            from_ms = began_ms + warm_up_s * 1000
            spent = breakdown(
                stamped(read_topic(kafka, spec.source.topic)), receipts, _SINK, from_ms, ended_ms
            )
    finally:
        services.stop()
    counted = [
        batch
        for batch in batches
        if began_ms + warm_up_s * 1000 < batch.receipt.started_at_ms and batch.at_ms < ended_ms
    ]
    latency = Latency()
    for batch in counted:
        latency.add(batch.latency)
    return Outcome(
        rate_eps=rate.eps,
        achieved_eps=round(sent.achieved_eps),
        users=users,
        sessions=sum(batch.receipt.opened for batch in batches),
        batches=len(counted),
        batch_ms=round(sum(batch.receipt.total_ms for batch in counted) / len(counted), 1),
        parts_ms=dict(zip(PARTS, spent.mean(axis=0).round(1).tolist(), strict=True)),
        latency_ms=latency.percentiles(),
        p999_ms=latency.at(99.9),
        sent=sent.acknowledged,
        read=sum(batch.receipt.records for batch in batches),
        producer_behind_ms_max=round(sent.behind_ms_max, 1),
    )
