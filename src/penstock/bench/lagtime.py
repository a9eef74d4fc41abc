"""How right the lag in time is: guesses from the ends of a real topic against the times in its records.

Records come at a rate that changes each second, with silences and bursts, each with the time at which it was
made; the broker stamps it with the time at which it came. The ends are looked at once a second, as a running
pipeline does. At each look the age of the record at some positions is guessed; afterwards the topic is read,
and tells.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import Message, Producer

from penstock.audit.topic import read_topic
from penstock.observe.lag.age import LagTime, LogEnd
from penstock.observe.lag.ends import TopicEnds
from penstock.sinks.topics import QUIET, ensure_source_topic

_TOPIC = "lagtime"
_PARTITIONS = 4
_RATES_EPS = (0, 0, 20, 200, 1_000, 1_000, 2_000, 5_000)
_STEP_S = 0.01
_BACK = (0.01, 0.05, 0.1, 0.3, 0.6, 0.9)
"""Positions, as shares of the topic that wait."""
_LATE = 1 / 3
"""When a second table begins, which must guess what came before it."""


@dataclass(frozen=True)
class Times:
    """When a record was made, and when it was in the log."""

    made_ms: int
    came_ms: int


Told = dict[tuple[int, int], Times]
"""By partition and offset."""


@dataclass(frozen=True)
class Guess:
    """The age that a record was said to have."""

    partition: int
    position: int
    at_ms: int
    age: LagTime


@dataclass(frozen=True)
class Off:
    """How far guesses were from the truth, in milliseconds."""

    what: str
    errors_ms: Sequence[float]
    outside: int = 0
    """Beyond the bounds that came with the guess."""


def measure(kafka: str, seconds: int, seed: int = 1) -> list[Off]:
    """Of guesses between two looks, and of records that were there before the first look."""
    guesses, told = _run(kafka, seconds, random.Random(seed))
    between = [guess for guess in guesses if guess.age.at_most_ms is not None]
    before = [guess for guess in guesses if guess.age.at_most_ms is None]
    return [
        _off("lag in time, between two looks", between, told),
        _off("lag in time, before the first look", before, told),
    ]


def _run(kafka: str, seconds: int, chance: random.Random) -> tuple[list[Guess], Told]:
    ensure_source_topic(kafka, _TOPIC, _PARTITIONS)
    sender = threading.Thread(target=_send, args=(kafka, seconds, chance))
    sender.start()
    guesses = _look(kafka, seconds)
    sender.join()
    return guesses, {_place(message): _times(message) for message in read_topic(kafka, _TOPIC)}


def _place(message: Message) -> tuple[int, int]:
    return int(message.partition() or 0), int(message.offset() or 0)


def _times(message: Message) -> Times:
    _, came_ms = message.timestamp()
    return Times(int(message.value() or 0), came_ms)


def _send(kafka: str, seconds: int, chance: random.Random) -> None:
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0, **QUIET})
    began_s, due = time.monotonic(), 0.0
    sent = 0
    for second in range(seconds):
        rate_eps = chance.choice(_RATES_EPS)
        while (now_s := time.monotonic() - began_s) < second + 1:
            due += rate_eps * _STEP_S
            while sent < due:
                made_ms = str(time.time_ns() // 1_000_000).encode()
                producer.produce(_TOPIC, made_ms, partition=sent % _PARTITIONS)
                sent += 1
            producer.poll(0)
            time.sleep(max(0.0, min(_STEP_S, second + 1 - now_s)))
    producer.flush()


def _look(kafka: str, seconds: int) -> list[Guess]:
    ends = TopicEnds(kafka, _TOPIC, _PARTITIONS)
    tables = [[LogEnd() for _ in range(_PARTITIONS)] for _ in ("from the beginning", "late")]
    guesses: list[Guess] = []
    for second in range(seconds):
        seen, at_ms = ends.read() or {}, time.time_ns() // 1_000_000
        for table in tables if second >= _LATE * seconds else tables[:1]:
            for partition, end in seen.items():
                table[partition].saw(end, at_ms)
                for share in _BACK:
                    position = round(end * (1 - share))
                    age = table[partition].age(position, at_ms)
                    if isinstance(age, LagTime):
                        guesses.append(Guess(partition, position, at_ms, age))
        time.sleep(1.0)
    return guesses


def _off(what: str, guesses: Sequence[Guess], told: Told) -> Off:
    true_ms = [guess.at_ms - told[guess.partition, guess.position].came_ms for guess in guesses]
    outside = [
        true
        for guess, true in zip(guesses, true_ms, strict=True)
        if guess.age.at_most_ms is not None and not guess.age.at_least_ms <= true <= guess.age.at_most_ms
    ]
    errors = [abs(guess.age.ms - true) for guess, true in zip(guesses, true_ms, strict=True)]
    return Off(what, errors, len(outside))
