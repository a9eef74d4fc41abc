"""What stands in the way of more: how much of what the machine can do was used, resource by resource."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

ROUND_TRIPS = "waiting for answers"
"""No resource was short: whoever works waits for others most of the time."""
_SHORT = 0.5
_BLOCK = 1 << 20
_TRIAL_BYTES = 256 << 20


@dataclass(frozen=True)
class Limits:
    """What this machine can do, by a short trial."""

    cores: int
    disk_bytes_per_s: float
    """Written one behind the other, and made safe."""
    network_bytes_per_s: float
    """Over the loopback device, by one connection."""


@dataclass(frozen=True)
class Use:
    """What was used of the whole machine, by whomever."""

    seconds: float
    cpu_s: float
    disk_bytes: float
    network_bytes: float


def limiting(use: Use, limits: Limits) -> tuple[str, float]:
    """The resource of which the greatest share was used, and the share."""
    shares = {
        "CPU": use.cpu_s / (use.seconds * limits.cores),
        "disk": use.disk_bytes / (use.seconds * limits.disk_bytes_per_s),
        "network": use.network_bytes / (use.seconds * limits.network_bytes_per_s),
    }
    name = max(shares, key=lambda resource: shares[resource])
    return (name if shares[name] >= _SHORT else ROUND_TRIPS), shares[name]


@contextmanager
def using(found: Callable[[Use], None]) -> Iterator[None]:
    """Look at the whole machine before and after; the difference is given."""
    before, began = _counters(), time.perf_counter()
    yield
    seconds = time.perf_counter() - began
    found(Use(seconds, *(now - then for now, then in zip(_counters(), before, strict=True))))


def _counters() -> Sequence[float]:
    cpu = psutil.cpu_times()
    disk = psutil.disk_io_counters()
    loop = psutil.net_io_counters(pernic=True).get("lo")
    return (
        sum(cpu) - cpu.idle - getattr(cpu, "iowait", 0.0) - getattr(cpu, "steal", 0.0),
        float(disk.write_bytes if disk else 0),
        float(loop.bytes_sent if loop else 0),
    )


def measure_limits(directory: Path) -> Limits:
    """Two seconds of trials: a file and a connection, each of 256 MB."""
    return Limits(os.cpu_count() or 1, _disk(directory / "trial"), _network())


def _disk(file: Path) -> float:
    block, began = os.urandom(_BLOCK), time.perf_counter()
    with file.open("wb") as out:
        for _ in range(_TRIAL_BYTES // _BLOCK):
            out.write(block)
        out.flush()
        os.fsync(out.fileno())
    file.unlink()
    return _TRIAL_BYTES / (time.perf_counter() - began)


def _network() -> float:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=_send, args=server.getsockname())
        sender.start()
        connection, _ = server.accept()
        began, received = time.perf_counter(), 0
        with connection:
            while more := len(connection.recv(_BLOCK)):
                received += more
        sender.join()
    return received / (time.perf_counter() - began)


def _send(host: str, port: int) -> None:
    block = bytes(_BLOCK)
    with socket.create_connection((host, port)) as connection:
        for _ in range(_TRIAL_BYTES // _BLOCK):
            connection.sendall(block)
