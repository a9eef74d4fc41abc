"""Where lag is going: a series of looks as one of a few shapes, each with the figures that matter for it.

Lag is judged by what is left after each batch (`lows`), so that the rise between two batches is no growth. A
movement is Theil and Sen's slope, the median of the slopes of all pairs, with Kendall's tau, how many more of
them rise than fall. Least squares follow a single pause of thirty seconds; the median stands until three
samples in ten are wrong. No threshold here has a unit: small is small against what the pipeline processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from penstock.observe.lag.looks import (
    Look,
    Looks,
    lows,
    moves_every_ms,
    patience_ms,
    usual_ms,
    waiting_since_ms,
)

WINDOW_MIN_MS = 300_000
_WINDOW_BATCHES = 20
LOWS_MIN = 6
"""Batches without which nothing is said; and as many are fitted at least."""
_FITTED_MAX = 200
"""A fit looks at all pairs."""

_TAU_MIN = 0.5
_SHARE_MIN = 0.01
"""Of what the pipeline processes: it falls behind by one record in a hundred."""
_BATCHES_MIN = 1.0
"""Lag swings by a batch's worth, since batches and looks are not in step: less than that is no movement."""
_RISE_MIN = 6
_FALL_MIN = 3
"""Batches to be sure by. A backlog is read in few and long ones; and growth is what wakes people up."""
_BASE_MAX = 0.5
"""A burst at least doubles what was left before it."""
_RISEN = 0.1
_FALLEN = 0.1
"""Of the rise: where a burst began, and how far it is worked off before it is called one."""
_SAW_LOW_MAX = 1 / 3
_SAW_LOOKS_MIN = 3


@dataclass(frozen=True)
class TooFewSamples:
    """Too few batches ended to say where it goes: so many, of late."""

    batches: int


@dataclass(frozen=True)
class Steady:
    """Lag stays where it is."""


@dataclass(frozen=True)
class Sawtooth:
    """Lag rises between batches and falls to nearly nothing with each: healthy."""

    period_s: float
    low: int
    high: int


@dataclass(frozen=True)
class Growing:
    """More comes in than is processed."""

    slope_eps: float
    loses_data_in_s: float | None = None
    """Until records are deleted before they are read, where it is known how long they are kept."""


@dataclass(frozen=True)
class Draining:
    """A backlog is being read."""

    done_in_s: float


@dataclass(frozen=True)
class Burst:
    """Lag rose, and is being worked off."""

    peak: int
    since_ms: int


@dataclass(frozen=True)
class Stalled:
    """Records wait, and the position does not move."""

    since_ms: int


Trend = TooFewSamples | Steady | Sawtooth | Growing | Draining | Burst | Stalled


@dataclass(frozen=True)
class Retention:
    """How long the topic keeps records, and how old the oldest one is that waits."""

    kept_ms: int
    age_ms: int


def trend(series: Looks, *, trigger_ms: int = 0, retention: Retention | None = None) -> Trend:
    """The shape of a series, by its newest part: 5 minutes, or 20 batches if these take longer."""
    if not series:
        return TooFewSamples(0)
    since_ms = waiting_since_ms(series)
    waiting_ms = series[-1].at_ms - since_ms
    if waiting_ms >= patience_ms(series, trigger_ms):
        return Stalled(since_ms)
    if waiting_ms > usual_ms(series, trigger_ms):
        return TooFewSamples(0)  # what was left after the last batch tells nothing of now
    every_ms = max(moves_every_ms(series), trigger_ms)
    window_ms = max(WINDOW_MIN_MS, _WINDOW_BATCHES * every_ms)
    recent = [sample for sample in series if sample.at_ms >= series[-1].at_ms - window_ms]
    left = lows(recent)
    if len(left) < LOWS_MIN:
        return TooFewSamples(len(left))
    pace = _Pace.of(recent, every_ms)
    if moving := _falling(left, pace, recent):
        return moving
    if rise := _rising(left, pace):
        return Growing(rise.slope_eps, _loses_data_in_s(rise.slope_eps, pace, retention))
    return _sawtooth(recent, left) or Steady()


@dataclass(frozen=True)
class _Pace:
    """What the pipeline does in this series: the measure for everything else."""

    in_eps: float
    processed_eps: float
    """Or what comes in, if that is more."""
    batch: float
    """Records of a batch, and of the time between two looks."""

    @classmethod
    def of(cls, series: Looks, every_ms: float) -> _Pace:
        first, last = series[0], series[-1]
        took_s = max(1, last.at_ms - first.at_ms) / 1000
        in_eps = (last.end - first.end) / took_s
        processed_eps = max(in_eps, (last.position - first.position) / took_s)
        looks_ms = 1000 * took_s / max(1, len(series) - 1)
        return cls(in_eps, processed_eps, processed_eps * (every_ms + looks_ms) / 1000)


