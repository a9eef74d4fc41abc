"""What Spark itself tells of a batch, after its commit: the times of its phases, its state and its stages."""

from __future__ import annotations

import json
import re
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.status import StatusStore
from penstock.tuning import value

_BATCH = re.compile(r"batch = (\d+)")
_JOBS_MAX = int(value("spark.ui.retainedJobs"))
"""Spark forgets what was before."""


class Progress:
    """Reads the reports of one query, each once.

    As the JVM's own JSON: PySpark's objects ask for every field by itself, some 100 calls a batch.
    """

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._query: Any = query._jsq
        self._store = StatusStore(spark)
        self._batch = -1
        self._jobs = 0
        """So many of Spark's jobs have been looked at."""

    def new(self) -> list[dict[str, Any]]:
        """Reports of the batches since the last call, each with its stages under `stages`."""
        try:
            return self._new()
        # Nobody's batch fails because it could not be looked at: Spark forgets jobs, and dies.
        except (Py4JError, OSError):
            return []

    def _new(self) -> list[dict[str, Any]]:
        last = self._query.lastProgress()
        if last is None or last.batchId() == self._batch:
            return []
        # A query that waits for data says so in reports, too, under the number of the batch to come.
        reports = [json.loads(report.json()) for report in self._since(last)]
        ran = {report["batchId"]: report for report in reports if "addBatch" in report["durationMs"]}
        if not ran:
            return []
        self._batch = max(ran)
        stages = self._stages()
        return [report | {"stages": stages.get(batch, [])} for batch, report in sorted(ran.items())]

    def _since(self, last: Any) -> list[Any]:
        if last.batchId() == self._batch + 1:
            return [last]
        return [report for report in self._query.recentProgress() if report.batchId() > self._batch]

    def _stages(self) -> dict[int, list[dict[str, Any]]]:
        """The stages of the jobs of batches that are over, and were not before, by batch."""
        found: dict[int, list[dict[str, Any]]] = {}
        run, known = str(self._query.runId()), self._store.jobs()
        for number in range(max(self._jobs, known - _JOBS_MAX), known):
            job = self._store.job(number)
            if job and job["jobGroup"] == run and (said := _BATCH.search(job["description"] or "")):
                batch = int(said[1])
                if batch > self._batch:
                    break
                found.setdefault(batch, []).extend(self._store.stage(stage) for stage in job["stageIds"])
            self._jobs = number + 1
        return found
