"""What one key with most of the events does to throughput: kernel sessions and windows, beside even keys."""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from typing import Any

from penstock.bench.rig import Cost, open_rig
from penstock.bench.small import messages, rows, spec

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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=2_000_000)
    options.add_argument("--hot", type=float, default=0.8, help="the share of the hot key")
    options.add_argument("--rounds", type=int, default=4, help="the first is the warm-up, and not counted")
    given = options.parse_args()
    shares = {"even": 0.0, "skewed": given.hot}
    with open_rig(spec("skew", "kernel", 200_000, sessions=_SHAPES["sessions"]), print) as rig:
        for topic, hot in shares.items():
            # Spread over partitions: a hot key in one of them would measure the broker's reader.
            spread = (
                [message | {"key": None} for message in chunk]
                for chunk in messages(events(given.events, hot))
            )
            rig.fill(topic, 8, spread)
        for section, shape in _SHAPES.items():
            costs: dict[str, list[Cost]] = {topic: [] for topic in shares}
            for _ in range(given.rounds):
                for topic in shares:
                    made = spec(topic, "kernel", 200_000, **{section: shape})
                    costs[topic].append(rig.measure(rows(rig, made), given.events))
            for topic, measured in costs.items():
                told = "  ".join(f"{cost.eps:9,.0f}/s {cost.per_million:5.2f}" for cost in measured[1:])
                print(f"{section:9} {topic:7} {told}  (events/s, CPU-s per million)")
            best = {topic: max(cost.eps for cost in measured[1:]) for topic, measured in costs.items()}
            print(f"{section:9} throughput with skew / without: {best['skewed'] / best['even']:.2f}")


if __name__ == "__main__":
    main()
