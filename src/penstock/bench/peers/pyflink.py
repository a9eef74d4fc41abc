"""PyFlink, in an environment of its own: its dependencies and Penstock's cannot be in one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer, TopicPartition

from penstock.audit.topic import read_topic
from penstock.bench.peers.child import run_rounds
from penstock.bench.peers.job import Job, Round, write_lookups
from penstock.bench.peers.jvm import HEAP, PARTITIONS, Say
from penstock.errors import ToolchainError
from penstock.paths import cache_dir
from penstock.sinks.topics import QUIET, ensure_source_topic
from penstock.toolchain import ensure_jars, ensure_java

VERSION = "2.2.1"
_INSTALL_WITHIN_S = 1200
_PROGRAM = Path(__file__).with_name("pyflink_job.py")
_CONNECTOR = ("flink-connector-kafka", "kafka-clients", "lz4-java")
"""What PyFlink has not got of its own."""


def pyflink(job: Job, say: Say) -> list[Round]:
    """PyFlink with SQL and its state on the heap; its seconds are those of the whole job."""
    python = ensure_pyflink(say)
    for number in range(job.rounds):
        ensure_source_topic(job.bootstrap, job.output_of(number), PARTITIONS)
    jars = [jar for jar in ensure_jars("flink", say) if jar.name.startswith(_CONNECTOR)]
    with TemporaryDirectory(prefix="penstock-peer-", ignore_cleanup_errors=True) as directory:
        work = Path(directory)
        write_lookups(job.reference, work / "reference")
        # -P: the program's own directory, where this file is, would hide the library of the same name.
        command: list[str | Path] = [
            python,
            "-P",
            _PROGRAM,
            "--bootstrap",
            job.bootstrap,
            "--topic",
            job.topic,
        ]
        command += ["--output", job.output, "--rounds", str(job.rounds), "--guarantee", job.guarantee]
        command += ["--events", str(_size(job.bootstrap, job.topic))]
        command += ["--work", work, "--jars", ";".join(jar.as_uri() for jar in jars)]
        environ = {"JAVA_HOME": str(ensure_java(say).home), "PYTHONPATH": "", "JVM_ARGS": HEAP}
        environ["FLINK_LOG_DIR"] = directory
        rounds = run_rounds("pyflink", job, command, work / "peer.log", environ)
    return [
        replace(one, sessions=sum(1 for _ in read_topic(job.bootstrap, job.output_of(number))))
        for number, one in enumerate(rounds)
    ]


def ensure_pyflink(say: Say) -> Path:
    """The Python that has PyFlink, installed the first time."""
    home = cache_dir() / f"pyflink-{VERSION}-py{sys.version_info.major}{sys.version_info.minor}"
    if not home.exists():
        say(f"installing PyFlink {VERSION} in {home} ...")
        started = time.monotonic()
        _install(home)
        say(f"installed PyFlink in {time.monotonic() - started:.0f} s")
    return home / "bin" / "python"


def _size(bootstrap: str, topic: str) -> int:
    """How many records a topic holds."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "penstock-bench", **QUIET})
    bounds = [consumer.get_watermark_offsets(TopicPartition(topic, number)) for number in range(PARTITIONS)]
    consumer.close()
    return sum(end - begin for begin, end in bounds)


def _install(home: Path) -> None:
    # An environment cannot be moved: it is made where it stays, and taken away when it is not complete.
    home.parent.mkdir(parents=True, exist_ok=True)
    made: list[str | Path] = [sys.executable, "-m", "venv", home]
    pip: list[str | Path] = [home / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check"]
    try:
        for command in (made, [*pip, f"apache-flink=={VERSION}"]):
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=_INSTALL_WITHIN_S)
    except (subprocess.SubprocessError, OSError) as error:
        shutil.rmtree(home, ignore_errors=True)
        said = str(getattr(error, "stderr", None) or error).strip().splitlines()
        raise ToolchainError(
            f"PyFlink {VERSION} cannot be installed: {said[-1] if said else error}"
        ) from error
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
