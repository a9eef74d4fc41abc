"""The stream that a page listens to: a snapshot, then what has changed, once a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass

from penstock.observe.board.series import FINE_MS, FINE_POINTS
from penstock.web.message import Picture, card, delta, event, snapshot
from penstock.web.recording import Playback, Recording
from penstock.web.watched import Watch

_EVERY_S = 1.0
_RETRY = b"retry: 1000\n\n"
"""How soon a browser asks again when the connection is gone."""

_WHOLE_EVERY_MS = FINE_MS * FINE_POINTS
"""A page keeps fine points for twice as long: what is older it needs anew, in coarse ones."""

SPEEDS = (0, 1, 2, 5, 10, 30, 60)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


async def live(
    watch: Watch, shown: str, last_id: str, epoch: str, closing: asyncio.Event
) -> AsyncIterator[bytes]:
    """All pipelines as cards, and one of them in full."""
    yield _RETRY
    sent_ms = _resumed_ms(last_id, epoch, shown)
    while not closing.is_set():
        began = time.monotonic()
        cards, picture = await asyncio.to_thread(_look, watch, shown, _wall_ms())
        yield event("cards", cards)
        if picture is not None:
            kind, made = await asyncio.to_thread(_content, picture, sent_ms)
            sent_ms = picture.glance.now_ms
            yield event(kind, made, f"{epoch}/{sent_ms}/{shown}")
        await _pause(closing, max(0.1, _EVERY_S - (time.monotonic() - began)))


async def _pause(closing: asyncio.Event, seconds: float) -> None:
    """Wait, but not beyond the end of the server: a stream never ends by itself."""
    with suppress(TimeoutError):
        await asyncio.wait_for(closing.wait(), seconds)


def _look(watch: Watch, shown: str, now_ms: int) -> tuple[list[object], Picture | None]:
    pictures = {one.name: one.picture(now_ms) for one in watch.pipelines()}
    return [card(picture) for picture in pictures.values()], pictures.get(shown)


def _content(picture: Picture, sent_ms: int | None) -> tuple[str, object]:
    now_ms = picture.glance.now_ms
    if sent_ms is None or now_ms // _WHOLE_EVERY_MS != sent_ms // _WHOLE_EVERY_MS:
        return "snapshot", snapshot(picture)
    return "delta", delta(picture, sent_ms)


def _resumed_ms(last_id: str, epoch: str, shown: str) -> int | None:
    """Up to where a page that comes back has it all; None if it must begin anew."""
    known = last_id.split("/", 2)
    if len(known) != 3 or known[0] != epoch or known[2] != shown or not known[1].isdecimal():
        return None
    sent_ms = int(known[1])
    return sent_ms if _wall_ms() - sent_ms < FINE_MS * FINE_POINTS else None


@dataclass
class Clock:
    """The time of a recording: so many seconds in one of ours, from a moment on; at 0 it stands still."""

    start_ms: int
    end_ms: int
    at_ms: int
    speed: int
    seconds: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.at_ms = min(max(self.at_ms, self.start_ms), self.end_ms)
        self._began = self.seconds()

    def now_ms(self) -> int:
        return min(self.end_ms, self.at_ms + round((self.seconds() - self._began) * 1000 * self.speed))

    def go_on(self, at_ms: int) -> None:
        """Take this moment for now: the time since was spent on reading."""
        self.at_ms, self._began = at_ms, self.seconds()


async def replayed(
    recording: Recording, at_ms: int | None, speed: int, closing: asyncio.Event
) -> AsyncIterator[bytes]:
    """A recording, from a moment on. Each page has a clock of its own, so that asking changes nothing."""
    yield _RETRY
    start_ms, end_ms = recording.start_ms, recording.end_ms
    clock = Clock(start_ms, end_ms, start_ms if at_ms is None else at_ms, speed)
    playback = await asyncio.to_thread(Playback, recording, clock.at_ms)
    sent_ms: int | None = None
    while not closing.is_set():
        now_ms = clock.now_ms()
        if now_ms == sent_ms:
            yield b": still\n\n"
            await _pause(closing, _EVERY_S)
            continue
        read_ms = await asyncio.to_thread(playback.read, now_ms, _EVERY_S)
        place = {"start_ms": start_ms, "end_ms": end_ms, "at_ms": read_ms, "speed": speed}
        if read_ms < now_ms:
            # Far from where it began: the page sees how far it has come.
            clock.go_on(now_ms)
            yield event("replay", place)
            continue
        picture = await asyncio.to_thread(playback.picture, now_ms)
        kind, made = await asyncio.to_thread(_content, picture, sent_ms)
        yield event("cards", [card(picture)])
        yield event("replay", place)
        yield event(kind, made)
        sent_ms = now_ms
        await _pause(closing, _EVERY_S)
