"""Generated events into a pipeline's topic, with a record of all that was sent."""

from __future__ import annotations

import json as jsonlib
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock.cli.common import (
    resolve_addresses,
    say,
)
from penstock.cli.producers import produce_by_several
from penstock.engine.source import check_source
from penstock.errors import SpecError
from penstock.paths import DataDir
from penstock.produce.ledger import next_producer_id
from penstock.produce.producer import ProduceStats, produce, send_clock_event
from penstock.produce.workload import Workload, span_ms
from penstock.sinks.topics import ensure_source_topic
from penstock.spec import PipelineSpec, Rate


def parse_rate(text: str) -> Rate:
    try:
        return Rate.parse(text)
    except ValueError as error:
        raise SpecError("--rate", [f'"{text}": {error}']) from error


def produce_records(
    spec: PipelineSpec,
    data: DataDir,
    rate: Rate,
    seconds: float | None,
    plan: Workload[Any],
    stop: threading.Event,
    close_sessions: bool,
    stats: Path | None,
    shares: Sequence[Sequence[str]] = (),
) -> ProduceStats:
    """`shares`: the arguments of the producers that share the work; none, and this process does it."""
    grouping = spec.grouping
    clock_ahead_ms = span_ms(spec) + grouping.out_of_order.ms + 1_000 if grouping else 0
    if close_sessions and clock_ahead_ms > spec.cleanse.future.ms:
        raise SpecError(
            "--close-sessions",
            [
                f'cleanse.future = "{spec.cleanse.future}": the event that closes the {plan.results_are} is '
                f"{clock_ahead_ms} ms ahead and would be rejected; set it to more"
            ],
        )
    kafka = resolve_addresses(spec, data, only=("kafka",)).kafka
    plan.write_reference(data.reference)
    ensure_source_topic(kafka, spec.source.topic, spec.source.partitions)
    check_source(spec, kafka)
    ledgers = data.produced / spec.name

    def show(now: ProduceStats) -> None:
        if stats is not None:
            with stats.open("a") as file:
                file.write(jsonlib.dumps(asdict(now)) + "\n")
        else:
            say(_line(now))

    if shares:
        final = produce_by_several(shares, stop, show)
    else:
        final = produce(
            plan,
            bootstrap=kafka,
            topic=spec.source.topic,
            rate_eps=rate.eps,
            seconds=seconds,
            ledger_dir=ledgers,
            producer_id=next_producer_id(ledgers),
            stop=stop,
            on_stats=show,
        )
    if close_sessions and grouping and not stop.is_set():
        ts_ms = time.time_ns() // 1_000_000 + clock_ahead_ms
        send_clock_event(plan, bootstrap=kafka, topic=spec.source.topic, ts_ms=ts_ms, ledger_dir=ledgers)
    return final


def _line(now: ProduceStats) -> str:
    line = (
        f"{now.elapsed_s:5.0f} s  {now.sent:,} sent  {now.acknowledged:,} acknowledged  "
        f"{now.achieved_eps:,.0f}/s  behind {now.behind_ms:,.0f} ms (max {now.behind_ms_max:,.0f})"
    )
    return f"{line}  {now.trouble}" if now.trouble else line
