"""All facts, read side by side. Nothing is written."""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.engine.outputs import Endpoints
from penstock.paths import DataDir
from penstock.preflight.facts import Facts, Start
from penstock.preflight.reading.checkpoints import read_checkpoints
from penstock.preflight.reading.clickhouse import read_clickhouse
from penstock.preflight.reading.journal import read_journal
from penstock.preflight.reading.kafka import read_kafka
from penstock.preflight.reading.postgres import read_postgres
from penstock.preflight.reading.reference import read_reference
from penstock.spec import ClickHouseSink, PipelineSpec, PostgresSink


def look(spec: PipelineSpec, data: DataDir, at: Endpoints, journal: Path, start: Start) -> Facts:
    """What there is to know before a start."""
    now_ms = time.time_ns() // 1_000_000
    needs_clickhouse = any(isinstance(sink, ClickHouseSink) for sink in spec.sink)
    needs_postgres = any(isinstance(sink, PostgresSink) for sink in spec.sink) or any(
        table.query for table in spec.enrich
    )
    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="look") as pool:
        # Before the positions in the services: a batch is planned before a sink holds it.
        checkpoints = read_checkpoints(spec, data.root / "checkpoints")
        kafka = pool.submit(read_kafka, spec, at.kafka, now_ms)
        clickhouse = pool.submit(read_clickhouse, spec, at.clickhouse) if needs_clickhouse else None
        postgres = pool.submit(read_postgres, spec, at.postgres) if needs_postgres else None
        reference = pool.submit(read_reference, spec, data.root, at.postgres, checkpoints)
        return Facts(
            spec=spec,
            now_ms=now_ms,
            start=start,
            cores=os.cpu_count() or 1,
            disk_free_bytes=shutil.disk_usage(data.root).free,
            data=str(data.root),
            kafka=kafka.result(),
            clickhouse=clickhouse.result() if clickhouse else None,
            postgres=postgres.result() if postgres else None,
            checkpoints=checkpoints,
            journal=read_journal(journal),
            reference=reference.result(),
        )
