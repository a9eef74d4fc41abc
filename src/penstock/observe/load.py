"""What the processes of a pipeline use: memory, CPU, garbage collection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psutil
from pyspark.sql import SparkSession

from penstock.engine.status import StatusStore
from penstock.observe.samples import Load, ProcessLoad


class LoadMeter:
    """Reads the driver's two processes, Python and its JVM, and asks Spark for executors elsewhere."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        management = jvm.java.lang.management.ManagementFactory
        self._memory = management.getMemoryMXBean()
        self._collectors = list(management.getGarbageCollectorMXBeans())
        self._python = psutil.Process()
        self._jvm = psutil.Process(jvm.java.lang.ProcessHandle.current().pid())
        self._store = StatusStore(spark)
        self._is_local = str(spark.sparkContext.master).startswith("local[")

    def read(self, now_ms: int) -> Load:
        executors = () if self._is_local else tuple(self._executors())
        return Load(now_ms, (self._driver_python(), self._driver_jvm(), *executors))

    def _driver_python(self) -> ProcessLoad:
        with self._python.oneshot():
            return ProcessLoad("driver", _cpu_s(self._python), self._python.memory_info().rss)

    def _driver_jvm(self) -> ProcessLoad:
        heap = self._memory.getHeapMemoryUsage()
        with self._jvm.oneshot():
            return ProcessLoad(
                "jvm",
                _cpu_s(self._jvm),
                self._jvm.memory_info().rss,
                heap_used_bytes=heap.getUsed(),
                heap_max_bytes=heap.getMax(),
                gc_ms=sum(collector.getCollectionTime() for collector in self._collectors),
                gc_count=sum(collector.getCollectionCount() for collector in self._collectors),
            )

    def _executors(self) -> Iterator[ProcessLoad]:
        for executor in self._store.executors():
            if executor["id"] == "driver":
                continue
            peak = executor.get("peakMemoryMetrics") or {}
            yield ProcessLoad(
                f"executor {executor['id']}",
                # Of tasks, on the clock: the nearest thing that Spark tells.
                executor["totalDuration"] / 1000,
                int(peak.get("ProcessTreeJVMRSSMemory", 0)),
                heap_used_bytes=int(peak.get("JVMHeapMemory", 0)),
                heap_max_bytes=int(executor["maxMemory"]),
                gc_ms=int(executor["totalGCTime"]),
            )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
