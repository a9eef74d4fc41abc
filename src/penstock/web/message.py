"""What is sent to the page, as JSON. Nothing here knows an address or a secret."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from penstock.observe.board.alerts import Alert, Limits, alerts_at
from penstock.observe.board.board import Board
from penstock.observe.board.glance import Glance
from penstock.observe.board.judgement import Judgement, judge
from penstock.observe.board.series import FINE_MS, Points

_SPARK_POINTS = 60


@dataclass(frozen=True)
class Picture:
    """A board at a moment, judged."""

    board: Board
    glance: Glance
    alerts: tuple[Alert, ...]
    judgement: Judgement
    objective_ms: int | None

    @classmethod
    def of(cls, board: Board, now_ms: int, alive: bool | None, limits: Limits) -> Picture:
        glance = board.glance(now_ms)
        found = alerts_at(glance, board.series, alive=alive, limits=limits)
        return cls(board, glance, found, judge(glance, found), limits.p99_ms)


def card(picture: Picture) -> dict[str, Any]:
    """A pipeline among others."""
    glance = picture.glance
    rates = picture.board.series.fine(glance.now_ms - _SPARK_POINTS * FINE_MS).columns.get("rate_out")
    return {
        "name": glance.name,
        "level": picture.judgement.level,
        "headline": picture.judgement.headline,
        "reason": picture.judgement.reason,
        "rate_out_eps": glance.rate_out_eps,
        "lag": glance.lag.records if glance.lag else None,
        "p99_ms": glance.quantiles.p99 if glance.quantiles else None,
        "spark": [] if rates is None else _numbers(rates),
    }


def snapshot(picture: Picture) -> dict[str, Any]:
    """All that a page needs to begin, with its history."""
    series = picture.board.series
    return {
        **_now(picture),
        "objective_ms": picture.objective_ms,
        "coarse": _points(series.coarse()),
        "fine": _points(series.fine()),
        "marks": [asdict(mark) for mark in picture.board.marks],
    }


def delta(picture: Picture, after_ms: int) -> dict[str, Any]:
    """What has come since; points that a page has already may have changed, and come again."""
    return {
        **_now(picture),
        "fine": _points(picture.board.series.fine(after_ms - 2 * FINE_MS)),
        "marks": [asdict(mark) for mark in picture.board.marks if mark.at_ms > after_ms - 2 * FINE_MS],
    }


def _now(picture: Picture) -> dict[str, Any]:
    glance = asdict(picture.glance)
    glance["totals"]["open"] = picture.glance.totals.open
    return {
        "glance": glance,
        "alerts": [asdict(alert) for alert in picture.alerts],
        "judgement": asdict(picture.judgement),
    }


def _points(points: Points) -> dict[str, Any]:
    return {
        "at_ms": points.at_ms,
        "columns": {name: _numbers(values) for name, values in points.columns.items()},
    }


def _numbers(values: Sequence[float] | np.ndarray[Any, Any]) -> list[float | None]:
    """Three digits behind the point at most; none where they would only take room."""
    return [
        None if np.isnan(value) else round(float(value)) if abs(value) >= 1000 else round(float(value), 3)
        for value in values
    ]


def event(name: str, content: object, id_: str = "") -> bytes:
    """A server-sent event."""
    lines = [f"event: {name}", f"data: {json.dumps(content, separators=(',', ':'))}"]
    if id_:
        lines.insert(0, f"id: {id_}")
    return ("\n".join(lines) + "\n\n").encode()
