"""The same work by Penstock and by its peers, one after the other on one machine, all results compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.bench import drain
from penstock.bench.peers.job import Guarantee, Job
from penstock.bench.peers.jvm import PARTITIONS
from penstock.bench.peers.measure import PEERS, TOPIC, output_of, run
from penstock.bench.peers.sessions import differences, expected, held
from penstock.bench.result import Column, Result, Row, Spread, in_words
from penstock.bench.rig import Rig, open_rig
from penstock.bench.stages import REFERENCE, clicks

COLUMNS = (*drain.COLUMNS, Column("checked", "sessions equal to the oracle's"))
_OURS = "penstock tuned"


def measure(
    events: int, rounds: int, say: Callable[[str], None], names: Sequence[str], guarantee: Guarantee
) -> Result:
    """Ours and theirs, each warm: a first round of its process is not counted."""
    rows: list[Row] = []
    with open_rig(drain.described(_OURS, guarantee, "peers"), say) as rig:
        REFERENCE.write_reference(rig.data.reference)
        count = rig.fill(drain.TOPIC, PARTITIONS, drain.with_end(clicks(REFERENCE, events)))
        rig.fill(TOPIC, PARTITIONS, clicks(REFERENCE, events))
        wanted = expected(REFERENCE, events, rig.data.reference)
        for job in drain.JOBS:
            rows.append(_ours(rig, job, guarantee, count, rounds, wanted, say))
        for name in names:
            work = Job(
                rig.addresses.kafka,
                TOPIC,
                rig.data.reference,
                output_of(name, guarantee),
                rounds + 1,
                guarantee,
            )
            rounds_of = [one for one in run(name, work, wanted, say) if one.warm]
            if rounds_of:
                checked = not any(one.problems for one in rounds_of)
                rows.append({**drain.row(name, guarantee, rounds_of), "checked": checked})
                _say_row(rows[-1], [p for one in rounds_of for p in one.problems], say)
    return Result(
        "peers",
        f"{events:,} clicks that were there already, into sessions of 30 minutes on a Kafka topic, by one"
        f" engine after the other; {in_words(rounds)} of each behind one that warms up. CPU and memory are"
        " those of the engine's own processes, Kafka's not counted.",
        COLUMNS,
        rows,
        ratios(rows),
    )


def _ours(
    rig: Rig,
    job: str,
    guarantee: Guarantee,
    events: int,
    rounds: int,
    wanted: pa.Table,
    say: Callable[[str], None],
) -> Row:
    found, problems = [], list[str]()
    for number in range(rounds + 1):
        name = f"peers-{job.split()[-1]}-{number}"
        spec = drain.described(job, guarantee, name)
        found.append(drain.drain(rig, spec, events))
        problems += differences(wanted, held(rig.addresses.kafka, f"{name}-sessions"))
    row: Row = {**drain.row(job, guarantee, found[1:]), "checked": not problems}
    _say_row(row, problems, say)
    return row


def _say_row(row: Row, problems: Sequence[str], say: Callable[[str], None]) -> None:
    figures = "  ".join(f"{c.heading} {c.text(row.get(c.key))}" for c in COLUMNS if c.key not in ("job",))
    say(f"{row['job']:15} {figures}")
    for problem in problems[:5]:
        say(f"    {problem}")


def ratios(rows: Sequence[Row]) -> list[str]:
    """Ours against each of the others."""
    by_job = {str(row["job"]): row for row in rows}
    ours = by_job.get(_OURS)
    if ours is None:
        return []
    return [
        f"{_OURS} / {job}: {_share(ours, row, 'events_per_s'):.2f} of the throughput,"
        f" {_share(ours, row, 'cpu_s_per_million'):.2f} of the CPU"
        for job, row in by_job.items()
        if job != _OURS
    ]


def _share(ours: Row, theirs: Row, key: str) -> float:
    return _middle(ours, key) / _middle(theirs, key)


def _middle(row: Row, key: str) -> float:
    value = row[key]
    return value.middle if isinstance(value, Spread) else float(value or 0)


def known() -> list[str]:
    """The peers there are."""
    return list(PEERS)
