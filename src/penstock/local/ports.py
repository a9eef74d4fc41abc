"""Ports of embedded services: free when first chosen, and kept, so that addresses survive a restart."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from penstock.errors import ServiceError

HOST = "127.0.0.1"
# Below the range from which systems take the local port of outgoing connections (32768 and up on Linux):
# a client that knocks at a stopped service must not be given the service's own port.
CANDIDATES = range(20_000, 32_000)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def is_open(port: int) -> bool:
    """Whether something accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def free_ports(count: int) -> list[int]:
    """Distinct ports nobody listens on."""
    order = random.SystemRandom().sample(CANDIDATES, 2_000)
    found = [port for port, _ in zip(filter(is_free, order), range(count), strict=False)]
    if len(found) < count:
        raise ServiceError(
            f"No {count} free ports on {HOST} among 2,000 tried.", hint="Stop what listens there."
        )
    return found


def kept_port(file: Path, *, in_use_by_us: bool) -> int:
    """The port written in `file`; a new one at first, and when somebody else has taken the kept one."""
    port = read_port(file)
    if port and (in_use_by_us or is_free(port)):
        return port
    port = free_ports(1)[0]
    file.write_text(f"{port}\n")
    return port


def read_port(file: Path) -> int:
    """The port written in `file`, 0 before the first start."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0
