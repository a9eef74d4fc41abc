"""The clock of a topic in which nothing happens: ticks that move event time on, as records of a topic.

Spark's watermark moves with events only, so the last sessions of a silent topic would stay open for ever. A
tick is durable before it moves anything, hence a batch that is run again sees the same clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import KafkaException, Producer

from penstock.errors import SinkError
from penstock.sinks.topics import QUIET
from penstock.spec import PipelineSpec

_EVERY_MIN_MS, _EVERY_MAX_MS = 1_000, 5_000
_SENT_WITHIN_S = 10.0


def clock_topic(spec: PipelineSpec) -> str:
    return f"{spec.name}-clock"


@dataclass(frozen=True)
class Silence:
    """A time in which nothing came: since when, and where the clock stood."""

    since_ms: int
    newest_ms: int
    """The newest event time before it."""


def due_tick(
    silence: Silence, now_ms: int, last_tick_ms: int, *, idle_ms: int, horizon_ms: int
) -> int | None:
    """The event time that a tick is to have now, if one is due.

    The clock runs `idle_ms` behind the wall clock, and stops once all that is open is closed and forgotten,
    `horizon_ms` after the newest event.
    """
    at_ms = min(silence.newest_ms + now_ms - silence.since_ms - idle_ms, silence.newest_ms + horizon_ms)
    every_ms = min(max(horizon_ms // 10, _EVERY_MIN_MS), _EVERY_MAX_MS)
    step = at_ms - max(last_tick_ms, silence.newest_ms)
    is_last = at_ms == silence.newest_ms + horizon_ms
    return at_ms if step >= every_ms or (is_last and step > 0) else None


def horizon_ms(spec: PipelineSpec) -> int:
    """How far after the newest event the clock must go until no state is left."""
    grouping, dedupe = spec.grouping, spec.cleanse.dedupe
    if grouping is None:
        return 0
    length = spec.sessions.gap if spec.sessions else spec.windows.size if spec.windows else grouping.lateness
    remembered = dedupe.within.ms if dedupe else 0
    return max(length.ms + grouping.lateness.ms, remembered) + grouping.out_of_order.ms + 1


class Ticker:
    """Sends ticks."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, **QUIET, "enable.idempotence": True})

    def send(self, at_ms: int) -> None:
        failures: list[str] = []

        def heard(error: object, _record: object) -> None:
            if error is not None:
                failures.append(str(error))

        try:
            self._producer.produce(self._topic, str(at_ms).encode(), on_delivery=heard)
            if self._producer.flush(_SENT_WITHIN_S) or failures:
                raise SinkError(
                    f"a tick of the clock could not be sent: {'; '.join(failures) or 'timed out'}"
                )
        except KafkaException as error:
            raise SinkError(f"a tick of the clock could not be sent: {error}") from error
