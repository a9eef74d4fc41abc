"""ClickHouse: chdb in a process of its own, behind ClickHouse's HTTP interface."""

from __future__ import annotations

import http.client
import sys
from typing import ClassVar

from penstock.local.ports import HOST, kept_port, read_port
from penstock.local.process import Child
from penstock.local.service import NotReady, Service


class ClickHouse(Service):
    """The engine of ClickHouse, embedded.

    No server binary is on any package registry; chdb is, and behind penstock.local.clickhouse_server
    clickhouse-connect cannot tell the difference.
    """

    name: ClassVar[str] = "clickhouse"
    stop_timeout_s = 3.0

    @property
    def children(self) -> list[Child]:
        return [self.child(self.name, self.directory)]

    @property
    def address(self) -> str:
        port = read_port(self.directory / "port")
        return f"http://{HOST}:{port}" if port else ""

    def prepare(self) -> None:
        kept_port(self.directory / "port", in_use_by_us=self.children[0].is_alive())
        (self.directory / "data").mkdir(exist_ok=True)

    def spawn(self, child: Child) -> None:
        port = read_port(child.directory / "port")
        command = [sys.executable, "-m", "penstock.local.clickhouse_server"]
        child.start([*command, "--dir", str(child.directory / "data"), "--port", str(port)])

    def check(self) -> None:
        connection = http.client.HTTPConnection(HOST, read_port(self.directory / "port"), timeout=5)
        try:
            connection.request("POST", "/", body=b"SELECT 1")
            answer = connection.getresponse().read()
        except OSError as error:
            raise NotReady(str(error)) from error
        finally:
            connection.close()
        if answer != b"1\n":
            raise NotReady(f"SELECT 1 gave {answer!r}")
