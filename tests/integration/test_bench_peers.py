"""Flink on a real broker, its sessions held against the oracle. It fetches 130 MB: PEERS=1 asks for it."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from penstock.bench.peers.job import Job
from penstock.bench.peers.jvm import PARTITIONS, flink_heap
from penstock.bench.peers.sessions import differences, expected, held
from penstock.bench.rig import fill
from penstock.bench.stages import clicks
from penstock.local.services import Addresses
from penstock.produce.clickstream import ClickstreamPlan

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.environ.get("PEERS") != "1", reason="fetches Flink: set PEERS=1"),
]

PLAN = ClickstreamPlan(users=300, products=100, delayed=0, late=0, duplicate=0)
EVENTS = 5_000


def test_flink_makes_the_sessions_of_the_oracle_in_every_round(services: Addresses, tmp_path: Path) -> None:
    PLAN.write_reference(tmp_path)
    topic = f"clicks-{uuid.uuid4().hex[:8]}"
    assert fill(services.kafka, topic, PARTITIONS, clicks(PLAN, EVENTS)) == EVENTS
    wanted = expected(PLAN, EVENTS, tmp_path)
    job = Job(services.kafka, topic, tmp_path, output=f"{topic}-sessions", rounds=2)
    rounds = flink_heap(job, print)
    for number, one in enumerate(rounds):
        assert (one.job, one.guarantee, one.warm) == ("flink heap", "exactly_once", number > 0)
        assert (one.events, one.sessions) == (EVENTS, wanted.num_rows)
        assert one.cpu_s_per_million > 0
        assert differences(wanted, held(services.kafka, job.output_of(number))) == ()
    assert len(rounds) == 2
    one_less = expected(PLAN, EVENTS - 1, tmp_path)
    assert differences(one_less, held(services.kafka, job.output_of(0))) != ()
