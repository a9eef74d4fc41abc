"""What a person should be woken for: pure rules over a board and the time, each with its numbers.

The names are those of the Prometheus rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from penstock.observe.board.board import RECENT_MS, Board
from penstock.observe.board.glance import Glance
from penstock.observe.board.pressure import SATURATED
from penstock.observe.board.series import Series

Severity = Literal["critical", "warning"]


@dataclass(frozen=True)
class Alert:
    """One thing that is wrong."""

    name: str
    severity: Severity
    reason: str
    since_ms: int


@dataclass(frozen=True)
class Limits:
    """Where wrong begins."""

    lag_warning_ms: int = 120_000
    lag_critical_ms: int = 300_000
    growing_ms: int = 120_000
    """So long lag must have grown."""
    growing_records: int = 1_000
    """By less than this in a minute it may be noise."""
    growing_age_ms: int = 10_000
    """What waits for less is what the next batch takes, and grows with the rate."""
    failures: int = 3
    pressure_ms: int = 120_000
    p99_ms: int | None = 2_000
    """Of results, where they are seen first; None for no objective."""
    p99_held_ms: int = 30_000
    dead_letters: float = 0.02
    """Of the records of the last five minutes."""
    checkpoint_ms: int = 5_000
    unseen_ms: int = 3_000
    """The topic's ends are asked for each second."""
    silent_ms: int = 15_000


LIMITS = Limits()


@dataclass(frozen=True)
class Sight:
    """All that a rule may look at."""

    now: Glance
    series: Series
    alive: bool | None
    """Whether the pipeline's process lives; None where that cannot be told."""
    limits: Limits


def alerts(
    board: Board, now_ms: int, *, alive: bool | None = None, limits: Limits = LIMITS
) -> tuple[Alert, ...]:
    """What is wrong now, the worst and the oldest first."""
    return alerts_at(board.glance(now_ms), board.series, alive=alive, limits=limits)


def alerts_at(
    now: Glance, series: Series, *, alive: bool | None = None, limits: Limits = LIMITS
) -> tuple[Alert, ...]:
    """The same of a glance that is there already."""
    sight = Sight(now, series, alive, limits)
    found = [alert for rule in _RULES for alert in rule(sight)]
    return tuple(sorted(found, key=lambda alert: (alert.severity, alert.since_ms)))


def _lag_growing(at: Sight) -> Iterator[Alert]:
    """Each minute's mean above the one before."""
    lag = at.now.lag
    if lag is None or lag.age_ms < at.limits.growing_age_ms or at.now.phase in ("stopped", "failed"):
        return
    means: list[float] = []
    for minutes in range(15):
        to_ms = at.now.now_ms - minutes * 60_000
        mean = at.series.mean("lag", to_ms - 60_000, to_ms)
        if mean is None or (means and means[-1] - mean < at.limits.growing_records):
            break
        means.append(mean)
    grown_ms = (len(means) - 1) * 60_000
    if grown_ms < at.limits.growing_ms:
        return
    growth_eps = (means[0] - means[-1]) * 1000 / grown_ms
    reason = f"{_lag_now(at.now)}, growing by {growth_eps:,.0f}/s for {_minutes(grown_ms)}"
    yield Alert("LagGrowing", "warning", reason, at.now.now_ms - grown_ms)


def _lag_high(at: Sight) -> Iterator[Alert]:
    lag = at.now.lag
    if lag is None or lag.age_ms < at.limits.lag_warning_ms:
        return
    critical = lag.age_ms >= at.limits.lag_critical_ms
    limit_ms = at.limits.lag_critical_ms if critical else at.limits.lag_warning_ms
    since_ms = at.series.held_since("age_ms", lambda ages: ages >= limit_ms)
    reason = f"{_lag_now(at.now)}; the limit is {_minutes(limit_ms)}"
    yield Alert("LagHigh", "critical" if critical else "warning", reason, since_ms or lag.at_ms)


