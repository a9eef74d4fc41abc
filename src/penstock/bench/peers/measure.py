"""The peers by name, and the rounds of one, held against the sessions that must come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from penstock.bench.peers.job import Guarantee, Job, Round
from penstock.bench.peers.jvm import Say, flink_heap, flink_rocksdb, kafka_streams
from penstock.bench.peers.pyflink import pyflink
from penstock.bench.peers.sessions import differences, held
from penstock.errors import ToolchainError

Peer = Callable[[Job, Say], list[Round]]

PEERS: Mapping[str, Peer] = {
    "flink heap": flink_heap,
    "flink rocksdb": flink_rocksdb,
    "kafka streams": kafka_streams,
    "pyflink": pyflink,
}
TOPIC = "peers-clicks"


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
