"""How old a click is when the session it belongs to shows it, in ClickHouse and every other sink.

    python -m penstock.bench.live --rate 20000 --seconds 60

The clickstream as shipped, each click of a user drawn at random from all: the hardest case for the state,
since hardly two clicks of a batch belong to the same session. Services, pipeline and producer share the
machine and the clock, so what the machine lacks is in the figures.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.bench.rig import alone
from penstock.bench.running import running_pipeline
from penstock.cli.producing import produce_records
from penstock.cli.running import journal_path
from penstock.engine.receipt import Receipt
from penstock.local.services import Services
from penstock.observe.journal import Batch, JournalReader
from penstock.observe.latency import Latency, Percentiles
from penstock.paths import DataDir, shipped
from penstock.produce.clickstream import ClickstreamPlan
from penstock.spec import PipelineSpec, Rate, load

_DRAINED_WITHIN_S = 60.0


@dataclass(frozen=True)
class Outcome:
    """What one run measured, of batches that began after the warm-up and before the producer ended."""

    rate_eps: float
    achieved_eps: float
    """Below the rate, the machine was too busy to make the load, and the latencies are of another one."""
    users: int
    sessions: int
    batches: int
    batch_ms: dict[str, float]
    """What a batch took on average, by phase."""
    latency_ms: Percentiles
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
    services.start()
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
    phases = [_phases_ms(batch.receipt) for batch in counted]
    return Outcome(
        rate_eps=rate.eps,
        achieved_eps=round(sent.achieved_eps),
        users=users,
        sessions=sum(batch.receipt.opened for batch in batches),
        batches=len(counted),
        batch_ms={name: round(sum(each[name] for each in phases) / len(phases), 1) for name in phases[0]},
        latency_ms=latency.percentiles(),
        sent=sent.acknowledged,
        read=sum(batch.receipt.records for batch in batches),
        producer_behind_ms_max=round(sent.behind_ms_max, 1),
    )


def _phases_ms(receipt: Receipt) -> dict[str, float]:
    written = {f"write {sink.name}": sink.write_ms for sink in receipt.sinks}
    return {"compute": receipt.compute_ms, **written, "total": receipt.total_ms}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rate", default="20000", help="events a second")
    parser.add_argument("--users", type=int, default=200_000, help="how many there are to draw from")
    parser.add_argument("--seconds", type=float, default=60, help="how long to measure")
    parser.add_argument("--warm-up", type=float, default=120, help="seconds before that")
    parser.add_argument("--set", nargs="*", default=[], help="settings of the pipeline, key=value")
    parser.add_argument("--keep", type=Path, help="a data directory to use and keep")
    given = parser.parse_args()
    home = TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True)
    with alone(), home as directory:
        data = DataDir.at(given.keep or Path(directory))
        settings = dict(setting.split("=", 1) for setting in given.set)
        outcome = measure(data, Rate.parse(given.rate), given.users, given.seconds, given.warm_up, settings)
    sys.stdout.write(json.dumps(asdict(outcome), indent=1) + "\n")
    sys.exit(0 if outcome.read == outcome.sent else 1)


if __name__ == "__main__":
    main()
