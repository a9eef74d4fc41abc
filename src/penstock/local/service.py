"""What an embedded service is: some children, an address, and a question that tells whether it answers."""

from __future__ import annotations

import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from penstock.errors import ServiceError
from penstock.local.process import Child
from penstock.paths import DataDir

START_TIMEOUT_S = 120.0
POLL_S = 0.05


class NotReady(Exception):
    """The service does not answer yet; the text says what is missing."""


class Service(ABC):
    """One of Kafka, ClickHouse and PostgreSQL, run from the data directory."""

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    stop_timeout_s: ClassVar[float] = 3.0
    passes: ClassVar[str | None] = None
    """What its log says when it could not start for a reason that passes by itself."""

    def __init__(self, data: DataDir, say: Callable[[str], None]) -> None:
        self.data = data
        self.say = say
        self.directory = data.services / self.name

    @property
    @abstractmethod
    def children(self) -> list[Child]:
        """Its processes, running or not."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Where clients find it; empty before the first start."""

    @abstractmethod
    def prepare(self) -> None:
        """Put on disk what the first start needs; quick when it is there."""

    @abstractmethod
    def spawn(self, child: Child) -> None:
        """Start one of the children."""

    @abstractmethod
    def check(self) -> None:
        """Ask it something, as a client would; NotReady when it does not answer."""

    def start(self, cancelled: threading.Event) -> list[str]:
        """Start the children that do not run and wait until the whole answers; the names of those started."""
        try:
            self.directory.mkdir(exist_ok=True)
            self.prepare()
            down = [child for child in self.children if not child.is_alive()]
            for child in down:
                self.spawn(child)
        except OSError as error:
            raise ServiceError(
                f"{self.name} cannot be started: {error}",
                hint=f"Check that there is space left and that you may write to {self.data.root}.",
            ) from error
        self._await_health(cancelled)
        return [child.name for child in down]

    def stop(self) -> None:
        """Ask all children at once, so that three brokers take no longer than one."""
        for child in self.children:
            child.send(self.stop_signal)
        deadline = time.monotonic() + self.stop_timeout_s
        for child in self.children:
            child.wait_until_gone(max(0.0, deadline - time.monotonic()))
            child.stop(timeout_s=0.5, number=signal.SIGKILL)

    def child(self, name: str, directory: Path) -> Child:
        return Child(name, directory, self.data.logs / f"{name}.log")

    def _await_health(self, cancelled: threading.Event) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            for child in self.children:
                if child.is_alive():
                    continue
                if self.passes and self.passes in child.last_lines(2) and time.monotonic() < deadline:
                    self.spawn(child)
                else:
                    raise ServiceError(
                        f"{child.name} ended while starting. The end of {child.log}:\n{child.last_lines()}",
                        hint="Correct what the log says and start again.",
                    )
            try:
                self.check()
            except NotReady as reason:
                if time.monotonic() > deadline:
                    raise self._timed_out(reason) from reason
            else:
                return
            if cancelled.wait(POLL_S):
                raise ServiceError(f"{self.name}: the start was interrupted.", hint="Start again.")

    def _timed_out(self, reason: NotReady) -> ServiceError:
        logs = "\n".join(f"The end of {child.log}:\n{child.last_lines()}" for child in self.children)
        return ServiceError(
            f"{self.name} did not answer within {START_TIMEOUT_S:.0f} s: {reason}\n{logs}",
            hint="If the machine is busy, start again: what runs is kept.",
        )
