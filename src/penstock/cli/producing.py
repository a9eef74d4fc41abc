"""Generated clicks into a pipeline's topic, with a record of all that was sent."""

from __future__ import annotations

import json as jsonlib
import threading
import time
from dataclasses import asdict
from pathlib import Path

from penstock.cli.common import (
    resolve_addresses,
    say,
)
from penstock.engine.source import check_source
from penstock.errors import SpecError
from penstock.paths import DataDir
from penstock.produce.clickstream import FIELDS, ClickstreamPlan
from penstock.produce.ledger import next_producer_id
from penstock.produce.producer import ProduceStats, produce, send_clock_event
from penstock.produce.reference import write_reference
from penstock.sinks.kafka import ensure_source_topic
from penstock.spec import PipelineSpec, Rate, Sessions


def parse_rate(text: str) -> Rate:
    try:
        return Rate.parse(text)
    except ValueError as error:
        raise SpecError("--rate", [f'"{text}": {error}']) from error


def plan_for(spec: PipelineSpec, seed: int) -> ClickstreamPlan:
    """Clicks whose delays fit the pipeline's idea of late."""
    unknown = [column.name for column in spec.source.columns if column.name not in FIELDS]
    if unknown:
        raise SpecError(
            spec.name, [f'source.schema: "{name}" is not a field of the generated clicks' for name in unknown]
        )
    sessions = sessions_of(spec)
    allowed_ms = sessions.gap.ms + sessions.lateness.ms + sessions.out_of_order.ms
    return ClickstreamPlan(
        seed=seed, delayed_max_ms=max(4_000, sessions.lateness.ms), late_min_ms=2 * allowed_ms
    )


def sessions_of(spec: PipelineSpec) -> Sessions:
    if spec.sessions is None:
        raise SpecError(spec.name, ["has no [sessions]"])
    return spec.sessions


def produce_clicks(
    spec: PipelineSpec,
    data: DataDir,
    rate: Rate,
    seconds: float | None,
    plan: ClickstreamPlan,
    stop: threading.Event,
    close_sessions: bool,
    stats: Path | None,
) -> ProduceStats:
    sessions = sessions_of(spec)
    clock_ahead_ms = sessions.gap.ms + sessions.out_of_order.ms + 1_000
    if close_sessions and clock_ahead_ms > spec.cleanse.future.ms:
        raise SpecError(
            "--close-sessions",
            [
                f'cleanse.future = "{spec.cleanse.future}": the event that closes the sessions is '
                f"{clock_ahead_ms} ms ahead and would be rejected; set it to more"
            ],
        )
    kafka = resolve_addresses(spec, data).kafka
    write_reference(data.reference, users=plan.users, products=plan.products, seed=plan.seed)
    ensure_source_topic(kafka, spec.source.topic, spec.source.partitions)
    check_source(spec, kafka)
    ledgers = data.produced / spec.name

    def show(now: ProduceStats) -> None:
        if stats is not None:
            with stats.open("a") as file:
                file.write(jsonlib.dumps(asdict(now)) + "\n")
        else:
            say(_line(now))

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
    if close_sessions and not stop.is_set():
        ts_ms = time.time_ns() // 1_000_000 + clock_ahead_ms
        send_clock_event(plan, bootstrap=kafka, topic=spec.source.topic, ts_ms=ts_ms, ledger_dir=ledgers)
    return final


def _line(now: ProduceStats) -> str:
    line = (
        f"{now.elapsed_s:5.0f} s  {now.sent:,} sent  {now.acknowledged:,} acknowledged  "
        f"{now.achieved_eps:,.0f}/s  behind {now.behind_ms:,.0f} ms (max {now.behind_ms_max:,.0f})"
    )
    return f"{line}  {now.trouble}" if now.trouble else line
