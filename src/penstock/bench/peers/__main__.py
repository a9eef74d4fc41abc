"""The same work in Flink, Kafka Streams and PyFlink.

    python -m penstock.bench.peers --events 200000 --rounds 2 --only "flink heap"

All read the same topic of clicks and write the same sessions to Kafka, one after the other on this machine.
Each runs in one process as often as there are rounds; the first round is the warm-up. With --latency: how
long a single event takes through Flink.
"""

from __future__ import annotations

import argparse
import sys

from penstock.bench.peers.job import Guarantee, Round
from penstock.bench.peers.latency import flink_latency
from penstock.bench.peers.measure import measure, peers_named
from penstock.errors import PenstockError

_BOTH: tuple[Guarantee, ...] = ("exactly_once", "at_least_once")


def show(one: Round) -> None:
    print(
        f"{one.job:14} {one.guarantee:13} {'warm' if one.warm else 'cold'} {one.events_per_s:9,.0f}/s"
        f"  {one.cpu_s_per_million:6.1f} CPU-s per million  {one.rss_mb:6,.0f} MB  {one.sessions:8,} sessions"
        f"  {one.seconds:6.1f} s, committed {one.committed_s:6.1f} s"
        f"  {'equal to the oracle' if not one.problems else 'DIFFERS'}",
        flush=True,
    )
    for line in one.problems:
        print(f"    {line}", flush=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--events", type=int, default=3_000_000)
    options.add_argument("--rounds", type=int, default=3, help="the first is the warm-up")
    options.add_argument("--only", default="", help="peers whose name holds this text")
    options.add_argument("--guarantee", choices=_BOTH, help="by default exactly_once")
    options.add_argument("--latency", action="store_true", help="of single events, through Flink")
    options.add_argument("--rate", type=float, default=20_000, help="events a second, for the latency")
    options.add_argument("--seconds", type=float, default=60, help="how long to measure the latency")
    options.add_argument("--warm-up", type=float, default=60, help="seconds before that")
    given = options.parse_args()
    if given.latency:
        for guarantee in [given.guarantee] if given.guarantee else _BOTH:
            outcome = flink_latency(
                guarantee, rate_eps=given.rate, seconds=given.seconds, warm_up_s=given.warm_up, say=print
            )
            print(guarantee, outcome, flush=True)
        return 0
    rounds = measure(
        peers_named(given.only),
        events=given.events,
        rounds=given.rounds,
        guarantees=[given.guarantee or "exactly_once"],
        say=print,
        on_round=show,
    )
    return 1 if any(one.problems for one in rounds) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PenstockError as error:
        sys.exit(str(error))
