"""Alerts over the time of a run: the page's own rules, asked again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.observe.board.alerts import Alert, Limits, alerts_at
from penstock.observe.board.board import Board
from penstock.observe.board.glance import Glance
from penstock.observe.board.pressure import STAGES, Stage
from penstock.report.facts import Episode, Load

LOOKS_MAX = 2_000
"""A look takes some 5 ms."""
_EVERY_MIN_MS = 1_000
_EPISODES_MAX = 500
_TOLD_ELSEWHERE = {"PipelineStopped", "PipelineCrashed", "ServiceAway", "RecordsLost", "RecordsDuplicated"}
"""By the notes of the run, which know the moment, and by the last audit."""

Measure = Callable[[Glance], float]


def _since_last(glance: Glance) -> float:
    return glance.now_ms - glance.last_ms


def _aside(glance: Glance) -> float:
    recent = glance.recent
    return (recent.rejected + recent.late + recent.refused) / max(1, recent.records)


_WORSE: dict[str, Measure] = {
    "LagHigh": lambda now: now.lag.age_ms if now.lag else 0.0,
    "LagGrowing": lambda now: now.lag.records if now.lag else 0.0,
    "LatencyObjectiveMissed": lambda now: now.quantiles.p99 if now.quantiles else 0.0,
    "PressureHigh": lambda now: now.flows[0].busy if now.flows else 0.0,
    "BatchesFailing": lambda now: now.failures_in_row,
    "DeadLettersHigh": _aside,
    "PipelineSilent": _since_last,
    "TopicUnseen": lambda now: now.now_ms - now.lag.at_ms if now.lag else 0.0,
    "BrokerGone": lambda now: sum(not one.alive for one in now.health.brokers) if now.health else 0.0,
    "PartitionsOffline": lambda now: now.health.offline if now.health else 0.0,
    "PartitionsUnderReplicated": lambda now: now.health.under_replicated if now.health else 0.0,
    "CheckpointSlow": lambda now: now.batch.phases.get("commit", 0.0) if now.batch else 0.0,
}
"""How bad it is, of what has a measure; of the rest the last reason stands."""


@dataclass(frozen=True)
class _Open:
    episode: Episode
    measure: float


class Episodes:
    """Looks at a board at even steps."""

    def __init__(self, board: Board, from_ms: int, to_ms: int, limits: Limits) -> None:
        self._board = board
        self._limits = limits
        self.every_ms = max(_EVERY_MIN_MS, (to_ms - from_ms) // LOOKS_MAX)
        self._next_ms = from_ms + self.every_ms
        self._to_ms = to_ms
        self._open: dict[str, _Open] = {}
        self._over: list[Episode] = []
        self._last: dict[str, _Open] = {}
        """Of each, the one that was over last."""
        self._floor_ms = from_ms
        self._told_ms = 0
        self._busy_ms = 0.0
        self._stages_ms = dict.fromkeys(STAGES, 0.0)
        self._pressed_ms: dict[Stage, int] = {}
        self.peak = (0.0, 0)

    def until(self, at_ms: int) -> list[Glance]:
        """Look at all moments that are due before the next entry, which is of this one."""
        seen = []
        while self._next_ms <= min(at_ms, self._to_ms):
            now_ms = self._next_ms
            self._next_ms += self.every_ms
            glance = self._board.glance(now_ms)
            if glance.phase in ("stopped", "starting"):
                # Rules look back as far as numbers are known; what was before a stop is another story.
                self._floor_ms = glance.phase_since_ms
                self._last.clear()
            if glance.phase == "stopped":
                self._close(now_ms=glance.phase_since_ms)
                continue
            seen.append(glance)
            self.look(glance)
            self._weigh(glance)
        return seen

    def look(self, glance: Glance) -> None:
        """Take in what is wrong at a moment, and close what no longer is."""
        there = set()
        for alert in alerts_at(glance, self._board.series, limits=self._limits):
            if alert.name not in _TOLD_ELSEWHERE:
                key = _key(alert)
                there.add(key)
                self._see(key, alert, glance)
        self._close(now_ms=glance.now_ms, but=there)

    def _see(self, key: str, alert: Alert, glance: Glance) -> None:
        measure = _WORSE.get(alert.name, _since_last)(glance)
        known = self._open.get(key) or self._resumed(key, alert.since_ms)
        if known is None:
            began_ms = min(max(alert.since_ms, self._floor_ms), glance.now_ms)
            fresh = Episode(alert.name, alert.severity, alert.reason, began_ms, None, glance.now_ms)
            known = _Open(fresh, measure)
        elif measure >= known.measure:
            gravest = min(known.episode.severity, alert.severity)  # critical comes before warning
            worse = replace(known.episode, reason=alert.reason, worst_ms=glance.now_ms, severity=gravest)
            known = _Open(worse, measure)
        self._open[key] = known

    def _resumed(self, key: str, since_ms: int) -> _Open | None:
        """The one before, if it had not quite ended: rules look at more than one number, and may flicker."""
        last = self._last.get(key)
        if last is None or last.episode.to_ms is None or last.episode.to_ms < since_ms - self.every_ms:
            return None
        self._over.remove(last.episode)
        return _Open(replace(last.episode, to_ms=None), last.measure)

    def _close(self, *, now_ms: int, but: set[str] | None = None) -> None:
        for key in [key for key in self._open if key not in (but or set())]:
            held = self._open.pop(key)
            if len(self._over) < _EPISODES_MAX:
                over = replace(held.episode, to_ms=max(now_ms, held.episode.from_ms))
                self._over.append(over)
                self._last[key] = _Open(over, held.measure)

    def _weigh(self, glance: Glance) -> None:
        if glance.rate_out_eps > self.peak[0]:
            self.peak = (glance.rate_out_eps, glance.now_ms)
        flow = next(iter(glance.flows), None)
        if flow is None or all(stage.busy is None for stage in flow.stages):
            return
        self._told_ms += self.every_ms
        self._busy_ms += flow.busy * self.every_ms
        for stage in flow.stages:
            self._stages_ms[stage.stage] += (stage.busy or 0.0) * self.every_ms
        if flow.origin is not None:
            self._pressed_ms[flow.origin] = self._pressed_ms.get(flow.origin, 0) + self.every_ms

    def all(self) -> tuple[Episode, ...]:
        """Those that are over, and those that are not, the oldest first."""
        still = [held.episode for held in self._open.values()]
        return tuple(sorted([*self._over, *still], key=lambda episode: episode.from_ms))

    def load(self) -> Load | None:
        if not self._told_ms:
            return None
        return Load(
            told_ms=self._told_ms,
            busy=self._busy_ms / self._told_ms,
            stages={stage: ms / self._told_ms for stage, ms in self._stages_ms.items()},
            pressed={stage: ms / self._told_ms for stage, ms in self._pressed_ms.items()},
        )


def _key(alert: Alert) -> str:
    """Of some alerts there may be several at once: one for each broker, or lookup, which is named first."""
    if alert.name in ("BrokerGone", "LookupStale"):
        return f"{alert.name} {' '.join(alert.reason.split()[:2])}"
    return alert.name
