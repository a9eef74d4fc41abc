"""The same work by Penstock and by its peers in turns on one machine, all results compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from penstock.bench import drain
from penstock.bench.peers.job import Guarantee, Job
from penstock.bench.peers.jvm import PARTITIONS
from penstock.bench.peers.measure import PEERS, TOPIC, output_of, run
from penstock.bench.peers.sessions import differences, expected, held
from penstock.bench.result import Column, Result, Row, in_words
from penstock.bench.rig import open_rig
from penstock.bench.stages import REFERENCE, clicks

COLUMNS = (*drain.COLUMNS, Column("checked", "sessions equal to the oracle's"))
_OURS, _PLAIN = drain.JOBS


def measure(
    events: int, rounds: int, say: Callable[[str], None], names: Sequence[str], guarantee: Guarantee
) -> Result:
    """Each of the others between two rounds of ours; all are warm: a process's first round is not counted."""
    with open_rig(drain.described(_OURS, guarantee, "peers"), say) as rig:
        REFERENCE.write_reference(rig.data.reference)
        count = rig.fill(drain.TOPIC, PARTITIONS, drain.with_end(clicks(REFERENCE, events)))
        rig.fill(TOPIC, PARTITIONS, clicks(REFERENCE, events))
        wanted = expected(REFERENCE, events, rig.data.reference)

        def by_us(job: str, number: int) -> Checked:
            name = f"peers-{job.split()[-1]}-{number}"
            found = drain.drain(rig, drain.described(job, guarantee, name), count)
            return Checked(found, differences(wanted, held(rig.addresses.kafka, f"{name}-sessions")))

        def by(job: str) -> list[Checked]:
            if job == _PLAIN:
                return [by_us(job, number) for number in range(rounds + 1)][1:]
            output = output_of(job, guarantee)
            work = Job(rig.addresses.kafka, TOPIC, rig.data.reference, output, rounds + 1, guarantee)
            return [Checked(one, one.problems) for one in run(job, work, wanted, say) if one.warm]

        by_us(_OURS, 0)
        ours = [by_us(_OURS, 1)]
        _say_round(_OURS, ours[-1], say)
        theirs: dict[str, list[Checked]] = {}
        # The plain twin last: it runs in the JVM of ours, which then has learnt of both.
        for job in (*names, _PLAIN):
            theirs[job] = by(job)
            for one in theirs[job]:
                _say_round(job, one, say)
            ours.append(by_us(_OURS, len(ours) + 1))
            _say_round(_OURS, ours[-1], say)
    return Result(
        "peers",
        f"{events:,} clicks that were there already, into sessions of 30 minutes on a Kafka topic;"
        f" {in_words(rounds)} of each engine, behind one that warms up, and one of ours on either side. From"
        " the first record that is read to the last session that is written. CPU and memory are those of the"
        " engine's own processes, Kafka's not counted.",
        COLUMNS,
        [row(job, guarantee, found) for job, found in {_OURS: ours, **theirs}.items() if found],
        list(ratios(ours, theirs)),
    )


@dataclass(frozen=True)
class Checked:
    """A round, and how its sessions differ from those that must come."""

    figures: drain.Figures
    problems: Sequence[str] = ()


def row(job: str, guarantee: Guarantee, found: Sequence[Checked]) -> Row:
    checked = not any(one.problems for one in found)
    return {**drain.row(job, guarantee, [one.figures for one in found]), "checked": checked}


def _say_round(job: str, one: Checked, say: Callable[[str], None]) -> None:
    told = one.figures
    say(
        f"{job:15} {told.events_per_s:9,.0f}/s  {told.cpu_s_per_million:6.2f} CPU-s per million"
        f"  {told.rss_mb:6,.0f} MB  {told.sessions:,} sessions"
    )
    for problem in one.problems[:5]:
        say(f"    {problem}")


def ratios(ours: Sequence[Checked], theirs: Mapping[str, Sequence[Checked]]) -> Iterator[str]:
    """Ours against each of the others: the rounds beside it, since the machine may soon be another one."""
    for (job, found), beside in zip(theirs.items(), pairwise(ours), strict=True):
        if not found:
            continue
        speed, cpu = (
            fmean(getattr(one.figures, key) for one in beside)
            / median(getattr(one.figures, key) for one in found)
            for key in ("events_per_s", "cpu_s_per_million")
        )
        yield f"{_OURS} / {job}: {speed:.2f} of the throughput, {cpu:.2f} of the CPU"


def known() -> list[str]:
    """The peers there are."""
    return list(PEERS)