@dataclass(frozen=True)
class _Fit:
    """A straight line through lag, and how well it tells it."""

    slope_eps: float
    tau: float
    change: float

    @classmethod
    def of(cls, samples: Sequence[Look]) -> _Fit:
        chosen = samples[:: 1 + len(samples) // _FITTED_MAX]
        at_s = np.array([sample.at_ms - chosen[0].at_ms for sample in chosen]) / 1000
        lag = np.array([sample.lag for sample in chosen], dtype=float)
        first, second = np.triu_indices(len(chosen), k=1)
        apart_s, more = at_s[second] - at_s[first], lag[second] - lag[first]
        if not apart_s.any():
            return cls(0.0, 0.0, 0.0)
        slope_eps = float(np.median(more[apart_s > 0] / apart_s[apart_s > 0]))
        return cls(slope_eps, float(np.mean(np.sign(more))), float(slope_eps * at_s[-1]))

    def moves(self, pace: _Pace, up: int) -> bool:
        """Whether it is a movement up (1) or down (-1), and not the noise of batches."""
        return (
            self.tau * up >= _TAU_MIN
            and self.change * up >= _BATCHES_MIN * pace.batch
            and self.slope_eps * up >= _SHARE_MIN * pace.processed_eps
        )


def _rising(left: Sequence[Look], pace: _Pace) -> _Fit | None:
    """The movement since the least was left, if it goes up, and still does."""
    least = min(range(len(left)), key=lambda at: (left[at].lag, -at))
    fit = _Fit.of(_later_half(left[least:], _RISE_MIN))
    return fit if fit.moves(pace, 1) else None


def _falling(left: Sequence[Look], pace: _Pace, series: Looks) -> Burst | Draining | None:
    """The movement since the most was left, if it goes down, and still does; a burst if it rose before."""
    most = max(range(len(left)), key=lambda at: (left[at].lag, at))
    fit = _Fit.of(_later_half(left[most:], _FALL_MIN))
    if not fit.moves(pace, -1):
        return None
    peak, base = left[most].lag, min((sample.lag for sample in left[:most]), default=left[most].lag)
    if base > _BASE_MAX * peak:
        return Draining(left[-1].lag / -fit.slope_eps)
    if peak - left[-1].lag < _FALLEN * (peak - base):
        return None
    since_ms = max(s.at_ms for s in left[:most] if s.lag <= base + _RISEN * (peak - base))
    return Burst(max(sample.lag for sample in series if sample.at_ms >= since_ms), since_ms)


def _later_half(samples: Sequence[Look], least: int) -> Sequence[Look]:
    """What goes on now: a movement that is over is none. Where there are too few, one, which never moves."""
    return samples[-max(_RISE_MIN, len(samples) // 2) :] if len(samples) >= least else samples[-1:]


@dataclass(frozen=True)
class _Tooth:
    """A rise, and the fall that ended it."""

    ended_ms: int
    high: int
    low: int
    looks: int


def _teeth(series: Looks, left: Sequence[Look]) -> list[_Tooth]:
    ends = {sample.at_ms for sample in left}
    teeth, high, looks = [], 0, 0
    for sample in series:
        if sample.at_ms in ends and high > sample.lag:
            teeth.append(_Tooth(sample.at_ms, high, sample.lag, looks))
            high, looks = 0, 0
        high, looks = max(high, sample.lag), looks + 1
    return teeth


def _sawtooth(series: Looks, left: Sequence[Look]) -> Sawtooth | None:
    """Teeth that reach down to a third of their height, and take three looks at least."""
    teeth = _teeth(series, left)
    if len(teeth) < LOWS_MIN:
        return None
    first, *teeth = teeth  # the first one was cut by the window
    high, low = median(tooth.high for tooth in teeth), median(tooth.low for tooth in teeth)
    if low > high * _SAW_LOW_MAX or median(tooth.looks for tooth in teeth) < _SAW_LOOKS_MIN:
        return None
    period_s = (teeth[-1].ended_ms - first.ended_ms) / len(teeth) / 1000
    return Sawtooth(period_s, round(low), round(high))


def _loses_data_in_s(slope_eps: float, pace: _Pace, retention: Retention | None) -> float | None:
    """What waits grows older each second by the share of what comes in that is not processed.

    At the earliest: a log is deleted in segments, when the newest record of one is old enough.
    """
    if retention is None or pace.in_eps <= 0:
        return None
    return max(0, retention.kept_ms - retention.age_ms) / 1000 / (slope_eps / pace.in_eps)
