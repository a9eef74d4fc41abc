"""The front: the embedded services of one data directory, started, stopped, asked and revived together."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from penstock.errors import ServiceError
from penstock.local.clickhouse import ClickHouse
from penstock.local.kafka import Kafka
from penstock.local.postgres import Postgres
from penstock.local.process import Child, State
from penstock.local.service import Service
from penstock.paths import DataDir

ALL = ("kafka", "clickhouse", "postgres")
STOP_ORDER = ("postgres", "clickhouse", "kafka")
BROKERS_ALLOWED = (1, 3)


@dataclass(frozen=True)
class Addresses:
    """Where the three stores are: bootstrap servers, an HTTP URL, a PostgreSQL URL. Ours or anybody's."""

    kafka: str
    clickhouse: str
    postgres: str


@dataclass(frozen=True)
class ServiceStatus:
    """One process of a service, as `penstock status` shows it."""

    name: str
    state: State
    pid: int | None
    address: str
    since: datetime | None
    data_bytes: int
    log: Path


def _say_nothing(_: str) -> None:
    pass


class Services:
    """The embedded services. With `tie_to_parent` they end when this process does, even by kill -9."""

    def __init__(
        self,
        data: DataDir,
        *,
        brokers: int = 1,
        tie_to_parent: bool = False,
        say: Callable[[str], None] = _say_nothing,
        only: Collection[str] = ALL,
    ) -> None:
        if brokers not in BROKERS_ALLOWED:
            raise ServiceError(
                f"{brokers} brokers cannot be run here.", hint="Ask for 1, or for 3 that replicate."
            )
        if unknown := set(only) - set(ALL):
            raise ServiceError(f"Unknown service {sorted(unknown)[0]!r}.", hint=f"Known: {', '.join(ALL)}.")
        known: dict[str, Service] = {
            "kafka": Kafka(data, say, brokers),
            "clickhouse": ClickHouse(data, say),
            "postgres": Postgres(data, say),
        }
        self.data = data
        self.tie_to_parent = tie_to_parent
        self.say = say
        self._known = known
        self._used = [known[name] for name in ALL if name in only]
        self._leash: subprocess.Popen[bytes] | None = None

    def start(self) -> Addresses:
        """Start what does not run, side by side, and return when all of it answers."""
        began = time.monotonic()
        with self._only_one_starter():
            if self.tie_to_parent:
                self._put_on_leash()
            try:
                started = self._start_all(self._used)
            except BaseException:
                if self.tie_to_parent:
                    self.stop()
                raise
        if started:
            self.say(f"started {', '.join(started)} in {time.monotonic() - began:.1f} s")
        return self.addresses()

    def addresses(self) -> Addresses:
        """The addresses of the services in use; empty for the others and before the first start."""
        used = {service.name: service.address for service in self._used}
        return Addresses(**{name: used.get(name, "") for name in ALL})

    def stop(self) -> None:
        """Stop what runs, in an order in which nothing loses what it needs; 8.5 s, then they are killed."""
        used = {service.name for service in self._used}
        for name in STOP_ORDER:
            if name in used:
                self._known[name].stop()
        if self._leash is not None:
            self._leash.kill()
            self._leash.wait()
            self._leash = None

    def status(self) -> list[ServiceStatus]:
        return [_status(service, child) for service in self._used for child in service.children]

    def revive(self) -> list[str]:
        """Start what has crashed; the names of what was started. What was stopped on purpose stays so."""
        with self._only_one_starter():
            crashed = [s for s in self._used if any(child.state() == "crashed" for child in s.children)]
            return self._start_all(crashed) if crashed else []

    @contextmanager
    def _only_one_starter(self) -> Iterator[None]:
        """Two commands on one data directory start each service once: the second finds it running."""
        with (self.data.services / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _start_all(self, services: list[Service]) -> list[str]:
        """Start them side by side. When one fails, or on Ctrl-C, the others stop waiting."""
        cancelled = threading.Event()
        with ThreadPoolExecutor(len(services)) as pool:
            starts = [pool.submit(service.start, cancelled) for service in services]
            try:
                wait(starts, return_when=FIRST_EXCEPTION)
                for failed in (start for start in starts if start.done() and start.exception()):
                    failed.result()
                return [name for start in starts for name in start.result()]
            except BaseException:
                cancelled.set()
                raise

    def _put_on_leash(self) -> None:
        if self._leash is None or self._leash.poll() is not None:
            command = [sys.executable, "-m", "penstock.local.leash", str(self.data.root), str(os.getpid())]
            quiet = subprocess.DEVNULL
            self._leash = subprocess.Popen(
                command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
            )


def _status(service: Service, child: Child) -> ServiceStatus:
    process = child.process()
    return ServiceStatus(
        name=child.name,
        state=child.state(),
        pid=process.pid if process else None,
        address=service.address,
        since=datetime.fromtimestamp(process.create_time(), UTC) if process else None,
        data_bytes=size_on_disk(child.directory),
        log=child.log,
    )


def size_on_disk(directory: Path) -> int:
    """Bytes of all files below a directory."""
    total = 0
    for root, _, files in os.walk(directory):
        for file in files:
            try:
                # Blocks, not length: Kafka's index files are 10 MB long and nearly empty on disk.
                total += os.lstat(os.path.join(root, file)).st_blocks * 512  # noqa: PTH118 - many files
            except OSError:  # a log segment or a part that was deleted while we looked
                continue
    return total
