"""Task slots. A realtime query holds one for each task that reads its topic, for as long as it runs."""

from __future__ import annotations

import os
import time

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.status import RunJobs, StatusStore
from penstock.errors import PenstockError
from penstock.spec import KafkaSink, PipelineSpec
from penstock.tuning import is_tuned

_EXECUTORS_WITHIN_S = 60.0
_SPARE = 1
"""Micro-batches and the reading of reference data go on with one slot, if slowly; with none they stand."""


def realtime_sinks(spec: PipelineSpec) -> list[KafkaSink]:
    return [sink for sink in spec.sink if isinstance(sink, KafkaSink) and sink.latency == "realtime"]


def readers(spec: PipelineSpec, master: str, cores: int | None = None) -> int:
    """The tasks that read the topic for one realtime sink.

    Here no more than there are cores. How many a cluster will have is not known before it is asked, so there
    each partition has one.
    """
    if not master.startswith("local") or not is_tuned("realtime-source.tasks"):
        return spec.source.partitions
    return min(spec.source.partitions, max(1, os.cpu_count() or 1 if cores is None else cores))


def slots_held(spec: PipelineSpec, master: str, cores: int | None = None) -> int:
    """The slots that realtime queries hold and nothing else can use."""
    return readers(spec, master, cores) * len(realtime_sinks(spec))


def slots_wanted(spec: PipelineSpec, cores: int) -> int:
    """The slots with which micro-batches still have all cores beside the realtime queries, on this machine.

    More slots than cores is right: a realtime task mostly waits for the broker.
    """
    return slots_held(spec, "local", cores) + max(1, cores)


def check_slots(spark: SparkSession, spec: PipelineSpec) -> None:
    """Raise unless every partition can be read at once: Spark would leave some unread and say nothing."""
    master = str(spark.sparkContext.master)
    needed = slots_held(spec, master) + _SPARE
    deadline = time.monotonic() + _EXECUTORS_WITHIN_S
    # The executors of a cluster come one by one after the session has started.
    while (
        (slots := _slots(spark)) < needed and not master.startswith("local[") and time.monotonic() < deadline
    ):
        time.sleep(0.5)
    if slots < needed:
        names = ", ".join(sink.name for sink in realtime_sinks(spec))
        raise PenstockError(
            f"realtime needs {needed} task slots, but Spark at {master} has {slots}:"
            f" for each of the sinks {names} {readers(spec, master)} that read {spec.source.topic},"
            f" and {_SPARE} for all else",
            hint=f"Leave out --master, make it local[{needed}] or more, or give the cluster's"
            " executors more cores.",
        )


def _slots(spark: SparkSession) -> int:
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    return sum(executors.apply(i).maxTasks() for i in range(executors.size()))


class Reading:
    """Whether all partitions of a realtime query are read. Each of its batches is one job."""

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._store = StatusStore(spark)
        self._jobs = RunJobs(self._store, str(query.runId))
        self._job: int | None = None

    def idle(self) -> int | None:
        """How many tasks do not run that have partitions to read; None between batches."""
        for job in self._jobs.new():
            self._job = job["jobId"]
        job = self._store.job(self._job) if self._job is not None else None
        if job is None or job["status"] != "RUNNING":
            return None
        # A job is there a moment before its stage is.
        stages = [stage for number in job["stageIds"] if (stage := self._store.stage(number))]
        if not stages:
            return None
        return sum(int(s["numTasks"] - s["numActiveTasks"] - s["numCompleteTasks"]) for s in stages)
