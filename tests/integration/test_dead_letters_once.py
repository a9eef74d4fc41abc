"""Replays that are killed, overtaken or doubled: each record is replayed once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from penstock.deadletters import replay as replaying
from penstock.deadletters.replay import Outcome
from penstock.errors import Fenced
from penstock.local.services import Addresses
from penstock.sinks.producer import Deliveries, is_fenced, send, transactional_producer
from tests.integration.letters import (
    Place,
    assert_all_replayed_once,
    events,
    new_place,
    replay_all,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def place(services: Addresses, tmp_path: Path) -> Place:
    return new_place(services, tmp_path)


DIES_ON_THE_WAY = """
import json, os, signal, sys, threading, time
from penstock.deadletters import replay
from tests.integration.clicks import clickstream
from tests.integration.letters import replay_all

_, kafka, settings, step, delay_ms = sys.argv
left, delay_s = int(step), float(delay_ms) / 1000

def dies(function):
    def wrapped(*arguments):
        global left
        left -= 1
        if left == 0:
            def kill():
                time.sleep(delay_s)
                os.kill(os.getpid(), signal.SIGKILL)
            threading.Thread(target=kill).start()
        return function(*arguments)
    return wrapped

replay._PAGE_RECORDS = 20
replay.send, replay.commit = dies(replay.send), dies(replay.commit)
replay_all(kafka, clickstream(**json.loads(settings)))
"""


@pytest.mark.parametrize("seed", range(int(os.environ.get("KILL_SEEDS", "1"))))
def test_a_replay_killed_at_any_moment_and_run_again_replays_each_record_once(
    place: Place, seed: int
) -> None:
    # A page is 40 sends and a commit, so that some die in the first page, some in a commit, some far on.
    place.set_aside(place.send(events(200)))
    chance = random.Random(seed)
    for _ in range(3):
        step = chance.choice([1, 41, 82, chance.randint(1, 200)])
        command = [sys.executable, "-c", DIES_ON_THE_WAY, place.kafka, json.dumps(place.settings)]
        command += [str(step), str(chance.choice([0, 0, 3, 10, 30]))]
        died = subprocess.run(command, timeout=120, cwd=Path(__file__).parents[2], check=False)
        # The last of them can be done before it is killed.
        assert died.returncode in (-signal.SIGKILL, 0)
    done = len(place.replayed())
    outcome = replay_all(place.kafka, place.spec)
    assert (outcome.already_replayed, outcome.replayed) == (done, 200 - done)
    assert_all_replayed_once(place)


def test_a_replay_that_is_overtaken_in_its_transaction_says_so_and_leaves_nothing_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.set_aside(place.send(events(60)))
    monkeypatch.setattr(replaying, "_PAGE_RECORDS", 20)
    sends, others = 0, list[Outcome]()
    send = replaying.send  # type: ignore[attr-defined]

    def overtaken(*arguments: Any) -> None:
        nonlocal sends
        sends += 1
        if sends == 50:  # in the second page
            others.append(replay_all(place.kafka, place.spec))
        send(*arguments)

    monkeypatch.setattr(replaying, "send", overtaken)
    with pytest.raises(Fenced, match=r"another replay .* has taken over; 20 records were replayed before"):
        replay_all(place.kafka, place.spec)
    assert (others[0].replayed, others[0].already_replayed) == (40, 20)
    assert_all_replayed_once(place)


def test_a_producer_that_learned_of_its_fence_in_the_background_says_so(place: Place) -> None:
    old = transactional_producer(place.kafka, place.dead, place.source, timeout_ms=15_000)
    old.begin_transaction()
    transactional_producer(place.kafka, place.dead, place.source, timeout_ms=15_000)

    def send_on() -> None:
        # The first one makes it ask the broker; a later one meets what the client has made of the answer.
        for _ in range(500):
            send(old, place.source, {"key": b"k", "value": b"v"}, Deliveries())
            time.sleep(0.02)

    with pytest.raises(KafkaException) as caught:
        send_on()
    assert is_fenced(caught.value)


def test_a_replay_that_is_overtaken_between_pages_finds_the_others_marks(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.set_aside(place.send(events(60)))
    monkeypatch.setattr(replaying, "_PAGE_RECORDS", 20)
    others = list[Outcome]()

    def overtake(_: Outcome) -> None:
        if not others:
            others.append(Outcome())
            others[0] = replay_all(place.kafka, place.spec)

    outcome = replay_all(place.kafka, place.spec, overtake)
    assert (others[0].replayed, others[0].already_replayed) == (40, 20)
    assert (outcome.replayed, outcome.already_replayed) == (20, 40)
    assert_all_replayed_once(place)


def test_commands_that_run_at_the_same_time_replay_each_record_once(place: Place) -> None:
    place.set_aside(place.send(events(3_000)))
    command = [sys.executable, "-m", "penstock.cli", *place.command("replay", "--yes")]
    with ExitStack() as running:
        children = [
            running.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            )
            for _ in range(3)
        ]
        told = [child.communicate(timeout=120)[0] for child in children]
    for child, text in zip(children, told, strict=True):
        assert child.returncode in (0, 1), text
        assert child.returncode == 0 or "has taken over" in text, text
    assert 0 in [child.returncode for child in children], told
    place.run("replay", "--yes")
    assert_all_replayed_once(place)
