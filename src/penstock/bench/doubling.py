"""What twice the rate does to latency, with every setting at its system's default and with ours."""

from __future__ import annotations

from collections.abc import Callable

from penstock.bench import live
from penstock.bench.breakdown import PARTS
from penstock.bench.latency import own_data
from penstock.bench.result import Column, Result, Row
from penstock.bench.rig import alone
from penstock.bench.running import without
from penstock.spec import Rate

PROFILES = {"defaults": "*", "tuned": ""}
"""And the settings of ours that each goes without."""
COLUMNS = (
    Column("profile", "settings"),
    Column("rate", "rate, /s"),
    Column("achieved", "sent, /s"),
    Column("p50_ms", "p50, ms", drawn=True),
    Column("p99_ms", "p99, ms", drawn=True),
    Column("batch_ms", "a batch, ms"),
    *(Column(part.replace(" ", "_") + "_ms", f"{part}, ms") for part in PARTS),
)
_USERS = 200_000


def measure(rate: int, seconds: float, warm_up_s: float, say: Callable[[str], None]) -> Result:
    rows: list[Row] = []
    p99: dict[tuple[str, int], float] = {}
    with alone():
        for profile, untuned in PROFILES.items():
            for times in (1, 2):
                with without(untuned), own_data() as data:
                    asked = Rate.parse(str(rate * times))
                    found = live.measure(data, asked, _USERS, seconds, warm_up_s, live.SETTINGS)
                p50_ms, p99_ms = found.latency_ms.p50, found.latency_ms.p99
                say(f"{profile:9} {rate * times:9,}/s   p50 {p50_ms:8,.0f} ms   p99 {p99_ms:8,.0f} ms")
                p99[profile, times] = p99_ms
                rows.append(
                    {
                        "profile": profile,
                        "rate": rate * times,
                        "achieved": found.achieved_eps,
                        "p50_ms": p50_ms,
                        "p99_ms": p99_ms,
                        "batch_ms": found.batch_ms,
                        **{f"{part.replace(' ', '_')}_ms": ms for part, ms in found.parts_ms.items()},
                    }
                )
    return Result(
        "doubling",
        f"Live sessions of {_USERS:,} users drawn at random, in ClickHouse: {rate:,} clicks a second, then"
        f" twice as many; {seconds:,.0f} s behind {warm_up_s:,.0f} s of warm-up. The last columns say where"
        " an event's time went on average.",
        COLUMNS,
        rows,
        [
            f"{profile}: p99 at twice the rate is {p99[profile, 2] / p99[profile, 1]:.2f} times that at once"
            for profile in PROFILES
        ],
    )
