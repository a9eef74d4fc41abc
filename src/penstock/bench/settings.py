"""What a setting does by itself: the shipped clickstream with it turned back to its default, and as it is.

Every run has services, data and a process of its own: a setting may be any of theirs. A full topic comes
first, which warms the JVM up as well; then a steady rate, for the latency of live sessions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, sqrt
from statistics import fmean, median

from penstock.bench.drain import Drained
from penstock.bench.followed import Followed, cpu_s, drain
from penstock.bench.latency import own_data
from penstock.bench.result import Column, Result, Row, Spread, in_words
from penstock.bench.rig import alone, fill
from penstock.bench.running import running_pipeline, without
from penstock.bench.stages import REFERENCE, clicks
from penstock.bench.surge import WARM_UP_S, Span, latency_of, sending, within
from penstock.errors import PenstockError
from penstock.local.services import Services
from penstock.paths import DataDir, shipped
from penstock.spec import load, to_toml
from penstock.tuning import settings, untuned

_OTHER_WORK = ("realtime", "realtime-source", "realtime-sink", "postgres", "postgres-session")
"""Areas that have no part in this one."""
OURS = "all as they are"
COLUMNS = (
    Column("without", "without"),
    Column("events_per_s", "full topic: events/s", drawn=True),
    Column("cpu_s_per_million", "CPU-s per million", 1, drawn=True),
    Column("rss_mb", "memory, MB", drawn=True),
    Column("p50_ms", "at the rate: p50, ms", drawn=True),
    Column("p99_ms", "p99, ms", drawn=True),
    Column("cores", "cores busy", 2, drawn=True),
)
_FIGURES = {
    "events_per_s": "throughput",
    "cpu_s_per_million": "CPU",
    "rss_mb": "memory",
    "p50_ms": "p50",
    "p99_ms": "p99",
    "cores": "CPU at the rate",
}
_AGO_MS = 300_000
_SLACK_S = 30.0


@dataclass(frozen=True)
class Measured:
    """One run."""

    drained: Drained
    p50_ms: float
    p99_ms: float
    cores: float
    """Busy at the steady rate, of Spark and Python."""

    def figures(self) -> Mapping[str, float]:
        done = self.drained
        return {
            "events_per_s": done.events_per_s,
            "cpu_s_per_million": done.cpu_s_per_million,
            "rss_mb": done.rss_mb,
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
            "cores": self.cores,
        }


@dataclass(frozen=True)
class Work:
    """What every run has to do."""

    events: int
    """In the topic when it begins."""
    rate_eps: int
    seconds: float


def measure(names: Sequence[str], work: Work, rounds: int, say: Callable[[str], None]) -> Result:
    """Without each of these, as PENSTOCK_UNTUNED names them, in turns."""
    for name in names:
        untuned(name)
    runs: list[tuple[str, Measured]] = []
    with alone():
        for name in in_turns(names, rounds):
            with without("" if name == OURS else name), own_data() as data:
                one = _run(data, work)
            runs.append((name, one))
            say(_line(name, one))
    return Result(
        "settings",
        f"The shipped clickstream: {work.events:,} clicks that were there already, into Kafka and ClickHouse,"
        f" the first batch not counted; then {work.rate_eps:,} a second for {work.seconds:.0f} s, behind"
        f" {WARM_UP_S:.0f} s that are not counted. {in_words(rounds)} in turns, with a run of ours on either"
        " side of each; every run is a process of its own on services of its own. CPU and memory are those of"
        " Spark and Python.",
        COLUMNS,
        rows(runs),
        list(findings(runs)),
    )


def by_area() -> list[str]:
    """All settings that have a part in this work and may be turned back, area by area."""
    names = [one.area.name for one in settings() if not one.correctness and one.area.name not in _OTHER_WORK]
    return [f"{name}.*" for name in dict.fromkeys(names)]


def in_turns(names: Sequence[str], rounds: int) -> Iterator[str]:
    """Each once a round, and a run of ours on either side of it: the machine may soon be another one."""
    for _ in range(rounds):
        for name in names:
            yield OURS
            yield name
    yield OURS


def _run(data: DataDir, work: Work) -> Measured:
    spec = load(shipped("pipelines") / "clickstream.toml", environ={})
    services = Services(data, tie_to_parent=True, only=("kafka", "clickhouse"))
    kafka = services.start().kafka
    try:
        REFERENCE.write_reference(data.reference)
        # In the past, so that what is sent later is not late.
        ago_ms = time.time_ns() // 1_000_000 - _AGO_MS
        fill(kafka, spec.source.topic, spec.source.partitions, clicks(REFERENCE, work.events, ago_ms))
        with running_pipeline(data, spec) as process:
            pipeline = Followed(process, data.runs / spec.name)
            done = drain(pipeline, work.events)
            file = data.root / "settings.toml"
            file.write_text(to_toml(spec))
            whole_s = WARM_UP_S + work.seconds
            with sending(data, file, work.rate_eps, whole_s + _SLACK_S) as began_ms:
                steady = Span(began_ms + round(WARM_UP_S * 1000), began_ms + round(whole_s * 1000))
                pipeline.until(lambda: pipeline.now_ms >= steady.ended_ms, whole_s + _SLACK_S)
            return seen(done, pipeline, steady)
    finally:
        services.stop()


def seen(done: Drained, pipeline: Followed, steady: Span) -> Measured:
    calm = within(pipeline.batches, steady)
    if not calm:
        raise PenstockError(
            "not one batch was done at the steady rate", hint="Ask for a lower --rate, or for more --seconds."
        )
    told = latency_of(calm).percentiles()
    used_s = cpu_s(pipeline.loads, steady.ended_ms) - cpu_s(pipeline.loads, steady.began_ms)
    return Measured(done, told.p50, told.p99, used_s * 1000 / (steady.ended_ms - steady.began_ms))


def _line(name: str, one: Measured) -> str:
    done = one.drained
    return (
        f"{name:40} {done.events_per_s:9,.0f}/s {done.cpu_s_per_million:6.1f} CPU-s per million"
        f"   p50 {one.p50_ms:6,.0f} ms   p99 {one.p99_ms:6,.0f} ms   {one.cores:.2f} cores"
    )


def rows(runs: Sequence[tuple[str, Measured]]) -> list[Row]:
    found: dict[str, list[Measured]] = {}
    for name, one in runs:
        found.setdefault(name, []).append(one)
    return [{"without": name, **_spreads(all_of)} for name, all_of in found.items()]


def _spreads(runs: Sequence[Measured]) -> dict[str, Spread]:
    return {key: Spread.of([run.figures()[key] for run in runs]) for key in _FIGURES}


def findings(runs: Sequence[tuple[str, Measured]]) -> Iterator[str]:
    """Without each against the runs of ours beside it; not what chance alone may well have done."""
    ours = [one.figures() for name, one in runs if name == OURS]
    noise = {key: _spread([log(one[key] / other[key]) for one, other in pairwise(ours)]) for key in _FIGURES}
    yield "two runs of ours in a row: " + ", ".join(
        f"{_FIGURES[key]} {exp(spread):.2f} times apart" for key, spread in noise.items()
    )
    times: dict[str, dict[str, list[float]]] = {}
    for place, (name, one) in enumerate(runs):
        if name == OURS:
            continue
        before, after = runs[place - 1][1].figures(), runs[place + 1][1].figures()
        for key, figure in one.figures().items():
            times.setdefault(name, {}).setdefault(key, []).append(figure * 2 / (before[key] + after[key]))
    for name, by_figure in times.items():
        told = [
            f"{_FIGURES[key]} {median(all_of):.2f} times"
            for key, all_of in by_figure.items()
            if abs(log(median(all_of))) > _by_chance(noise[key], len(all_of))
        ]
        yield f"without {name}: {', '.join(told) or 'no difference to be seen'}"


def _spread(logs: Sequence[float]) -> float:
    """Of differences whose mean is known to be none."""
    return sqrt(fmean(one * one for one in logs))


def _by_chance(spread: float, rounds: int) -> float:
    """How far from one a run is from the mean of two beside it, in the middle of so many rounds.

    Two standard deviations. That of two runs' difference is `spread`; half of its square is a single run's,
    and three quarters that of a run against a mean of two.
    """
    return 2 * spread * sqrt(0.75 / rounds)
