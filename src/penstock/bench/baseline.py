"""Defaults everywhere against the whole strategy, on the shipped pipelines (`variants` says what that means).

Two works: payments into PostgreSQL, and sessions into Kafka. Every run is a process of its own, as users run
it, and all that is said of it comes from its journal and its samples. Defaults and strategy have services of
their own, too, since settings of brokers are among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from penstock.bench.drain import Drained, with_end
from penstock.bench.followed import Followed, drain
from penstock.bench.result import Column, Result, Row, Spread, Value
from penstock.bench.rig import alone, fill
from penstock.bench.running import running_pipeline, without
from penstock.bench.stages import REFERENCE, clicks
from penstock.bench.stores import single_inserts_per_s
from penstock.bench.surge import SURGE_S, TIMES, WARM_UP_S, Rated, measure_surge
from penstock.bench.variants import DEFAULTS, PAYMENTS, SESSIONS, STRATEGY, VARIANTS, Variant, described
from penstock.bench.writers import payments
from penstock.local.services import Services
from penstock.paths import DataDir
from penstock.spec import to_toml

COLUMNS = (
    Column("work", "work"),
    Column("variant", "variant"),
    Column("events_per_s", "events/s", drawn=True),
    Column("cpu_s_per_million", "CPU-s per million", 1, drawn=True),
    Column("rss_mb", "memory, MB", drawn=True),
    Column("p50_ms", "p50, ms", drawn=True),
    Column("p99_ms", "p99, ms", drawn=True),
    Column("surge_p99_ms", "surge: p99, ms", drawn=True),
    Column("longest_batch_ms", "surge: longest batch, ms", drawn=True),
    Column("lag_max", "surge: greatest lag", drawn=True),
    Column("failures", "failed batches"),
    Column("recovered", "surge: lag is back"),
    Column("recovered_s", "surge: back after, s", 1),
)
THROUGHPUT_AIM, P99_AIM = 2.8, 0.65
_SHARE = 0.7
"""Of what the defaults can do."""


@dataclass(frozen=True)
class Measured:
    """One run."""

    events: int
    """In the topic."""
    drained: Drained
    rated: Rated | None = None


@dataclass(frozen=True)
class Load:
    """A rate, or none: then it is most of what the first who is asked can do; and for how long."""

    rate_eps: int | None
    seconds: float
    within_s: float


@dataclass(frozen=True)
class Home:
    """Services and a data directory."""

    data: DataDir
    kafka: str
    postgres: str


def measure(events: Mapping[str, int], rounds: int, load: Load, say: Callable[[str], None]) -> Result:
    """All variants of each work in turns."""
    found: dict[tuple[str, str], list[Measured]] = {}
    with alone(), ExitStack() as stack:
        wanted = sorted({variant.untuned for variants in VARIANTS.values() for variant in variants})
        homes = {untuned: stack.enter_context(_home(untuned, say)) for untuned in wanted}
        all_runs = {
            PAYMENTS: _payments(homes, events[PAYMENTS], rounds, load),
            SESSIONS: _sessions(homes, events[SESSIONS], rounds),
        }
        for work, runs in all_runs.items():
            for variant, one in runs:
                found.setdefault((work, variant.name), []).append(one)
                say(_line(work, variant, one))
        single_eps = single_inserts_per_s(homes[wanted[0]].postgres)
    return Result(
        "baseline",
        _about(events, rounds, _rated(found[PAYMENTS, DEFAULTS])[0].rate_eps, load.within_s),
        COLUMNS,
        [row(work, variant, runs) for (work, variant), runs in found.items()],
        [
            *(line for work in VARIANTS for line in findings(work, found, load.within_s)),
            f"PostgreSQL takes {single_eps:,.0f} rows a second from a client that inserts and commits each:"
            " to be held against single rows through the sink",
        ],
    )


@contextmanager
def _home(untuned: str, say: Callable[[str], None]) -> Iterator[Home]:
    with TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as directory:
        data = DataDir.at(Path(directory))
        services = Services(data, tie_to_parent=True, say=say, only=("kafka", "postgres"))
        try:
            with without(untuned):
                at = services.start()
            yield Home(data, at.kafka, at.postgres)
        finally:
            services.stop()


def _payments(
    homes: Mapping[str, Home], events: int, rounds: int, load: Load
) -> Iterator[tuple[Variant, Measured]]:
    """A full topic; then, in the same process, a steady rate and a surge."""
    rate_eps = load.rate_eps
    for number in range(rounds):
        for variant in VARIANTS[PAYMENTS]:
            data, kafka = homes[variant.untuned].data, homes[variant.untuned].kafka
            spec = described(PAYMENTS, variant, f"payments-{number}-{variant.slug}")
            count = round(events * variant.share)
            fill(kafka, spec.source.topic, spec.source.partitions, payments(count))
            with without(variant.untuned), running_pipeline(data, spec) as process:
                pipeline = Followed(process, data.runs / spec.name)
                done, rated = drain(pipeline, count), None
                if variant.is_rated:
                    rate_eps = rate_eps or rate_for(done.events_per_s)
                    file = data.root / f"{spec.name}.toml"
                    file.write_text(to_toml(spec))
                    rated = measure_surge(data, file, pipeline, rate_eps, load.seconds, load.within_s)
            yield variant, Measured(count, done, rated)


def _sessions(homes: Mapping[str, Home], events: int, rounds: int) -> Iterator[tuple[Variant, Measured]]:
    """A full topic, the same in each round."""
    filled: dict[str, int] = {}
    for number in range(rounds):
        for variant in VARIANTS[SESSIONS]:
            data, kafka = homes[variant.untuned].data, homes[variant.untuned].kafka
            spec = described(SESSIONS, variant, f"sessions-{number}-{variant.slug}")
            if variant.name not in filled:
                REFERENCE.write_reference(data.reference)
                sent = with_end(clicks(REFERENCE, round(events * variant.share)))
                filled[variant.name] = fill(kafka, spec.source.topic, spec.source.partitions, sent)
            with without(variant.untuned), running_pipeline(data, spec) as process:
                pipeline = Followed(process, data.runs / spec.name)
                done = drain(pipeline, filled[variant.name], closed=1)
            yield variant, Measured(filled[variant.name], done)


def rate_for(events_per_s: float) -> int:
    """A rate that leaves some room to who can do so much, in round figures."""
    return max(1, round(float(f"{events_per_s * _SHARE:.2g}")))


def _line(work: str, variant: Variant, one: Measured) -> str:
    done, rated = one.drained, one.rated
    cpu = f"{done.cpu_s_per_million:7,.1f} CPU-s per million"
    line = f"{work:9} {variant.name:28} {done.events_per_s:9,.0f}/s  {cpu}"
    if rated is None:
        return line
    back = "not back" if rated.recovered_s is None else f"back after {rated.recovered_s:.0f} s"
    return (
        f"{line}  at {rated.rate_eps:,}/s p50 {rated.p50_ms:,.0f} ms, p99 {rated.p99_ms:,.0f} ms;"
        f" surge: p99 {rated.surge_p99_ms:,.0f} ms, batch {rated.longest_batch_ms:,.0f} ms,"
        f" lag {rated.lag_max:,}, {back}"
    )


def _about(events: Mapping[str, int], rounds: int, rate_eps: int, within_s: float) -> str:
    return (
        f"Payments into PostgreSQL ({events[PAYMENTS]:,} in the topic) and sessions into Kafka"
        f" ({events[SESSIONS]:,} clicks), for slow variants fewer, in turns, {rounds} times. Every run"
        " is a process of its own, whose JVM is cold at the start; only its first batch"
        " is not counted. CPU and memory are those of Spark and Python. Latency, from creation to visible: in"
        f" the process that has done the full topic, {WARM_UP_S:.0f} s not counted, at {rate_eps:,} payments"
        f" a second, by default {_SHARE:.0%} of what the defaults did with the full topic. Then a surge,"
        f" {TIMES} times that for {SURGE_S:.0f} s; its figures are of all batches until lag was back at what"
        f" it had been, or {within_s:.0f} s had passed."
    )


def row(work: str, variant: str, runs: Sequence[Measured]) -> Row:
    """The figures of all rounds."""
    done, rated = [one.drained for one in runs], _rated(runs)
    known: dict[str, Value] = {
        "work": work,
        "variant": variant,
        "events_per_s": Spread.of([one.events_per_s for one in done]),
        "cpu_s_per_million": Spread.of([one.cpu_s_per_million for one in done]),
        "rss_mb": Spread.of([one.rss_mb for one in done]),
        "events": runs[-1].events,
        "sessions": done[-1].sessions,
    }
    if rated:
        back = [one.recovered_s for one in rated if one.recovered_s is not None]
        known |= {
            "rate_eps": rated[-1].rate_eps,
            "p50_ms": Spread.of([one.p50_ms for one in rated]),
            "p99_ms": Spread.of([one.p99_ms for one in rated]),
            "surge_p99_ms": Spread.of([one.surge_p99_ms for one in rated]),
            "longest_batch_ms": Spread.of([one.longest_batch_ms for one in rated]),
            "lag_max": Spread.of([one.lag_max for one in rated]),
            "failures": sum(one.failures for one in rated),
            "recovered": len(back) == len(rated),
            "recovered_s": Spread.of(back) if back else None,
        }
    return known


def findings(
    work: str, found: Mapping[tuple[str, str], Sequence[Measured]], within_s: float
) -> Iterator[str]:
    """The strategy against the others."""
    others = {variant: runs for (of, variant), runs in found.items() if of == work}
    ours = others.pop(STRATEGY)
    for variant, theirs in others.items():
        more = _ratio(ours, theirs, "events_per_s")
        aim = f" ({_aim(more >= THROUGHPUT_AIM)}: {THROUGHPUT_AIM})" if variant == DEFAULTS else ""
        cpu, rss = _ratio(ours, theirs, "cpu_s_per_million"), _ratio(ours, theirs, "rss_mb")
        yield f"{work}, strategy / {variant}: throughput {more:.2f}{aim}, CPU {cpu:.2f}, memory {rss:.2f}"
        if not _is_same(ours[-1], theirs[-1]):
            each = [f"{one.drained.sessions:,} of {one.events:,}" for one in (theirs[-1], ours[-1])]
            yield f"{work}, {variant}: not the same work; sessions of events: {each[0]}, strategy {each[1]}"
    calm, theirs_calm = _rated(ours), _rated(others[DEFAULTS])
    if calm and theirs_calm:
        rate_eps = calm[-1].rate_eps
        for when, key in (
            (f"at {rate_eps:,}/s", "p99_ms"),
            (f"in a surge of {TIMES} x that", "surge_p99_ms"),
        ):
            one, other = (median(getattr(run, key) for run in runs) for runs in (calm, theirs_calm))
            aim = f"{_aim(1 - one / other >= P99_AIM)}: {P99_AIM:.0%}"
            yield f"{work}, p99 {when}: {1 - one / other:.0%} less than with defaults ({aim})"
        back = {name: _back(rated, within_s) for name, rated in ((STRATEGY, calm), (DEFAULTS, theirs_calm))}
        yield f"{work}, lag is back after a surge: {back[STRATEGY]}; with defaults: {back[DEFAULTS]}"


def _is_same(one: Measured, other: Measured) -> bool:
    """Whether both found as many sessions, if it can be told: fewer clicks have more sessions for each."""
    return one.events != other.events or one.drained.sessions == other.drained.sessions


def _ratio(ours: Sequence[Measured], theirs: Sequence[Measured], key: str) -> float:
    one, other = (median(getattr(run.drained, key) for run in runs) for runs in (ours, theirs))
    return float(one / other)


def _rated(runs: Sequence[Measured]) -> list[Rated]:
    return [one.rated for one in runs if one.rated]


def _aim(reached: bool) -> str:
    return "aim reached" if reached else "aim missed"


def _back(rated: Sequence[Rated], within_s: float) -> str:
    """In words, round by round."""
    found = [one.recovered_s for one in rated]
    return ", ".join(f"not within {within_s:.0f} s" if one is None else f"{one:.0f} s" for one in found)
