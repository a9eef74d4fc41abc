"""The Spark session of a pipeline."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.engine.slots import realtime_sinks, slots_wanted
from penstock.paths import DataDir
from penstock.spec import PipelineSpec
from penstock.toolchain import Java, archive_options
from penstock.tuning import Value, find, is_tuned, tuned

_POOL = "python.ARROW_DEFAULT_MEMORY_POOL"
"""For tasks it is in the environment; here Arrow may have looked there already."""

_CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
_PLAIN_CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
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
    java: Java,
    master: str = "local[*]",
) -> SparkSession:
    """Start a JVM and a Spark session for one pipeline; its log goes to a file at WARN."""
    log = data.logs / f"spark-{spec.name}.log"
    config = data.logs / f"spark-{spec.name}.log4j2.properties"
    config.write_text(_LOG4J.format(path=log))
    if is_tuned(_POOL):
        pa.set_memory_pool(pa.system_memory_pool())
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if master.startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    master, settings = session_settings(spec, master, os.cpu_count() or 1, kernel=kernel is not None)
    settings |= {
        "spark.jars": ",".join(map(str, [*jars, *([kernel] if kernel else [])])),
        "spark.driver.extraJavaOptions": " ".join(
            [f"-Dlog4j2.configurationFile=file:{config}", jvm_options(), *archive_options(java)]
        ),
        "spark.local.dir": str(data / "spark"),
    }
    builder = SparkSession.builder.appName(f"penstock-{spec.name}").master(master)
    for name, set_to in settings.items():
        builder = builder.config(name, set_to)
    with _stderr_to(log):
        return builder.getOrCreate()


def session_settings(
    spec: PipelineSpec, master: str, cores: int, *, kernel: bool
) -> tuple[str, dict[str, Value]]:
    """The master that a pipeline needs, and what its session is told, but for places on this machine."""
    settings = {
        **tuned("spark"),
        **tuned("state"),
        **{f"spark.executorEnv.{name}": set_to for name, set_to in tuned("python").items()},
        "spark.sql.shuffle.partitions": str(spec.grouping.partitions if spec.grouping else 1),
    }
    if kernel:
        settings["spark.sql.catalog.penstock"] = "penstock.kernel.Functions"
        # What the kernel keeps, transformWithState keeps in no other store.
        provider = find("state.providerClass")
        settings[provider.key] = str(provider.ours)
    elif is_tuned(_CHECKPOINT_FILES):
        settings[_CHECKPOINT_FILES] = _PLAIN_CHECKPOINT_FILES
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if realtime_sinks(spec) and master in ("local", "local[*]"):
        master = f"local[{slots_wanted(spec, cores)}]"
        settings["spark.ui.liveUpdate.period"] = "0"
        if is_tuned("spark.default.parallelism"):
            settings["spark.default.parallelism"] = str(cores)
    return master, settings


def jvm_options() -> str:
    return " ".join(str(option) for option in tuned("jvm").values())


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
