"""What Spark knows of its jobs and executors, as plain values."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession


class StatusStore:
    """Asks through the JVM's own JSON: one call for a whole object, instead of one for each field."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._store: Any = spark.sparkContext._jsc.sc().statusStore()
        self._mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
        self._mapper.registerModule(jvm.com.fasterxml.jackson.module.scala.DefaultScalaModule())

    def job(self, number: int) -> Any:
        return self._plain(self._store.job(number))

    def stage(self, number: int) -> Any:
        return self._plain(self._store.lastStageAttempt(number))

    def executors(self) -> Any:
        """Those that are active, the driver among them."""
        return self._plain(self._store.executorList(True))

    def _plain(self, value: Any) -> Any:
        return json.loads(self._mapper.writeValueAsString(value))
