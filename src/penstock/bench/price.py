"""What exactly once costs: the clickstream with every sink exactly once, and at least once, in turns.

    python -m penstock.bench.price --rounds 3

Throughput is of a topic that is full already; latency is of clicks that come at a steady rate. Both kinds of
run share one Spark, one Kafka and one ClickHouse, one after the other; the first round is the warm-up.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from penstock.bench.rig import Rig, open_rig
from penstock.bench.stages import clicks
from penstock.engine.outputs import Endpoints
from penstock.engine.pipeline import READY, Pipeline
from penstock.engine.receipt import Receipt
from penstock.observe.latency import Latency
from penstock.observe.recorder import Recorder
from penstock.paths import shipped
from penstock.produce.clickstream import ClickstreamPlan
from penstock.spec import PipelineSpec, load, to_toml

GUARANTEES = ("exactly_once", "at_least_once")
_BATCH = 50_000
_WARM_UP_S = 10.0
_FULL = "price-full"


@dataclass(frozen=True)
class Price:
    """What was measured of one guarantee in one round."""

    eps: float
    p50_ms: float
    p99_ms: float


def described(guarantee: str, topic: str, run: str) -> PipelineSpec:
    """The shipped pipeline with a name, topics and tables of its own."""
    overrides = {
        "name": run,
        "source.topic": topic,
        "source.max_batch": str(_BATCH),
        "cleanse.future": "20000 days",
        # Sessions end while it is measured: most rows are final ones, and those go to three sinks.
        "sessions.gap": "5 seconds",
        "sessions.lateness": "5 seconds",
        "sink.0.topic": f"{run}-sessions",
        "sink.1.table": f"{run}_live".replace("-", "_"),
        "sink.2.table": f"{run}_sessions".replace("-", "_"),
        "sink.3.topic": f"{run}-dead",
        **{f"sink.{number}.guarantee": guarantee for number in (0, 2, 3)},
    }
    return load(shipped("pipelines") / "clickstream.toml", environ={}, overrides=overrides)


class Run:
    """A pipeline in this process, until it is told to stop; watched by a recorder, or by nobody."""

    def __init__(self, rig: Rig, spec: PipelineSpec, recorder: Recorder | None = None) -> None:
        at = Endpoints(rig.addresses.kafka, rig.addresses.clickhouse, rig.addresses.postgres)
        self.receipts: list[tuple[float, Receipt]] = []
        self.ready = threading.Event()
        self._stop = threading.Event()
        self._recorder = recorder
        self._pipeline = Pipeline(
            spec, rig.data, at, rig.spark, on_receipt=self._keep, on_progress=self._report, say=self._say
        )
        self._thread = threading.Thread(target=self._pipeline.run, args=[self._stop])

    def _keep(self, receipt: Receipt) -> None:
        self.receipts.append((time.perf_counter(), receipt))
        if self._recorder:
            self._recorder.receipt(receipt)

    def _report(self, report: dict[str, Any]) -> None:
        if self._recorder:
            self._recorder.progress(report)

    def _say(self, text: str) -> None:
        if text == READY:
            self.ready.set()

    def __enter__(self) -> Run:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._pipeline.close()


def throughput_eps(rig: Rig, guarantee: str, events: int, run: str) -> tuple[float, str]:
    """Records a second from the end of the first batch to the end of the last, and where the time went."""
    with Run(rig, described(guarantee, _FULL, run)) as pipeline:
        while sum(receipt.records for _, receipt in pipeline.receipts) < events:
            time.sleep(0.05)
    (began, first), *_, (ended, _) = pipeline.receipts
    return (events - first.records) / (ended - began), _spent(
        [receipt for _, receipt in pipeline.receipts[1:]]
    )


def _spent(receipts: Sequence[Receipt]) -> str:
    """Medians of a batch."""
    times = {"compute": median(receipt.compute_ms for receipt in receipts)}
    for number, sink in enumerate(receipts[0].sinks):
        times[sink.name] = median(receipt.sinks[number].write_ms for receipt in receipts)
    times["batch"] = median(receipt.total_ms for receipt in receipts)
    return ", ".join(f"{name} {milliseconds:,.0f}" for name, milliseconds in times.items()) + " ms"


def latency_ms(rig: Rig, guarantee: str, rate: int, seconds: float, run: str) -> tuple[float, float]:
    """p50 and p99 from creation to visible, of the batches behind the warm-up."""
    spec = described(guarantee, f"{run}-clicks", run)
    rig.fill(spec.source.topic, spec.source.partitions, iter(()))
    file = rig.data.root / f"{run}.toml"
    file.write_text(to_toml(spec))
    sending = ["produce", str(file), "--data", str(rig.data.root), "--rate", str(rate)]
    with Run(rig, spec) as pipeline:
        pipeline.ready.wait()
        subprocess.run(
            [sys.executable, "-m", "penstock.cli", *sending, "--seconds", str(seconds + _WARM_UP_S)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    began_ms = pipeline.receipts[0][1].started_at_ms + _WARM_UP_S * 1000
    seen = Latency()
    for _, receipt in pipeline.receipts:
        if receipt.started_at_ms > began_ms:
            seen.add(Latency.of(receipt.latency_ms))
    found = seen.percentiles()
    return found.p50, found.p99


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--events", type=int, default=600_000, help="in the topic that is full")
    options.add_argument("--rate", type=int, default=3_000, help="events a second, for the latency")
    options.add_argument("--seconds", type=float, default=30, help="how long to measure the latency")
    options.add_argument("--rounds", type=int, default=3, help="the first is the warm-up")
    given = options.parse_args()
    spec = described(GUARANTEES[0], _FULL, "price")
    measured: dict[str, list[Price]] = {guarantee: [] for guarantee in GUARANTEES}
    with open_rig(spec, print, ["kafka", "clickhouse"]) as rig:
        plan = ClickstreamPlan.fitting(spec, seed=7)
        plan.write_reference(rig.data.reference)
        events = rig.fill(_FULL, spec.source.partitions, clicks(plan, given.events))
        for number in range(given.rounds):
            for guarantee in GUARANTEES:
                run = f"price-{number}-{guarantee.split('_')[0]}"
                eps, spent = throughput_eps(rig, guarantee, events, f"{run}-full")
                price = Price(eps, *latency_ms(rig, guarantee, given.rate, given.seconds, run))
                measured[guarantee].append(price)
                print(
                    f"round {number}  {guarantee:14} {price.eps:9,.0f}/s   p50 {price.p50_ms:6,.0f} ms"
                    f"   p99 {price.p99_ms:6,.0f} ms   ({spent})",
                    flush=True,
                )
    once, least = (measured[guarantee][1:] for guarantee in GUARANTEES)
    for what, value in (("throughput", "eps"), ("p50", "p50_ms"), ("p99", "p99_ms")):
        ratio = median(getattr(p, value) for p in once) / median(getattr(p, value) for p in least)
        print(f"{what}, exactly once / at least once: {ratio:.2f}")


if __name__ == "__main__":
    main()
