"""What experiments make of their measurements."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from penstock.bench.breakdown import PARTS, Stamped, breakdown
from penstock.bench.drain import with_end
from penstock.bench.limits import ROUND_TRIPS, Limits, Use, limiting
from penstock.bench.realtime import in_the_log_ms
from penstock.bench.result import Spread
from penstock.bench.rig import Cost
from penstock.bench.stages import PLAIN, STATE, Measured, clicks, findings, reference_plan, stage_rows
from penstock.engine.receipt import Receipt, SinkReceipt

LIMITS = Limits(cores=2, disk_bytes_per_s=100.0, network_bytes_per_s=1_000.0)


@pytest.mark.parametrize(
    ("use", "by", "share"),
    [
        (Use(10, cpu_s=18, disk_bytes=100, network_bytes=100), "CPU", 0.9),
        (Use(10, cpu_s=2, disk_bytes=700, network_bytes=100), "disk", 0.7),
        (Use(10, cpu_s=2, disk_bytes=10, network_bytes=8_000), "network", 0.8),
        (Use(10, cpu_s=8, disk_bytes=10, network_bytes=10), ROUND_TRIPS, 0.4),
    ],
)
def test_the_resource_that_is_used_most_is_named(use: Use, by: str, share: float) -> None:
    found, used = limiting(use, LIMITS)
    assert found == by
    assert used == pytest.approx(share)


def measured(per_million: float, eps: float) -> Measured:
    cost = Cost(events=1_000_000, seconds=1e6 / eps, cpu_seconds=per_million)
    return Measured(cost, Use(cost.seconds, cost.cpu_seconds, 0, 0))


FOUND = {
    "read": [measured(2.0, 500_000)],
    "decode": [measured(3.0, 400_000)],
    "lookup": [measured(3.5, 350_000)],
    STATE: [measured(8.0, 200_000)],
    PLAIN: [measured(24.0, 80_000)],
}


def test_a_stage_costs_what_it_adds() -> None:
    rows = {str(row["stage"]): row for row in stage_rows(FOUND, LIMITS)}
    own = {name: row["cpu_s_per_million"] for name, row in rows.items()}
    assert {name: spread.middle for name, spread in own.items() if isinstance(spread, Spread)} == {
        "read": 2.0,
        "decode": 1.0,
        "lookup": 0.5,
        STATE: 4.5,
        "whole path, measured": 8.0,
        PLAIN: 24.0,
    }
    assert rows["decode"]["events_per_s"] == Spread(2e6, 2e6, 2e6)


def test_the_bottleneck_is_named_and_the_whole_foretold() -> None:
    bottleneck, whole, plain = findings(
        {name: f[0].cost.per_million for name, f in FOUND.items()}, 200_000, 2
    )
    assert bottleneck == "bottleneck: shuffle + state, 4.5 of 8.0 CPU-s per million"
    assert "250,000/s" in whole
    assert "80%" in whole
    assert plain == "plain takes 3.0 times as much CPU"


def test_the_last_click_is_an_hour_later_and_good() -> None:
    *before, [last] = with_end(clicks(reference_plan(100), 3_000))
    assert sum(map(len, before)) == 3_000
    found = [re.search(rb'"ts":(\d+)', message["value"]) for chunk in before for message in chunk]
    times = [int(one[1]) for one in found if one]
    assert json.loads(last["value"])["ts"] >= max(times) + 3_500_000


def receipt(batch: int, offsets: dict[int, tuple[int, int]], started_ms: int) -> Receipt:
    sink = SinkReceipt("live", rows=1, digest="", replayed=False, write_ms=30, visible_at_ms=started_ms + 530)
    counts = dict.fromkeys(
        ("decoded", "rejected", "late", "duplicates", "opened", "closed", "corrected", "merged"), 0
    )
    return Receipt(
        query="q",
        batch=batch,
        offsets=offsets,
        sinks=(sink,),
        started_at_ms=started_ms,
        compute_ms=500,
        total_ms=530,
        latency_ms=(),
        versions={},
        stale_since_ms={},
        **counts,
    )


@given(st.integers(0, 19), st.integers(0, 400), st.integers(0, 300))
def test_the_parts_of_an_events_time_are_all_of_it(offset: int, on_the_way_ms: int, waited_ms: int) -> None:
    receipts = [receipt(1, {0: (10, 20), 1: (0, 0)}, 20_000), receipt(0, {0: (0, 10), 1: (0, 5)}, 10_000)]
    began_ms = 10_000 if offset < 10 else 20_000
    appended_ms = began_ms - waited_ms
    record = Stamped(0, offset, appended_ms - on_the_way_ms, appended_ms)
    [parts] = breakdown([record], receipts, "live", 0, 1e9)
    assert dict(zip(PARTS, parts, strict=True)) == {
        "producer and broker": on_the_way_ms,
        "waiting for its batch": waited_ms,
        "read and state": 500,
        "sinks": 30,
    }
    assert parts.sum() == began_ms + 530 - record.created_ms


@pytest.mark.parametrize(
    ("partition", "offset", "made_ms"),
    [(0, 20, 9_000), (1, 5, 9_000), (2, 0, 9_000), (0, 1, 1)],
    ids=["behind all batches", "behind its partition's", "of no batch", "made too early"],
)
def test_records_of_no_batch_or_of_another_time_are_left_out(
    partition: int, offset: int, made_ms: int
) -> None:
    record = Stamped(partition, offset, made_ms, made_ms)
    receipts = [receipt(0, {0: (0, 20), 1: (0, 5)}, 10_000)]
    assert breakdown([record], receipts, "live", 5_000, 1e9).shape == (0, len(PARTS))
    assert np.isfinite(breakdown([Stamped(0, 3, 9_000, 9_100)], receipts, "live", 5_000, 1e9)).all()


def test_an_event_is_in_the_log_when_its_first_record_is() -> None:
    def record(value: bytes, at_ms: int) -> Message:
        return cast(Message, SimpleNamespace(value=lambda: value, timestamp=lambda: (2, at_ms)))

    log = [
        record(b'{"event_id":"p1-2","ts":1}', 10),
        record(b'{"event_id":"p1-0"}', 20),
        record(b"not an event", 30),
        record(b'{"event_id":"p1-2"}', 40),
    ]
    assert in_the_log_ms(log, 4).tolist() == [20, 0, 10, 0]