def _batches_failing(at: Sight) -> Iterator[Alert]:
    if at.now.failures_in_row > at.limits.failures:
        reason = f"{at.now.failures_in_row} batches failed in a row; the last: {at.now.note}"
        yield Alert("BatchesFailing", "critical", reason, at.now.phase_since_ms)


def _service_away(at: Sight) -> Iterator[Alert]:
    if at.now.phase == "waiting":
        away_ms = at.now.now_ms - at.now.phase_since_ms
        who = at.now.note.removesuffix("; waiting")
        yield Alert(
            "ServiceAway", "critical", f"{who} for {_seconds(away_ms)}; the pipeline waits and loses nothing",
            at.now.phase_since_ms,
        )  # fmt: skip


def _topic_unseen(at: Sight) -> Iterator[Alert]:
    """The first that is seen of a broker that died: Spark takes longer to notice."""
    lag, now = at.now.lag, at.now
    if lag is None or now.phase != "running" or at.alive is False:
        return
    if now.now_ms - now.last_ms > at.limits.silent_ms:
        return  # it says nothing at all
    unseen_ms = now.now_ms - lag.at_ms
    if unseen_ms > at.limits.unseen_ms:
        reason = f"Kafka has not said for {_seconds(unseen_ms)} how far the topic reaches"
        yield Alert("TopicUnseen", "warning", reason, lag.at_ms)


def _kafka(at: Sight) -> Iterator[Alert]:
    health = at.now.health
    if health is None:
        return

    def since_ms(name: str) -> int:
        return at.series.held_since(name, lambda counts: counts > 0) or health.at_ms

    for broker in health.brokers:
        if not broker.alive:
            up = sum(other.alive for other in health.brokers)
            reason = f"broker {broker.id} does not answer; {up} of {len(health.brokers)} are up"
            yield Alert("BrokerGone", "critical", reason, since_ms("brokers_down"))
    if health.offline:
        reason = f"{_counted(health.offline, 'partition')} without a leader: nobody can write or read them"
        yield Alert("PartitionsOffline", "critical", reason, since_ms("offline"))
    if health.under_replicated:
        reason = f"{_counted(health.under_replicated, 'partition')} with fewer copies than they should have"
        yield Alert("PartitionsUnderReplicated", "warning", reason, since_ms("under_replicated"))


def _pressure(at: Sight) -> Iterator[Alert]:
    since_ms = at.series.held_since("busy", lambda shares: shares >= SATURATED)
    if since_ms is None or at.now.phase != "running":
        return
    held_ms = at.now.now_ms - since_ms
    flow = next(iter(at.now.flows), None)
    if held_ms >= at.limits.pressure_ms and flow is not None and flow.origin is not None:
        stage = next(one for one in flow.stages if one.stage == flow.origin)
        reason = (
            f"busy for {flow.busy:.0%} of the time for {_minutes(held_ms)}; pressure starts at the"
            f" {flow.origin}, which takes {stage.busy or 0:.0%}"
        )
        if stage.capacity_eps:
            reason += f" and can do {stage.capacity_eps:,.0f}/s at most"
        yield Alert("PressureHigh", "warning", reason, since_ms)


def _latency(at: Sight) -> Iterator[Alert]:
    limit_ms, now = at.limits.p99_ms, at.now.quantiles
    if limit_ms is None or now is None or now.p99 <= limit_ms or at.now.phase != "running":
        return
    since_ms = at.series.held_since("p99", lambda values: values > limit_ms)
    if since_ms is not None and at.now.now_ms - since_ms >= at.limits.p99_held_ms:
        reason = f"p99 {_seconds(now.p99)} from event to visible, above the objective of {_seconds(limit_ms)}"
        yield Alert("LatencyObjectiveMissed", "warning", reason, since_ms)


