"""What Spark itself tells of a batch, after its commit: the times of its phases, its state and its stages."""

from __future__ import annotations

import json
import re
from itertools import takewhile
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.status import RunJobs, StatusStore

_BATCH = re.compile(r"batch = (\d+)")


class Progress:
    """Reads the reports of one query, each once.

    As the JVM's own JSON: PySpark's objects ask for every field by itself, some 100 calls a batch.
    """

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._query: Any = query._jsq
        self._store = StatusStore(spark)
        self._jobs = RunJobs(self._store, str(self._query.runId()))
        self._batch = -1
        self._not_over: dict[int, list[int]] = {}
        """The stages of jobs whose batch has not been reported, by batch."""

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
        # From the newest back to what is known: each that is looked at takes some calls, and Spark keeps 100.
        recent = self._query.recentProgress()
        newest_first = (recent[place] for place in range(len(recent) - 1, -1, -1))
        return list(takewhile(lambda report: report.batchId() > self._batch, newest_first))[::-1]

    def _stages(self) -> dict[int, list[dict[str, Any]]]:
        """The stages of the batches that are over, and were not before."""
        for job in self._jobs.new():
            if said := _BATCH.search(job["description"] or ""):
                self._not_over.setdefault(int(said[1]), []).extend(job["stageIds"])
        over = [batch for batch in self._not_over if batch <= self._batch]
        found = {batch: map(self._store.stage, self._not_over.pop(batch)) for batch in over}
        return {batch: [stage for stage in stages if stage] for batch, stages in found.items()}
