"""Producers that were changed: what they send, and what their ledgers are told.

A patch changes the process that it is done in, so each is done in one of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

NOW_MS = 1_800_000_000_000

SENDS = """
import json, sys
from penstock.faults.patched import PATCHES
PATCHES[sys.argv[1]]()
from penstock.paths import shipped as there
from penstock.produce import shipped
from penstock.spec import load
plan = shipped.plan_for(load(there("pipelines") / "clickstream.toml"), 3)
chunk = plan.records("p1", 500).chunk(5_000, int(sys.argv[2]))
for message, flaw in zip(plan.encoder("p1").encode(chunk), chunk.flaw.tolist()):
    key, value = message["key"].decode(), message["value"].decode("latin-1")
    print(json.dumps([key, value, flaw]))
"""


def sent(patch: str) -> list[tuple[Any, ...]]:
    """Key, value and flaw of each record that a patched producer sends."""
    command = [sys.executable, "-c", SENDS, patch, str(NOW_MS)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [tuple(json.loads(line)) for line in lines]


def event(value: str) -> dict[str, Any] | None:
    try:
        return dict(json.loads(value))
    except ValueError:
        return None


def test_events_ahead_of_their_time_are_right_but_for_that_and_the_ledger_calls_them_flawed() -> None:
    ahead, flaws = [], set()
    for _, value, flaw in sent("clock-ahead"):
        found = event(value)
        if found and isinstance(found.get("ts"), int) and found["ts"] > NOW_MS + 3_000_000:
            ahead.append(found)
            flaws.add(flaw)
    assert 0.005 < len(ahead) / 5_000 < 0.02
    assert len(flaws) == 1
    assert 0 not in flaws
    assert {found["event_type"] for found in ahead} <= {"view", "click", "search", "cart", "purchase"}
    assert {round((found["ts"] - NOW_MS) / 3_600_000) for found in ahead} == {1, 24}


def test_a_hot_key_has_most_of_the_events() -> None:
    [(_, most)] = Counter(key for key, *_ in sent("hot-key")).most_common(1)
    assert 0.75 < most / 5_000 < 0.85
