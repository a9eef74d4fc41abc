"""What one key with most of the events does to throughput; what combining does about it, and elsewhere."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from statistics import median
from typing import Any

from penstock.bench.result import Column, Result, Row, Spread
from penstock.bench.rig import Cost, open_rig
from penstock.bench.small import messages, spec
from penstock.bench.small import rows as groups

COLUMNS = (
    Column("of", "of"),
    Column("keys", "keys"),
    Column("combined", "combined"),
    Column("events_per_s", "events/s", drawn=True),
    Column("cpu_s_per_million", "CPU-s per million", 2, drawn=True),
)
_BATCH = 200_000
_USERS = 20_000
_COMBINED = ("no", "yes")
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
            costs: dict[tuple[str, str], list[Cost]] = {}
            for number in range(rounds + 1):
                for topic, combined in product(shares, _COMBINED):
                    made = spec(topic, "kernel", _BATCH, **{section: shape | {"combine": combined == "yes"}})
                    cost = rig.measure(groups(rig, made), count)
                    line = f"round {number}  {section:9} {topic:7} combined: {combined:4}"
                    say(f"{line} {cost.eps:9,.0f}/s {cost.per_million:6.2f}")
                    if number:
                        costs.setdefault((topic, combined), []).append(cost)
            rows += [_row(section, *case, measured) for case, measured in costs.items()]
            for combined in _COMBINED:
                even, skewed = (median(cost.eps for cost in costs[topic, combined]) for topic in shares)
                findings.append(
                    f"{section}, combined: {combined}, throughput with skew / without: {skewed / even:.2f}"
                )
    return Result(
        "skew",
        f"{count:,} small events of {_USERS:,} keys, and as many of which {hot:.0%} are of one key; {rounds}"
        " rounds in turns behind one that warms up, into nothing.",
        COLUMNS,
        rows,
        findings,
    )


def _row(section: str, topic: str, combined: str, measured: Sequence[Cost]) -> Row:
    return {
        "of": section,
        "keys": topic,
        "combined": combined,
        "events_per_s": Spread.of([cost.eps for cost in measured]),
        "cpu_s_per_million": Spread.of([cost.per_million for cost in measured]),
    }