def _audit(at: Sight) -> Iterator[Alert]:
    audit = at.now.audit
    if audit is None:
        return
    for name, count, what in (
        ("RecordsLost", audit.lost, "lost"),
        ("RecordsDuplicated", audit.duplicated, "duplicated"),
    ):
        if count:
            where = [sink.name for sink in audit.sinks if getattr(sink, what)]
            told = f" at {', '.join(where)}" if where else ""
            reason = f"the audit of {audit.batches:,} batches found {count:,} {what}{told}"
            yield Alert(name, "critical", reason, audit.at_ms)


def _dead_letters(at: Sight) -> Iterator[Alert]:
    recent = at.now.recent
    aside = recent.rejected + recent.late + recent.refused
    if recent.records and aside / recent.records > at.limits.dead_letters:
        reason = (
            f"{aside:,} of {recent.records:,} records set aside in {_minutes(RECENT_MS)}"
            f" ({aside / recent.records:.1%}; the limit is {at.limits.dead_letters:.0%})"
        )
        yield Alert("DeadLettersHigh", "warning", reason, at.now.now_ms - RECENT_MS)


def _checkpoint(at: Sight) -> Iterator[Alert]:
    limit_ms = at.limits.checkpoint_ms
    since_ms = at.series.held_since("phase_commit", lambda values: values > limit_ms)
    phases = at.now.batch.phases if at.now.batch else {}
    if since_ms is not None:
        took = _seconds(phases["commit"]) if "commit" in phases else f"over {_seconds(limit_ms)}"
        reason = f"a batch's commit takes {took}; the limit is {_seconds(limit_ms)}"
        yield Alert("CheckpointSlow", "warning", reason, since_ms)


def _lookups(at: Sight) -> Iterator[Alert]:
    for name, since_ms in at.now.stale_since_ms.items():
        age = _minutes(at.now.now_ms - since_ms)
        yield Alert("LookupStale", "warning", f"lookup {name} cannot be refreshed for {age}", since_ms)


def _gone(at: Sight) -> Iterator[Alert]:
    """A pipeline that says nothing: told to stop, dead, or stuck."""
    now = at.now
    if not now.last_ms:
        return
    quiet_ms = now.now_ms - now.last_ms
    if now.phase == "stopped":
        yield Alert("PipelineStopped", "warning", f"stopped {_seconds(quiet_ms)} ago", now.phase_since_ms)
    elif now.phase == "failed":
        reason = f"gave up {_seconds(quiet_ms)} ago: {now.note.removeprefix('failed: ')}"
        yield Alert("PipelineFailed", "critical", reason, now.phase_since_ms)
    elif at.alive is False and quiet_ms > 2_000:
        reason = f"its process is gone, and it was not told to stop; last heard {_seconds(quiet_ms)} ago"
        yield Alert("PipelineCrashed", "critical", reason, now.last_ms)
    elif quiet_ms > at.limits.silent_ms:
        lives = "its process lives, but" if at.alive else "it"
        reason = f"{lives} has said nothing for {_seconds(quiet_ms)}; the last was: {now.note or 'a batch'}"
        yield Alert("PipelineSilent", "critical", reason, now.last_ms)


_RULES: tuple[Callable[[Sight], Iterator[Alert]], ...] = (
    _gone, _audit, _service_away, _topic_unseen, _batches_failing, _kafka, _lag_high, _lag_growing,
    _pressure, _latency, _dead_letters, _checkpoint, _lookups,
)  # fmt: skip


def _lag_now(now: Glance) -> str:
    lag = now.lag
    return f"lag {lag.records:,} records, {_minutes(lag.age_ms)}" if lag else "lag unknown"


def _minutes(ms: float) -> str:
    if ms < 60_000:
        return _seconds(ms)
    minutes = ms / 60_000
    return f"{minutes:.1f} minutes" if minutes < 10 and ms % 60_000 else f"{minutes:,.0f} minutes"


def _seconds(ms: float) -> str:
    if ms >= 90_000:
        return _minutes(ms)
    return f"{ms / 1000:.1f} s" if ms < 10_000 else f"{ms / 1000:,.0f} s"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
