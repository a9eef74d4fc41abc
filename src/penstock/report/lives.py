"""When the pipeline started, stopped and crashed, what it waited for, and when it was well again."""

from __future__ import annotations

from dataclasses import replace

from penstock.observe.board.glance import Mark
from penstock.report.facts import End, Failure, Life, Outage

_FAILURES_MAX = 50
_OUTAGES_MAX = 200
_PAUSE_MS = 3_000
"""The topic is looked at each second."""


class Lives:
    """The fold of a run's notes and of the moments of its batches."""

    def __init__(self) -> None:
        self._lives: list[Life] = []
        self._outages: list[Outage] = []
        self._failures: list[Failure] = []
        self.failures_left_out = 0
        self._heard_ms = 0
        self._paused_ms: int | None = None
        """When it was last heard of before it said nothing for a while, if it has ended no batch since."""

    def heard(self, at_ms: int) -> None:
        """It lived: whatever it wrote down, it wrote at this moment."""
        if not self._lives or self._lives[-1].end_ms is not None:
            self._lives.append(Life(None))
        elif at_ms - self._heard_ms > _PAUSE_MS:
            self._paused_ms = self._heard_ms
        self._heard_ms = max(self._heard_ms, at_ms)

    def marked(self, mark: Mark) -> None:
        match mark.kind:
            case "start":
                self._start(mark.at_ms)
                return
            case "away":
                self._left(mark)
            case "back":
                self._outages = [
                    replace(one, back_ms=mark.at_ms) if one.back_ms is None else one for one in self._outages
                ]
            case "failed" | "fatal":
                self._failed(mark)
            case _:
                pass
        self.heard(mark.at_ms)
        if mark.kind == "ready" and self._lives[-1].ready_ms is None:
            self._lives[-1] = replace(self._lives[-1], ready_ms=mark.at_ms)
        if mark.kind == "stop":
            self._end_life("stopped")
        if mark.kind == "fatal":
            self._end_life("failed")

    def _start(self, at_ms: int) -> None:
        # A new process looks at the topic before it says that it starts.
        if self._lives and self._lives[-1] == Life(None):
            self._lives.pop()
        if self._paused_ms is not None:
            self._heard_ms = self._paused_ms
        self._end_life("crashed")
        self._lives.append(Life(at_ms))
        self._heard_ms, self._paused_ms = at_ms, None

    def _left(self, mark: Mark) -> None:
        what = mark.text.partition(" away")[0]
        # Each query of a pipeline says so for itself.
        if len(self._outages) < _OUTAGES_MAX and all(one.back_ms for one in self._outages):
            self._outages.append(Outage(what, mark.at_ms))

    def _failed(self, mark: Mark) -> None:
        if len(self._failures) < _FAILURES_MAX:
            self._failures.append(Failure(mark.at_ms, mark.text))
        else:
            self.failures_left_out += 1

    def batch(self, at_ms: int) -> None:
        """A batch was held by every sink."""
        self.heard(at_ms)
        self._paused_ms = None
        if self._lives[-1].first_batch_ms is None:
            self._lives[-1] = replace(self._lives[-1], first_batch_ms=at_ms)
        if self._outages and self._outages[-1].batch_ms is None:
            last = self._outages[-1]
            # A query that did not need the service may go on; what waits for it says when it is back.
            if last.back_ms is not None:
                self._outages[-1] = replace(last, batch_ms=at_ms)
        for place in range(len(self._failures) - 1, -1, -1):
            if self._failures[place].batch_ms is not None:
                break
            self._failures[place] = replace(self._failures[place], batch_ms=at_ms)

    def _end_life(self, how: End) -> None:
        if self._lives and self._lives[-1].end_ms is None:
            self._lives[-1] = replace(self._lives[-1], end_ms=self._heard_ms, how=how)

    def lives(self, end: End) -> tuple[Life, ...]:
        """All of them, the last one as the record ends."""
        if self._lives and self._lives[-1].end_ms is None:
            ended_ms = None if end in ("running", "cut") else self._heard_ms
            return (*self._lives[:-1], replace(self._lives[-1], end_ms=ended_ms, how=end))
        return tuple(self._lives)

    @property
    def outages(self) -> tuple[Outage, ...]:
        return tuple(self._outages)

    @property
    def failures(self) -> tuple[Failure, ...]:
        return tuple(self._failures)
