"""A pipeline in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from penstock.observe.board.alerts import Alert
from penstock.observe.board.glance import Glance

Level = Literal["good", "idle", "warning", "critical"]


@dataclass(frozen=True)
class Judgement:
    """Healthy or not, and why."""

    level: Level
    headline: str
    """Two or three words."""
    reason: str
    """One sentence."""


_CATCHING_UP_MS = 10_000
"""Less is a long batch; more is a start, or a burst, and no alert until it lasts."""

_HEADLINES = {
    "RecordsLost": "Records are lost",
    "RecordsDuplicated": "Records are doubled",
    "PipelineFailed": "Failed",
    "PipelineCrashed": "Crashed",
    "PipelineSilent": "Silent",
    "PipelineStopped": "Stopped",
    "ServiceAway": "Waiting for a service",
    "BatchesFailing": "Batches fail",
    "BrokerGone": "A broker is gone",
    "PartitionsOffline": "Partitions are offline",
    "TopicUnseen": "Kafka does not answer",
    "LagHigh": "Behind",
    "LagGrowing": "Falling behind",
    "PressureHigh": "At its limit",
    "LatencyObjectiveMissed": "Late results",
}


def judge(now: Glance, alerts: Sequence[Alert]) -> Judgement:
    if not now.last_ms:
        return Judgement("idle", "Nothing yet", "No run of this pipeline has left a journal here.")
    if alerts:
        worst = alerts[0]
        more = f" ({len(alerts) - 1} more below)" if len(alerts) > 1 else ""
        headline = _HEADLINES.get(worst.name, "Needs a look")
        return Judgement(worst.severity, headline, f"{worst.reason[:1].upper()}{worst.reason[1:]}.{more}")
    if now.batch is None:
        return Judgement("idle", "Starting", f"No batch yet: {now.note or 'waiting for the first events'}.")
    if now.rate_in_eps < 0.5 and now.rate_out_eps < 0.5 and not (now.lag and now.lag.records):
        return Judgement("idle", "Idle", f"Nothing comes in, and nothing waits.{_audited(now)}")
    if now.lag and now.lag.age_ms >= _CATCHING_UP_MS:
        waited = f"The oldest record has waited for {now.lag.age_ms / 1000:,.0f} s"
        return Judgement("warning", "Catching up", f"{waited}; {_keeps_up(now)}.{_audited(now)}")
    fresh = f"Results are {now.quantiles.p99 / 1000:.1f} s old at p99" if now.quantiles else "Batches run"
    return Judgement("good", "Healthy", f"{fresh}, {_keeps_up(now)}.{_audited(now)}")


def _keeps_up(now: Glance) -> str:
    waits = now.lag.records if now.lag else 0
    return f"{now.rate_out_eps:,.0f} events/s come through and {waits:,} wait"


def _audited(now: Glance) -> str:
    return " Lost 0, duplicated 0." if now.audit else ""
