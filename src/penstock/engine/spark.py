"""The Spark session, with the settings that differ from Spark's own and why."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.engine.slots import realtime_sinks, slots_wanted
from penstock.paths import DataDir
from penstock.spec import PipelineSpec

_STREAMING = "org.apache.spark.sql.execution.streaming"

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # State on disk with changelogs: a commit writes what changed, not what there is.
    "spark.sql.streaming.stateStore.providerClass": f"{_STREAMING}.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A snapshot flushes all memory tables in the middle of a batch (0.4 s of task time, and the two batches
    # behind it a third slower), but only the newest is kept safe, once a minute. So not every 10 batches.
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "50",
    # Counting rows costs a read before every write.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    # Halves the fixed cost of a batch on a local checkpoint (no checksum files). It has no protection of its
    # own against a second writer: the checkpoint's lock is ours (checkpoint.py).
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # A task that runs twice at once would send its rows twice into the state, and the writers of a slot would
    # fence each other.
    "spark.speculation": "false",
    # The slots of a sink are the partitions of a shuffle, and adaptive execution leaves out all of them when
    # a batch has no events. It would do nothing for other queries: those with state run without it anyway,
    # those without have no shuffle. Its own switch for streams does not reach into foreachBatch.
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.maxResultSize": "1g",
}

_GENERATED = "org.apache.spark.sql.catalyst.expressions.GeneratedClass"
_JVM_OPTIONS = (
    "-XX:+UseParallelGC",
    # A minute into a run on 2 cores the optimising compiler still took more CPU than the tasks, and the
    # kernel stood in its queue behind Spark's planner. So: the hot loops early, the rest late. In the first
    # minute at 20,000 events/s: 44, 45, 35 batches; 36, 39, 24 without (three pairs of runs).
    "-XX:CompileCommand=quiet",
    "-XX:CompileCommand=CompileThresholdScaling,penstock.kernel.*::*,0.05",
    f"-XX:CompileCommand=CompileThresholdScaling,{_GENERATED}*::*,0.1",
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=2400",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000",
)

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
# Each batch warns of these; none asks for anything to be done.
logger.adaptive.name = org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream
logger.adaptive.level = error
logger.consumer.name = org.apache.kafka.clients
logger.consumer.level = error
"""


def open_spark(
    spec: PipelineSpec,
    data: DataDir,
    *,
    kernel: Path | None,
    jars: Sequence[Path],
    java_home: Path,
    master: str = "local[*]",
) -> SparkSession:
    """Start a JVM and a Spark session for one pipeline; its log goes to a file at WARN."""
    log = data.logs / f"spark-{spec.name}.log"
    config = data.logs / f"spark-{spec.name}.log4j2.properties"
    config.write_text(_LOG4J.format(path=log))
    os.environ["JAVA_HOME"] = str(java_home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        **_SETTINGS,
        "spark.jars": ",".join(map(str, [*jars, *([kernel] if kernel else [])])),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{config} {' '.join(_JVM_OPTIONS)}",
        "spark.sql.shuffle.partitions": str(spec.grouping.partitions if spec.grouping else 1),
        "spark.local.dir": str(data / "spark"),
    }
    if kernel:
        settings["spark.sql.catalog.penstock"] = "penstock.kernel.Functions"
    if master.startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if realtime_sinks(spec) and master in ("local", "local[*]"):
        cores = os.cpu_count() or 1
        master = f"local[{slots_wanted(spec, cores)}]"
        # Spark's status, which tells whether all partitions are read, leaves out what comes within 100 ms of
        # a change until the next one: all tasks that start with their stage, and then run for minutes.
        settings["spark.ui.liveUpdate.period"] = "0"
        # What realtime queries leave over: micro-batches go by it for how many tasks run at once.
        settings["spark.default.parallelism"] = str(cores)
    builder = SparkSession.builder.appName(f"penstock-{spec.name}").master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _stderr_to(log):
        return builder.getOrCreate()


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Give the JVM, which keeps the descriptors it is born with, a file for what it prints by itself."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
