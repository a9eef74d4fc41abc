"""A network of its own for a trial, and cuts in it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from penstock.faults.scenario import NotHere, Unmet
from penstock.faults.trial import Trial
from penstock.local.kafka import Cluster

_NEW_NETWORK = 0x40000000
_HOLE = "hole0"
_SLOW = "400kbit"
"""A third of what the trial needs: answers take seconds."""


@contextmanager
def own_network(_root: Path) -> Iterator[None]:
    """Do what is inside in a network namespace: its loopback is nobody else's, and can be cut."""
    libc = ctypes.CDLL(None, use_errno=True)
    outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(_NEW_NETWORK) != 0:
            raise NotHere(f"no network of its own can be had: {os.strerror(ctypes.get_errno())}")
        try:
            _run("ip link set lo up")
            # What is sent here arrives nowhere.
            _run(f"ip link add {_HOLE} type veth peer name {_HOLE}-end")
            _run(f"ip link set {_HOLE} up")
            yield
        finally:
            libc.setns(outside, _NEW_NETWORK)
    finally:
        os.close(outside)


def network_cut(trial: Trial) -> None:
    """Cut a broker, all brokers or ClickHouse off the network for some seconds, or make it slow."""
    trial.await_some_batches()
    brokers = _brokers(trial)
    clickhouse = [urlsplit(trial.at.clickhouse).port or 0]
    everything = [port for ports in brokers for port in ports]
    choices = {
        "one broker cut off": _cut(trial.chance.choice(brokers)),
        "all brokers cut off": _cut(everything),
        "ClickHouse cut off": _cut(clickhouse),
        "all brokers slow": _slow(everything),
    }
    trial.chose = trial.chance.choice(list(choices))
    time.sleep(trial.chance.random() * trial.host.watch.summary.last_batch_ms / 1000)
    trial.strike()
    with choices[trial.chose]:
        time.sleep(trial.chance.uniform(5, 20))
        if (status := trial.host.program.status()) is not None:
            raise Unmet(f"the pipeline ended with status {status}:\n{trial.host.program.last_words()}")
    trial.recover()


def _brokers(trial: Trial) -> list[list[int]]:
    """The ports of each broker, for clients and for controllers."""
    cluster = Cluster.read(trial.root / "services" / "kafka" / "cluster.json")
    return [[node.port, node.controller_port] for node in cluster.nodes]


@contextmanager
def _cut(ports: Iterable[int]) -> Iterator[None]:
    """Let nothing through to these ports or from them: no answer, and no refusal either."""
    _run("tc qdisc add dev lo clsact")
    try:
        _sort_out(ports, "egress", f"action mirred egress redirect dev {_HOLE}")
        yield
    finally:
        _run("tc qdisc del dev lo clsact")


@contextmanager
def _slow(ports: Iterable[int]) -> Iterator[None]:
    """Let little through to these ports or from them; what does not fit waits."""
    _run("tc qdisc add dev lo root handle 1: htb")
    try:
        _run(f"tc class add dev lo parent 1: classid 1:1 htb rate {_SLOW}")
        _sort_out(ports, "parent 1:", "flowid 1:1")
        yield
    finally:
        _run("tc qdisc del dev lo root")


def _sort_out(ports: Iterable[int], where: str, then: str) -> None:
    for port in ports:
        for end in ("sport", "dport"):
            _run(f"tc filter add dev lo {where} protocol ip u32 match ip {end} {port} 0xffff {then}")


def _run(command: str) -> None:
    try:
        done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotHere(f"{command}: {error}") from error
    if done.returncode != 0:
        raise NotHere(f"{command}: {done.stderr.strip()}")
