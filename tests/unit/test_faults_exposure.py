"""Ports that are open to others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.faults.exposure import open_to_others

LISTENS = """
import socket
with socket.create_server((ADDRESS, 0)) as server:
    print(server.getsockname()[1], flush=True)
    input()
"""


@pytest.mark.parametrize(("address", "is_open"), [("127.0.0.1", False), ("127.0.0.2", True)])
def test_a_child_that_listens_elsewhere_than_on_the_loopback_is_found(address: str, is_open: bool) -> None:
    program = LISTENS.replace("ADDRESS", repr(address))
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout is not None
        port = child.stdout.readline().strip()
        found = open_to_others()
        child.kill()
    assert any(line.endswith(f" at {address}:{port}") for line in found) == is_open
