"""What a batch costs when ever more sessions are alive, with the same number of keys touched.

The first batch of each round, which loads the state, is not counted.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator

from penstock.bench.rig import open_rig
from penstock.bench.small import messages, rows, spec
from penstock.sizing import figures, keep

_BATCH = 100_000
_TOUCHED = 10_000
_BATCHES = 11


def touching(alive: int, from_s: int) -> Iterator[tuple[int, int]]:
    """Batches of 100,000 events, each of 10,000 users chosen at random among those that have a session."""
    chance = random.Random(alive)
    for number in range(_BATCHES):
        users = chance.sample(range(alive), _TOUCHED)
        for i in range(_BATCH):
            yield users[i % _TOUCHED], (from_s + number) * 1_000 + i * 1_000 // _BATCH


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--alive", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options.add_argument("--engines", nargs="+", default=["kernel", "plain"])
    options.add_argument("--rounds", type=int, default=3, help="of each; the first is the warm-up")
    given = options.parse_args()
    shape = {"gap": "30 minutes", "partitions": 2}
    with open_rig(spec("growth", "kernel", _BATCH, sessions=shape), print) as rig:
        for engine in given.engines:
            for alive in given.alive:
                name = f"growth-{engine}-{alive}"
                made = spec(name, engine, _BATCH, sessions=shape)
                rig.fill(name, made.source.partitions, messages((user, 0) for user in range(alive)))
                checkpoint = rig.data.root / name
                rig.go_on(rows(rig, made), alive, checkpoint)
                costs = []
                for number in range(given.rounds):
                    events = touching(alive, 1 + number * _BATCHES)
                    count = rig.fill(name, made.source.partitions, messages(events))
                    costs.append(rig.go_on(rows(rig, made), count, checkpoint, warm=True))
                per_million = "  ".join(f"{cost.per_million:6.2f}" for cost in costs[1:])
                # Ten events a key: what a million events cost is what a hundred thousand touched keys cost.
                per_key = min(cost.per_million for cost in costs[1:]) * _BATCH / _TOUCHED
                own_us = per_key - _BATCH / _TOUCHED * figures().event_us.value
                if engine == "kernel" and own_us > 0:
                    keep("key_us", own_us, "python -m penstock.bench.growth")
                print(
                    f"{engine:7} {alive:9,} alive  {per_million} CPU-s per million"
                    f"  {per_key:6.1f} us a touched key, all told"
                )


if __name__ == "__main__":
    main()
