"""Plots as SVG: paths that stretch with the page, under text that does not.

The outer drawing has no viewBox, so that its text keeps its size from a phone to a wall, and places are per
cent. What is drawn of numbers is in an inner one, of a unit a bin and 1,000 units of height, that stretches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.observe.board.glance import Mark, MarkKind
from penstock.report.axes import Tick, Unit, decades, over_time, say, upright
from penstock.report.strip import Column, Floats, Strip
from penstock.report.words import text

_HEIGHT = 1_000
_GAP_USUAL = 10.0
"""A line is cut where nothing was known for so many times as long as usual."""
_GAP_MIN_MS = 10_000
_DOWN_BINS = 3
_SIGN_ROOM, _WORD_ROOM = 0.04, 0.12
"""Of the width: what the sign of an event takes on a phone, and with its word on a desk."""
_MARKS_DRAWN = 60

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Line:
    """One number on a plot."""

    name: str
    label: str
    colour: str
    """A property of the style sheet."""
    width: float = 1.5
    dash: str = ""
    of: str = "high"
    """Of what fell into a bin: the greatest, or the mean."""
    band: bool = False
    """Whether the least and the greatest are drawn, too."""


@dataclass(frozen=True)
class Frame:
    """What all plots of a run share."""

    strip: Strip
    marks: Sequence[Mark]
    bands: Sequence[tuple[int, int]]
    """When it did not run, or waited."""

    def share(self, at_ms: float) -> float:
        """Where a moment is, of the width."""
        span_ms = self.strip.to_ms - self.strip.from_ms
        return min(1.0, max(0.0, (at_ms - self.strip.from_ms) / span_ms))


WORDS: dict[MarkKind, tuple[str, str, str]] = {
    "start": ("○", "start", "--muted"),
    "ready": ("●", "running", "--good"),
    "away": ("■", "away", "--critical"),
    "back": ("●", "back", "--good"),
    "failed": ("▲", "failed", "--critical"),
    "fatal": ("▲", "gave up", "--critical"),
    "stop": ("□", "stopped", "--muted"),
    "news": ("·", "", "--muted"),
}
"""A sign, a word and a colour of each kind of event."""


@dataclass(frozen=True)
class Drawn:
    """Which lines are there, of what, and up to where their axis goes."""

    lines: Sequence[tuple[Line, Column]]
    unit: Unit
    floor: float = 0.0
    is_stacked: bool = False
    is_log: bool = False
    limit: tuple[float, str] | None = None


def plot(drawn: Drawn, frame: Frame, title: str, about: str, key: str) -> str:
    """One drawing, with a name and a description for those who do not see it."""
    values = [_values(line, column) for line, column in drawn.lines]
    if drawn.is_stacked:
        values = _stacked(values)
    scale = _Scale.of(drawn, values)
    rules = "".join(
        f'<line class="rule" x1="0" x2="100%" y1="{_down(tick.at)}" y2="{_down(tick.at)}"/>'
        f'<text class="y" x="0" dx="-7" dy="0.32em" y="{_down(tick.at)}">{text(tick.label)}</text>'
        for tick in scale.ticks
    )
    return (
        f'<svg class="axes" role="img" aria-labelledby="{key}-t {key}-d">'
        f'<title id="{key}-t">{text(title)}</title><desc id="{key}-d">{text(about)}</desc>'
        f"{_bands(frame)}{rules}{_times(over_time(frame.strip.from_ms, frame.strip.to_ms))}"
        f'<svg viewBox="0 0 {frame.strip.bins} {_HEIGHT}" preserveAspectRatio="none" width="100%"'
        ' height="100%">'
        f"{_paths(drawn, values, scale, frame)}</svg>"
        f"{_limit(drawn, scale)}{_marks(frame)}</svg>"
    )


@dataclass(frozen=True)
class _Scale:
    bottom: float
    top: float
    ticks: Sequence[Tick]
    is_log: bool

    @classmethod
    def of(cls, drawn: Drawn, values: Sequence[Floats]) -> _Scale:
        known = np.concatenate([one[np.isfinite(one)] for one in values])
        if drawn.is_log:
            positive = known[known > 0]
            low, high = (float(positive.min()), float(positive.max())) if positive.size else (1.0, 10.0)
            limit = drawn.limit[0] if drawn.limit else low
            bottom, top, ticks = decades(min(low, limit), max(high, limit))
            return cls(bottom, top, ticks, True)
        high = float(known.max()) if known.size else 0.0
        top, ticks = upright(max(high, 1e-9), drawn.floor, drawn.unit)
        return cls(0.0, top, ticks, False)

    def heights(self, values: Floats) -> Floats:
        """As shares of the axis."""
        if self.is_log:
            values = np.log10(np.maximum(values, 1e-9))
        return np.clip((values - self.bottom) / (self.top - self.bottom), 0.0, 1.0)


def _values(line: Line, column: Column) -> Floats:
    return column.mean if line.of == "mean" else column.high


def _stacked(values: Sequence[Floats]) -> list[Floats]:
    """Each on top of those before it.

    What is told of a batch comes in two parts, which may fall into two bins: between what is known of a
    number it is taken to go straight on.
    """
    places = np.arange(len(values[0]))
    known = np.zeros(len(places), bool)
    for one in values:
        known |= np.isfinite(one)
    sums, total = [], np.zeros(len(places))
    for one in values:
        there = np.isfinite(one)
        total = total + (np.interp(places, places[there], one[there]) if there.any() else 0.0)
        sums.append(np.where(known, total, np.nan))
    return sums


def _runs(known: Bools, frame: Frame) -> Iterable[NDArray[np.int64]]:
    """Places of what is known, cut where nothing was for long, or while it did not run."""
    places = np.flatnonzero(known)
    if not places.size:
        return []
    apart = np.diff(places)
    usual = float(np.median(apart)) if apart.size else 1.0
    cut = apart > max(_GAP_USUAL * usual, _GAP_MIN_MS / frame.strip.bin_ms)
    for from_ms, to_ms in frame.bands:
        left, right = (frame.share(at_ms) * frame.strip.bins for at_ms in (from_ms, to_ms))
        # It ends with a batch, which is the first point of what comes after it.
        cut |= (apart > _DOWN_BINS) & (places[:-1] + 1 < right) & (places[1:] > left)
    return np.split(places, np.flatnonzero(cut) + 1)


def _paths(drawn: Drawn, values: Sequence[Floats], scale: _Scale, frame: Frame) -> str:
    made: list[str] = []
    if drawn.is_stacked:
        # The highest first, so that none hides another.
        below = [np.zeros_like(values[0]), *values[:-1]]
        for (line, _), low, high in reversed(list(zip(drawn.lines, below, values, strict=True))):
            made += _area(line.colour, low, high, scale, frame, "0.9")
        return "".join(made)
    for line, column in drawn.lines:
        if line.band:
            made += _area(line.colour, column.low, column.high, scale, frame, "0.18")
    for (line, _), one in zip(drawn.lines, values, strict=True):
        dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
        for places in _runs(np.isfinite(one), frame):
            points = _points(places, scale.heights(one[places]))
            last = "" if len(places) > 1 else "h1"
            made.append(
                f'<path class="line" style="stroke:var({line.colour});stroke-width:{line.width:g}"{dash}'
                f' d="M{points}{last}"/>'
            )
    return "".join(made)


def _area(colour: str, low: Floats, high: Floats, scale: _Scale, frame: Frame, opacity: str) -> list[str]:
    made = []
    for places in _runs(np.isfinite(high), frame):
        above = _points(places, scale.heights(high[places]))
        under = _points(places[::-1], scale.heights(np.nan_to_num(low[places[::-1]])))
        # A single point is as wide as its bin.
        rest = f"h1V{under.partition(',')[2]}h-1Z" if len(places) == 1 else f"L{under}Z"
        made.append(
            f'<path class="area" style="fill:var({colour});fill-opacity:{opacity}" d="M{above}{rest}"/>'
        )
    return made


def _points(places: NDArray[np.int64], heights: Floats) -> str:
    last = len(places) - 1
    ups = np.round(_HEIGHT * (1 - heights)).astype(int)
    flat = [0 < i < last and ups[i - 1] == ups[i] == ups[i + 1] for i in range(len(places))]
    return "L".join(
        f"{place},{up}"
        for place, up, same in zip(places.tolist(), ups.tolist(), flat, strict=True)
        if not same
    )


def _down(share: float) -> str:
    return f"{100 * (1 - share):.2f}%"


def _across(share: float) -> str:
    return f"{100 * share:.2f}%"


def _times(ticks: Sequence[Tick]) -> str:
    return "".join(
        f"<g{' class=fine'.replace('fine', chr(34) + 'fine' + chr(34)) if tick.is_fine else ''}>"
        f'<line class="tick" x1="{_across(tick.at)}" x2="{_across(tick.at)}" y1="100%" y2="100%"/>'
        f'<text class="x" x="{_across(tick.at)}" y="100%" dy="1.35em">{text(tick.label)}</text></g>'
        for tick in ticks
    )


def _bands(frame: Frame) -> str:
    return "".join(
        f'<rect class="down" x="{_across(frame.share(from_ms))}" y="0" height="100%"'
        f' width="{_across(max(0.002, frame.share(to_ms) - frame.share(from_ms)))}"/>'
        for from_ms, to_ms in frame.bands
    )


def _limit(drawn: Drawn, scale: _Scale) -> str:
    if drawn.limit is None:
        return ""
    value, label = drawn.limit
    at = float(scale.heights(np.array([value]))[0])
    return (
        f'<line class="limit" x1="0" x2="100%" y1="{_down(at)}" y2="{_down(at)}"/>'
        f'<text class="limit" x="100%" y="{_down(at)}" dy="-0.35em">{text(label)}</text>'
    )


def _marks(frame: Frame) -> str:
    """The events of the run: a rule and a sign for each, and a word where there is room before the next."""
    shown = [mark for mark in frame.marks if mark.kind != "news"][:_MARKS_DRAWN]
    places = [frame.share(mark.at_ms) for mark in shown]
    made, signed = [], -math.inf
    for mark, at, after in zip(shown, places, [*places, 1.0][1:], strict=True):
        sign, word, colour = WORDS[mark.kind]
        made.append(
            f'<line class="mark" style="stroke:var({colour})" x1="{_across(at)}" x2="{_across(at)}" y1="0"'
            ' y2="100%"/>'
        )
        if at - signed < _SIGN_ROOM:
            continue
        signed = at
        where = f'style="fill:var({colour})" x="{_across(at)}" y="0" dy="-0.4em"'
        made.append(f'<text class="sign" {where}>{sign}</text>')
        if after - at >= _WORD_ROOM:
            made.append(f'<text class="word fine" {where} dx="0.75em">{word}</text>')
    return "".join(made)


def swatch(line: Line, is_area: bool) -> str:
    """How a line looks, for its legend."""
    dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
    shape = (
        f'<rect width="100%" height="100%" style="fill:var({line.colour})"/>'
        if is_area
        else f'<line x1="0" x2="100%" y1="50%" y2="50%"{dash}'
        f' style="stroke:var({line.colour});stroke-width:{max(2.0, line.width):g}"/>'
    )
    return f'<svg class="swatch" aria-hidden="true">{shape}</svg>'


def summary(column: Column, unit: Unit) -> tuple[str, str, str]:
    """The mean, the greatest and the last of a number, in words."""
    mean, high = column.mean[np.isfinite(column.mean)], column.high[np.isfinite(column.high)]
    return (
        say(unit, float(mean.mean())) if mean.size else say(unit, None),
        say(unit, float(high.max())) if high.size else say(unit, None),
        say(unit, column.last),
    )
