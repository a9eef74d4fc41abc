"""All that there is to say of a pipeline's lag at one moment, from what its journal tells and Kafka adds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

from penstock.observe.journal import Lag
from penstock.observe.lag.age import Age, LagTime, LogEnd, NoLag, TooFewPoints
from penstock.observe.lag.health import PartitionHealth, Reading, health
from penstock.observe.lag.looks import Looks, partition_series, rates_eps, whole_series
from penstock.observe.lag.skew import Nothing, Skew, skew
from penstock.observe.lag.trend import Growing, Retention, Stalled, Trend, trend

LOSS_SOON_S = 86_400.0
_GRAVE: tuple[Reading, ...] = ("stopped", "stalled", "beyond")


@dataclass(frozen=True)
class Ends:
    """How far a topic reached, and when Kafka said so."""

    at_ms: int
    by_partition: Mapping[int, int]


@dataclass(frozen=True)
class NotBegun:
    """The pipeline has not ended a batch yet, so that nobody knows where it is."""


@dataclass(frozen=True)
class PartitionLag:
    """One partition."""

    partition: int
    position: int
    end: int
    lag: int
    age: Age
    share: float
    """Of all that waits."""
    in_eps: float
    trend: Trend
    health: PartitionHealth

    @property
    def loses_soon(self) -> bool:
        """Whether records will be deleted unread within a day, if it goes on like this."""
        return isinstance(self.trend, Growing) and (
            self.trend.loses_data_in_s is not None and self.trend.loses_data_in_s < LOSS_SOON_S
        )

    @property
    def is_well(self) -> bool:
        return self.health.verdict not in _GRAVE and not self.loses_soon

    @property
    def _badness(self) -> tuple[bool, bool, int, int, int]:
        return (not self.is_well, self.health.verdict != "ok", _ms(self.age), self.lag, -self.partition)


@dataclass(frozen=True)
class LagReport:
    """A pipeline. Where several queries read the topic, positions are those of the slowest."""

    pipeline: str
    at_ms: int
    heard_at_ms: int
    """When the pipeline itself last told where it was."""
    ends_at_ms: int
    """When Kafka told the ends: `at_ms`, or earlier if it does not answer."""
    kept_ms: int | None
    partitions: tuple[PartitionLag, ...]
    """The worst first."""
    lag: int
    age: Age
    in_eps: float
    out_eps: float
    trend: Trend
    lag_skew: Skew | Nothing
    in_skew: Skew | Nothing

    @property
    def is_well(self) -> bool:
        return all(partition.is_well for partition in self.partitions)

    def to_json(self) -> dict[str, Any]:
        """As machines read it. What can be one of several things has its name as `is`."""
        plain = {name: _plain(value) for name, value in vars(self).items()}
        return {**plain, "verdict": "pass" if self.is_well else "fail"}


def lag_report(
    pipeline: str,
    lags: Sequence[Lag],
    now_ms: int,
    *,
    ends: Ends | None = None,
    kept_ms: int | None = None,
    trigger_ms: int = 0,
) -> LagReport | NotBegun:
    """Judge what the journal tells (the oldest first), and the ends that Kafka told us since."""
    told = [lag for lag in lags if lag.done]
    if not told:
        return NotBegun()
    last = told[-1]
    now_ms = max(now_ms, last.at_ms)  # a clock may have been put back since
    if ends and ends.at_ms >= last.at_ms:
        told.append(Lag(ends.at_ms, {**last.ends, **ends.by_partition}, last.done))
    series = {partition: samples for partition, samples in partition_series(told).items() if samples}
    whole = whole_series(series)
    ages = {partition: _age(samples, now_ms) for partition, samples in series.items()}
    waits = {partition: samples[-1].lag for partition, samples in series.items()}
    comes_in = {partition: rates_eps(samples)[0] for partition, samples in series.items()}
    total = sum(waits.values())

    def judged(samples: Looks, age: Age) -> tuple[Trend, PartitionHealth]:
        state = health(samples, last.at_ms, now_ms, trigger_ms=trigger_ms)
        if state.verdict == "stopped":
            return Stalled(last.at_ms), state
        return trend(samples, trigger_ms=trigger_ms, retention=_retention(kept_ms, age)), state

    def described(partition: int, samples: Looks) -> PartitionLag:
        now, (direction, state) = samples[-1], judged(samples, ages[partition])
        return PartitionLag(
            partition=partition,
            position=now.position,
            end=now.end,
            lag=now.lag,
            age=ages[partition],
            share=now.lag / total if total else 0.0,
            in_eps=comes_in[partition],
            trend=direction,
            health=state,
        )

    partitions = [described(partition, samples) for partition, samples in series.items()]
    age = max(ages.values(), key=_ms)
    in_eps, out_eps = rates_eps(whole)
    return LagReport(
        pipeline=pipeline,
        at_ms=now_ms,
        heard_at_ms=last.at_ms,
        ends_at_ms=told[-1].at_ms,
        kept_ms=kept_ms,
        partitions=tuple(sorted(partitions, key=lambda one: one._badness, reverse=True)),
        lag=total,
        age=age,
        in_eps=in_eps,
        out_eps=out_eps,
        trend=judged(whole, age)[0],
        lag_skew=skew(waits),
        in_skew=skew(comes_in),
    )


def _age(series: Looks, now_ms: int) -> Age:
    log = LogEnd()
    for sample in series:
        log.saw(sample.end, sample.at_ms)
    return log.age(series[-1].position, now_ms)


def _ms(age: Age) -> int:
    match age:
        case LagTime(ms):
            return ms
        case TooFewPoints(at_least_ms):
            return at_least_ms
        case NoLag():
            return -1


def _retention(kept_ms: int | None, age: Age) -> Retention | None:
    if kept_ms is None or not isinstance(age, LagTime):
        return None
    return Retention(kept_ms, age.ms)


_UNIONS = (*Age.__args__, *Trend.__args__, Nothing, Skew)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if not is_dataclass(value) or isinstance(value, type):
        return value
    fields = {name: _plain(held) for name, held in vars(value).items()}
    return {"is": snake(type(value).__name__), **fields} if isinstance(value, _UNIONS) else fields


def snake(name: str) -> str:
    """A class's name as machines read it."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
