"""What one key with most of the events does to throughput: kernel sessions and windows, beside even keys."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

from penstock.bench.result import Column, Result, Row, Spread
from penstock.bench.rig import Cost, open_rig
from penstock.bench.small import messages, spec
from penstock.bench.small import rows as groups

COLUMNS = (
    Column("of", "of"),
    Column("keys", "keys"),
    Column("events_per_s", "events/s", drawn=True),
    Column("cpu_s_per_million", "CPU-s per million", 2, drawn=True),
)
_BATCH = 200_000
_USERS = 20_000
_SHAPES: dict[str, dict[str, Any]] = {
    "sessions": {"gap": "30 minutes", "partitions": 4},
    "windows": {"size": "10 seconds", "slide": "5 seconds", "partitions": 4},
}


def events(count: int, hot: float) -> Iterator[tuple[int, int]]:
    chance = random.Random(1)
    for i in range(count):
        user = 0 if chance.random() < hot else 1 + int(chance.random() * _USERS)
        yield user, i // 20


def measure(count: int, rounds: int, hot: float, say: Callable[[str], None]) -> Result:
    """Even and skewed topics in turns; the first round of each shape is the warm-up."""
    shares = {"even": 0.0, "skewed": hot}
    rows: list[Row] = []
    findings = []
    with open_rig(spec("skew", "kernel", _BATCH, sessions=_SHAPES["sessions"]), say) as rig:
        for topic, share in shares.items():
            # Spread over partitions: a hot key in one of them would measure the broker's reader.
            spread = (
                [message | {"key": None} for message in chunk] for chunk in messages(events(count, share))
            )
            rig.fill(topic, 8, spread)
        for section, shape in _SHAPES.items():
            costs: dict[str, list[Cost]] = {topic: [] for topic in shares}
            for number in range(rounds + 1):
                for topic in shares:
                    made = spec(topic, "kernel", _BATCH, **{section: shape})
                    cost = rig.measure(groups(rig, made), count)
                    say(f"round {number}  {section:9} {topic:7} {cost.eps:9,.0f}/s {cost.per_million:6.2f}")
                    if number:
                        costs[topic].append(cost)
            rows += [_row(section, topic, measured) for topic, measured in costs.items()]
            even, skewed = (median(cost.eps for cost in costs[topic]) for topic in shares)
            findings.append(f"{section}, throughput with skew / without: {skewed / even:.2f}")
    return Result(
        "skew",
        f"{count:,} small events of {_USERS:,} keys, and as many of which {hot:.0%} are of one key; {rounds}"
        " rounds in turns behind one that warms up, into nothing.",
        COLUMNS,
        rows,
        findings,
    )


def _row(section: str, topic: str, measured: Sequence[Cost]) -> Row:
    return {
        "of": section,
        "keys": topic,
        "events_per_s": Spread.of([cost.eps for cost in measured]),
        "cpu_s_per_million": Spread.of([cost.per_million for cost in measured]),
    }
