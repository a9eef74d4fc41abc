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
            kind = "snapshot" if sent_ms is None else "delta"
            made = await asyncio.to_thread(_content, picture, sent_ms)
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


def _content(picture: Picture, sent_ms: int | None) -> object:
    return snapshot(picture) if sent_ms is None else delta(picture, sent_ms)


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


async def replayed(
    recording: Recording, at_ms: int | None, speed: int, closing: asyncio.Event
) -> AsyncIterator[bytes]:
    """A recording, from a moment on. Each page has a clock of its own, so that asking changes nothing."""
    yield _RETRY
    start_ms, end_ms = recording.start_ms, recording.end_ms
    clock = Clock(start_ms, end_ms, start_ms if at_ms is None else at_ms, speed)
    playback = Playback(recording)
    sent_ms: int | None = None
    while not closing.is_set():
        now_ms = clock.now_ms()
        if now_ms != sent_ms:
            picture = await asyncio.to_thread(playback.picture, now_ms)
            made = await asyncio.to_thread(_content, picture, sent_ms)
            yield event("cards", [card(picture)])
            place = {"start_ms": start_ms, "end_ms": end_ms, "at_ms": now_ms, "speed": speed}
            yield event("replay", place)
            yield event("snapshot" if sent_ms is None else "delta", made)
            sent_ms = now_ms
        else:
            yield b": still\n\n"
        await _pause(closing, _EVERY_S)
