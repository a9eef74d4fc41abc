"""How long an event takes at set rates, from its creation until it can be read, in either tier.

The producer keeps to the rate whatever becomes of what it sends, and an event's time runs from the moment it
was due: a stall is in the latency of all events that were due meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.bench import live, realtime
from penstock.bench.peers.job import Guarantee
from penstock.bench.peers.latency import flink_latency
from penstock.bench.result import Column, Result, Row
from penstock.bench.rig import alone
from penstock.paths import DataDir
from penstock.spec import Rate

TIERS = ("events", "events, exactly once", "sessions, live")
PEERS = ("flink", "flink, exactly once")
"""What single events take elsewhere, checkpoints every second."""
COLUMNS = (
    Column("tier", "tier"),
    Column("rate", "rate, /s"),
    Column("achieved", "sent, /s"),
    Column("p50_ms", "p50, ms", drawn=True),
    Column("p99_ms", "p99, ms", drawn=True),
    Column("p999_ms", "p99.9, ms"),
    Column("max_ms", "max, ms"),
    Column("engine_p50_ms", "engine p50, ms"),
    Column("engine_p99_ms", "engine p99, ms"),
    Column("lost", "lost"),
)


def measure(
    rates: Sequence[int],
    seconds: float,
    warm_up_s: float,
    say: Callable[[str], None],
    tiers: Sequence[str] = TIERS,
) -> Result:
    """Every tier at every rate, each on services and a pipeline of its own."""
    rows: list[Row] = []
    with alone():
        for rate in rates:
            for tier in tiers:
                row = _measure(tier, rate, seconds, warm_up_s, say)
                say(f"{tier:22} {rate:9,}/s   p50 {row['p50_ms']:8,.0f} ms   p99 {row['p99_ms']:8,.0f} ms")
                rows.append(row)
    return Result(
        "latency",
        f"{seconds:,.0f} s behind {warm_up_s:,.0f} s of warm-up at each rate, services, producer and reader"
        " on the same machine. Events: decoded, cleansed, enriched, in a Kafka topic, by a reader's clock;"
        " the engine's part is from the topic's log to that of the sink's, by the broker's stamps (exactly"
        " once to the reader, who waits for a commit). Sessions: of 200,000 users drawn at random, in"
        " ClickHouse, as the pipeline tells.",
        COLUMNS,
        rows,
    )


def _measure(
    tier: str, rate: int, seconds: float, warm_up_s: float, say: Callable[[str], None]
) -> dict[str, str | int | float]:
    engine: dict[str, float] = {}
    with own_data() as data:
        if tier == "sessions, live":
            asked = Rate.parse(str(rate))
            found = live.measure(data, asked, 200_000, seconds, warm_up_s, live.SETTINGS)
            told = found.latency_ms
            figures: tuple[float, ...] = (told.p50, told.p99, found.p999_ms, told.max)
            achieved, lost = found.achieved_eps, found.sent - found.read
        else:
            guarantee: Guarantee = "exactly_once" if tier.endswith("exactly once") else "at_least_once"
            measured = partial(flink_latency, say=say) if tier in PEERS else realtime.measure
            seen = measured(data, guarantee, rate_eps=rate, seconds=seconds, warm_up_s=warm_up_s)
            figures = (seen.p50_ms, seen.p99_ms, seen.p999_ms, seen.max_ms)
            achieved, lost = seen.achieved_eps, seen.expected - seen.received
            engine = {"engine_p50_ms": seen.engine_p50_ms, "engine_p99_ms": seen.engine_p99_ms}
    percentiles = zip(("p50_ms", "p99_ms", "p999_ms", "max_ms"), figures, strict=True)
    return {"tier": tier, "rate": rate, "achieved": achieved, **dict(percentiles), **engine, "lost": lost}


@contextmanager
def own_data() -> Iterator[DataDir]:
    with TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as home:
        yield DataDir.at(Path(home))
