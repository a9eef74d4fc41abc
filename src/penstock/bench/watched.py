"""What it costs to be watched: the clickstream with nobody looking, observed, and audited as well, in turns.

    python -m penstock.bench.watched --rounds 3

Observed is all that `penstock run` does: journal, samples, lag, consumer group, Kafka's health. Audited is a
look at offsets and rows every five seconds beside it, as in a demo. All runs read the same full topic, one
after the other; the first round is the warm-up.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from statistics import median

import psutil

from penstock.audit.auditor import Auditor, looking
from penstock.bench.guarantees import described
from penstock.bench.inprocess import Run
from penstock.bench.rig import Rig, open_rig
from penstock.bench.stages import clicks
from penstock.engine.outputs import Endpoints
from penstock.local.kafka import exporters
from penstock.observe.brokers import BrokerMeter
from penstock.observe.lag.ends import TopicEnds
from penstock.observe.lag.group import GroupOffsets
from penstock.observe.recorder import Recorder
from penstock.observe.run import journal_file
from penstock.produce.clickstream import ClickstreamPlan
from penstock.spec import PipelineSpec

KINDS = ("alone", "observed", "audited")
_TOPIC = "watched-full"
_AUDIT_EVERY_S = 5.0
_WITHIN_S = 300.0


@dataclass(frozen=True)
class Figures:
    """Of one run, from the end of its first batch to the end of its last."""

    eps: float
    cpu_s_per_million: float
    """Of Python and Spark; brokers and stores not counted."""


@contextmanager
def recorded(rig: Rig, spec: PipelineSpec) -> Iterator[Recorder]:
    """All that `penstock run` has look on."""
    kafka = rig.addresses.kafka
    ends = TopicEnds(kafka, spec.source.topic, spec.source.partitions)
    group = GroupOffsets(kafka, spec.source.topic)
    brokers = BrokerMeter(kafka, exporters(rig.data))
    journal = journal_file(rig.data.runs / spec.name)
    journal.parent.mkdir(parents=True, exist_ok=True)
    with Recorder(journal, ends, group, brokers, spec.name, {}) as recorder:
        recorder.watch(rig.spark)
        yield recorder


@contextmanager
def audited(rig: Rig, spec: PipelineSpec) -> Iterator[None]:
    """An auditor that looks on."""
    at = Endpoints(rig.addresses.kafka, rig.addresses.clickhouse, rig.addresses.postgres)
    with Auditor(spec, rig.data, at) as auditor, looking(auditor, _AUDIT_EVERY_S, lambda _: None):
        yield


def measure(rig: Rig, kind: str, events: int, run: str) -> Figures:
    spec = described("exactly_once", _TOPIC, run)
    watching = nullcontext() if kind == "alone" else recorded(rig, spec)
    with watching as recorder, Run(rig, spec, recorder) as pipeline:
        pipeline.wait_for(1, _WITHIN_S)
        before_s = _cpu_s(rig)
        with audited(rig, spec) if kind == "audited" else nullcontext():
            pipeline.wait_for(events, _WITHIN_S)
            used_s = _cpu_s(rig) - before_s
    (began, first), *_, (ended, _) = pipeline.receipts
    counted = events - first.records
    return Figures(counted / (ended - began), used_s / counted * 1e6)


def _cpu_s(rig: Rig) -> float:
    times = [process.cpu_times() for process in (psutil.Process(), rig.jvm)]
    return float(sum(one.user + one.system for one in times))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--events", type=int, default=1_000_000, help="in the topic")
    options.add_argument("--rounds", type=int, default=3, help="the first is the warm-up")
    given = options.parse_args()
    spec = described("exactly_once", _TOPIC, "watched")
    measured: dict[str, list[Figures]] = {kind: [] for kind in KINDS}
    with open_rig(spec, print, ["kafka", "clickhouse"]) as rig:
        plan = ClickstreamPlan.fitting(spec, seed=7)
        plan.write_reference(rig.data.reference)
        events = rig.fill(_TOPIC, spec.source.partitions, clicks(plan, given.events))
        for number in range(given.rounds):
            # Whoever is first pays for what the last one left.
            for kind in [*KINDS[number % 3 :], *KINDS[: number % 3]]:
                found = measure(rig, kind, events, f"watched-{number}-{kind}")
                measured[kind].append(found)
                cpu = f"{found.cpu_s_per_million:5.1f} CPU-s a million"
                print(f"round {number}  {kind:9} {found.eps:9,.0f}/s   {cpu}", flush=True)
    for kind in KINDS[1:]:
        for what in ("eps", "cpu_s_per_million"):
            ours, plain = (median(getattr(one, what) for one in measured[k][1:]) for k in (kind, "alone"))
            print(f"{kind} / alone, {what}: {ours / plain:.3f}")


if __name__ == "__main__":
    main()
