"""Peers one after the other on the same topic, each held against the sessions that must come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from penstock.bench.peers.job import Guarantee, Job, Round
from penstock.bench.peers.jvm import PARTITIONS, Say, flink_heap, flink_rocksdb, kafka_streams
from penstock.bench.peers.pyflink import pyflink
from penstock.bench.peers.sessions import differences, expected, held
from penstock.bench.rig import alone, fill
from penstock.bench.stages import REFERENCE, clicks
from penstock.errors import PenstockError, ToolchainError
from penstock.local.services import Services
from penstock.paths import DataDir

Peer = Callable[[Job, Say], list[Round]]

PEERS: Mapping[str, Peer] = {
    "flink heap": flink_heap,
    "flink rocksdb": flink_rocksdb,
    "kafka streams": kafka_streams,
    "pyflink": pyflink,
}
TOPIC = "peers-clicks"


def measure(
    names: Sequence[str],
    *,
    events: int,
    rounds: int,
    guarantees: Sequence[Guarantee],
    say: Say,
    on_round: Callable[[Round], None] = lambda _: None,
) -> list[Round]:
    """All rounds of these peers, on a Kafka of their own; what cannot be had here is said and left out."""
    found: list[Round] = []
    with alone(), TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as home:
        data = DataDir.at(Path(home))
        services = Services(data, tie_to_parent=True, say=say, only=("kafka",))
        try:
            kafka = services.start().kafka
            REFERENCE.write_reference(data.reference)
            fill(kafka, TOPIC, PARTITIONS, clicks(REFERENCE, events))
            wanted = expected(REFERENCE, events, data.reference)
            for name in names:
                for guarantee in guarantees:
                    job = Job(kafka, TOPIC, data.reference, output_of(name, guarantee), rounds, guarantee)
                    for one in run(name, job, wanted, say):
                        found.append(one)
                        on_round(one)
        finally:
            services.stop()
    return found


def output_of(name: str, guarantee: Guarantee) -> str:
    return f"{name}-{guarantee}".replace(" ", "-")


def run(name: str, job: Job, wanted: pa.Table, say: Say) -> Iterator[Round]:
    """The rounds of a peer, held against what must come; none if it cannot be had here, which is said."""
    try:
        measured = PEERS[name](job, say)
    except ToolchainError as missing:
        say(f"{name} is left out: {missing.message}")
        return
    for number, one in enumerate(measured):
        yield replace(one, problems=differences(wanted, held(job.bootstrap, job.output_of(number))))


def peers_named(text: str) -> list[str]:
    """The peers whose name holds a text."""
    names = [name for name in PEERS if text in name]
    if not names:
        raise PenstockError(f"No peer is named like {text!r}.", hint=f"There are: {', '.join(PEERS)}.")
    return names
