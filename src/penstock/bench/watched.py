"""What it costs to be watched: the clickstream with nobody looking, observed, and audited as well, in turns.

Observed is all that `penstock run` does: journal, samples, lag, consumer group, Kafka's health. Audited is a
look at offsets and rows every five seconds beside it, as in a demo. All runs read the same full topic, one
after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from statistics import median

import psutil

from penstock.audit.auditor import Auditor, looking
from penstock.bench.guarantees import described
from penstock.bench.inprocess import Run
from penstock.bench.result import Column, Result, Spread, in_words
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
COLUMNS = (
    Column("kind", "watched by"),
    Column("events_per_s", "events/s", drawn=True),
    Column("cpu_s_per_million", "CPU-s per million", 2, drawn=True),
)
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


def _run(rig: Rig, kind: str, events: int, run: str) -> Figures:
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


def measure(events: int, rounds: int, say: Callable[[str], None]) -> Result:
    spec = described("exactly_once", _TOPIC, "watched")
    measured: dict[str, list[Figures]] = {kind: [] for kind in KINDS}
    with open_rig(spec, say, ["kafka", "clickhouse"]) as rig:
        plan = ClickstreamPlan.fitting(spec, seed=7)
        plan.write_reference(rig.data.reference)
        events = rig.fill(_TOPIC, spec.source.partitions, clicks(plan, events))
        for number in range(rounds + 1):
            # Whoever is first pays for what the last one left.
            for kind in [*KINDS[number % 3 :], *KINDS[: number % 3]]:
                found = _run(rig, kind, events, f"watched-{number}-{kind}")
                cpu = f"{found.cpu_s_per_million:5.1f} CPU-s per million"
                say(f"round {number}  {kind:9} {found.eps:9,.0f}/s   {cpu}")
                if number:
                    measured[kind].append(found)
    return Result(
        "watching",
        f"The clickstream with all its sinks on {events:,} clicks that were there already, {in_words(rounds)}"
        " in turns behind one that warms up: with nobody looking, with all that a running pipeline keeps of"
        " itself, and"
        f" with an audit every {_AUDIT_EVERY_S:.0f} s as well.",
        COLUMNS,
        [
            {
                "kind": kind,
                "events_per_s": Spread.of([one.eps for one in found]),
                "cpu_s_per_million": Spread.of([one.cpu_s_per_million for one in found]),
            }
            for kind, found in measured.items()
        ],
        [_finding(kind, measured) for kind in KINDS[1:]],
    )


def _finding(kind: str, measured: Mapping[str, Sequence[Figures]]) -> str:
    eps, cpu = (
        median(getattr(one, what) for one in measured[kind])
        / median(getattr(one, what) for one in measured["alone"])
        for what in ("eps", "cpu_s_per_million")
    )
    return f"{kind} / alone: {eps:.3f} of the throughput, {cpu:.3f} of the CPU"
