"""What an event costs when things grow: sessions alive, batches, partitions, reference data.

Sessions alive: small events of a fixed number of keys a batch, chosen at random among ever more that have a
session. The others: the reference work of `stages`. A batch of so many records is what comes within a second
at that rate, or within two at half of it: rate and interval are told by it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from penstock.bench.result import Column, Result, Row, Spread, in_words
from penstock.bench.rig import Cost, Rig, open_rig
from penstock.bench.small import messages, rows, spec
from penstock.bench.stages import STATE, clicks, cumulated, reference_plan, reference_spec
from penstock.sizing import figures
from penstock.sizing import keep as keep_figure

COLUMNS = (
    Column("of", "what grows"),
    Column("engine", "engine"),
    Column("to", "to"),
    Column("cpu_s_per_million", "CPU-s per million", 2, drawn=True),
    Column("events_per_s", "events/s"),
)
ALIVE = (10_000, 100_000, 1_000_000)
BATCHES = (20_000, 100_000, 500_000)
PARTITIONS = (2, 8, 32)
USERS = (20_000, 200_000, 1_000_000)
_BATCH = 100_000
_TOUCHED = 10_000
_BATCHES = 11

Measured = dict[tuple[str, str, int], list[Cost]]


def measure(events: int, rounds: int, say: Callable[[str], None]) -> Result:
    found: Measured = {}

    def keep(of: str, engine: str, to: int, costs: Sequence[Cost]) -> None:
        found[of, engine, to] = list(costs)
        told = "  ".join(f"{cost.per_million:6.2f}" for cost in costs)
        say(f"{of:20} {engine:7} {to:10,}  {told}  CPU-s per million")

    shape = {"gap": "30 minutes", "partitions": 2}
    with open_rig(spec("growth", "kernel", _BATCH, sessions=shape), say) as rig:
        for engine in ("kernel", "plain"):
            for alive in ALIVE:
                keep("sessions alive", engine, alive, _alive(rig, engine, alive, rounds))
        _keep_key_figure(found["sessions alive", "kernel", ALIVE[-1]])
        for batch in BATCHES:
            keep("records a batch", "kernel", batch, _reference(rig, events, rounds, batch=batch))
        for partitions in PARTITIONS:
            costs = _reference(rig, events, rounds, partitions=partitions)
            keep("partitions read", "kernel", partitions, costs)
        for users in USERS:
            keep("users looked up", "kernel", users, _reference(rig, events, rounds, users=users))
    return Result(
        "growth",
        f"{in_words(rounds)} behind one that warms up. Sessions alive: batches of {_BATCH:,} events, each of"
        f" {_TOUCHED:,} keys among those alive. The others: {events:,} clicks, all stages, into nothing.",
        COLUMNS,
        [_row(of, engine, to, costs) for (of, engine, to), costs in found.items()],
        [_finding(found, of, engine) for of, engine in dict.fromkeys(key[:2] for key in found)],
    )


def _keep_key_figure(costs: Sequence[Cost]) -> None:
    """What a touched key takes by itself, for `penstock plan`."""
    per_key = min(cost.per_million for cost in costs) * _BATCH / _TOUCHED
    own_us = per_key - _BATCH / _TOUCHED * figures().event_us.value
    if own_us > 0:
        keep_figure("key_us", own_us, "penstock bench growth")


def _row(of: str, engine: str, to: int, costs: Sequence[Cost]) -> Row:
    return {
        "of": of,
        "engine": engine,
        "to": to,
        "cpu_s_per_million": Spread.of([cost.per_million for cost in costs]),
        "events_per_s": Spread.of([cost.eps for cost in costs]),
    }


def _finding(found: Measured, of: str, engine: str) -> str:
    grown = {
        key[2]: median(cost.per_million for cost in costs)
        for key, costs in found.items()
        if key[:2] == (of, engine)
    }
    least, most = min(grown), max(grown)
    return f"{of}, {engine}: x {most / least:,.0f} costs x {grown[most] / grown[least]:.2f} an event"


def _alive(rig: Rig, engine: str, alive: int, rounds: int) -> list[Cost]:
    """The first batch of each round, which loads the state, is not counted."""
    name = f"growth-{engine}-{alive}"
    made = spec(name, engine, _BATCH, sessions={"gap": "30 minutes", "partitions": 2})
    rig.fill(name, made.source.partitions, messages((user, 0) for user in range(alive)))
    checkpoint = rig.data.root / name
    rig.go_on(rows(rig, made), alive, checkpoint)
    costs = []
    for number in range(rounds + 1):
        count = rig.fill(name, made.source.partitions, messages(_touching(alive, 1 + number * _BATCHES)))
        costs.append(rig.go_on(rows(rig, made), count, checkpoint, warm=True))
    return costs[1:]


def _touching(alive: int, from_s: int) -> Iterator[tuple[int, int]]:
    """Batches of events, each of some users chosen at random among those that have a session."""
    chance = random.Random(alive)
    for number in range(_BATCHES):
        users = chance.sample(range(alive), _TOUCHED)
        for i in range(_BATCH):
            yield users[i % _TOUCHED], (from_s + number) * 1_000 + i * 1_000 // _BATCH


def _reference(
    rig: Rig, events: int, rounds: int, *, batch: int = 200_000, partitions: int = 8, users: int = 200_000
) -> list[Cost]:
    topic = f"clicks-{batch}-{partitions}-{users}"
    settings = {"source.max_batch": str(batch), "source.partitions": str(partitions)}
    made = reference_spec(f"growth-{topic}", **{"source.topic": topic, **settings})
    plan = reference_plan(users)
    plan.write_reference(rig.data.reference)
    count = rig.fill(topic, partitions, clicks(plan, events))
    whole = cumulated(rig, made, made, made)[STATE]
    return [rig.measure(whole(), count) for _ in range(rounds + 1)][1:]
