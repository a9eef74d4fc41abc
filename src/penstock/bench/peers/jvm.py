"""The peers that are Java: fetched, compiled on first use, run in a JVM of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Producer

from penstock.bench.peers.child import run_rounds
from penstock.bench.peers.job import Job, Round, write_lookups
from penstock.sinks.topics import QUIET, ensure_source_topic
from penstock.toolchain import ensure_jars, ensure_java
from penstock.toolchain.compiled import ensure_compiled

Say = Callable[[str], None]

PARTITIONS = 8
_SOURCES = Path(__file__).with_name("java")
HEAP = "-Xmx3g"
_OPENED = ("java.base/java.util=ALL-UNNAMED", "java.base/java.lang=ALL-UNNAMED")
_CLOCK_MS = 4_000_000_000_000
"""In 2096: later than any click."""


def flink_heap(job: Job, say: Say) -> list[Round]:
    """Flink with its state on the heap."""
    return _run("flink heap", "flink", "FlinkSessions", job, {"state": "hashmap"}, say)


def flink_rocksdb(job: Job, say: Say) -> list[Round]:
    """Flink with its state in RocksDB, checkpointed by increments."""
    return _run("flink rocksdb", "flink", "FlinkSessions", job, {"state": "rocksdb"}, say)


def kafka_streams(job: Job, say: Say) -> list[Round]:
    """Kafka Streams, which is told the end of the input by a clock of its own."""
    clock = f"{job.output}-clock"
    _write_clock(job.bootstrap, clock)
    return _run("kafka streams", "streams", "StreamsSessions", job, {"clock": clock}, say)


def java_command(peer: str, main: str, settings: Mapping[str, object], say: Say) -> list[str | Path]:
    """A JVM with the jars of a peer and what is compiled of its sources."""
    jars = ensure_jars(peer, say)
    roots = [_SOURCES / "common", _SOURCES / peer]
    versions = ",".join(jar.name for jar in jars)
    compiled = ensure_compiled(f"{peer}-peer", roots, _joined(jars), versions, say)
    command: list[str | Path] = [
        ensure_java(say).java,
        HEAP,
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    ]
    command += [f"--add-opens={opened}" for opened in _OPENED]
    command += [f"-Dpeer.{name}={value}" for name, value in settings.items()]
    return [*command, "-cp", _joined([compiled, *jars]), f"penstock.peers.{main}"]


def _run(name: str, peer: str, main: str, job: Job, settings: Mapping[str, object], say: Say) -> list[Round]:
    for number in range(job.rounds):
        ensure_source_topic(job.bootstrap, job.output_of(number), PARTITIONS)
    with TemporaryDirectory(prefix="penstock-peer-", ignore_cleanup_errors=True) as directory:
        work = Path(directory)
        write_lookups(job.reference, work / "reference")
        every = {
            "bootstrap": job.bootstrap,
            "topic": job.topic,
            "reference": work / "reference",
            "output": job.output,
            "rounds": job.rounds,
            "guarantee": job.guarantee,
            "work": work,
        }
        return run_rounds(name, job, java_command(peer, main, every | dict(settings), say), work / "peer.log")


def _write_clock(bootstrap: str, topic: str) -> None:
    """A click in every partition that closes all sessions before it."""
    ensure_source_topic(bootstrap, topic, PARTITIONS)
    click = {"event_id": "clock-0", "user_id": "clock", "event_type": "view", "ts": _CLOCK_MS}
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    for partition in range(PARTITIONS):
        producer.produce(topic, key="clock", value=json.dumps(click), partition=partition)
    producer.flush()


def _joined(jars: list[Path]) -> str:
    return ":".join(map(str, jars))
