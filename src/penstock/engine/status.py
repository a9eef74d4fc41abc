"""What Spark knows of its jobs and executors, as plain values."""

from __future__ import annotations

import json
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.tuning import value

_LOOKED_AT = int(value("spark.ui.retainedJobs")) // 2
"""Of the newest jobs: those long before are forgotten."""


class StatusStore:
    """Asks through the JVM's own JSON: one call for a whole object, instead of one for each field."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        context: Any = spark.sparkContext._jsc.sc()
        self._store, self._scheduler = context.statusStore(), context.dagScheduler()
        self._mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
        self._mapper.registerModule(jvm.com.fasterxml.jackson.module.scala.DefaultScalaModule())

    def jobs(self) -> int:
        """How many there have been: their numbers are those below.

        To ask which are there would be a call for each: Python is given an array of the JVM's item by item.
        """
        return int(self._scheduler.numTotalJobs())

    def job(self, number: int) -> Any:
        """None for one that is forgotten, or not known yet."""
        return self._known(self._store.job, number)

    def stage(self, number: int) -> Any:
        """None for one that is forgotten, or not known yet."""
        return self._known(self._store.lastStageAttempt, number)

    def executors(self) -> Any:
        """Those that are active, the driver among them."""
        return self._plain(self._store.executorList(True))

    def _known(self, find: Any, number: int) -> Any:
        try:
            return self._plain(find(number))
        except Py4JJavaError:
            return None

    def _plain(self, value: Any) -> Any:
        return json.loads(self._mapper.writeValueAsString(value))


class RunJobs:
    """The jobs of one query since it was started."""

    def __init__(self, store: StatusStore, run: str) -> None:
        self._store = store
        self._run = run
        self._next = 0

    def new(self) -> list[Any]:
        """Those that have begun since the last call."""
        known = self._store.jobs()
        found = []
        for number in range(max(self._next, known - _LOOKED_AT), known):
            job = self._store.job(number)
            if job is None:
                break  # Spark hears of it in a moment.
            self._next = number + 1
            if job["jobGroup"] == self._run:
                found.append(job)
        return found
