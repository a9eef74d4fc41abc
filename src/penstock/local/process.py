"""A child process that outlives the command that started it, known again by its pid file."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

State = Literal["running", "stopped", "crashed"]

# The kernel gives start times since boot; the boot time they are added to moves when the clock is set.
CLOCK_TOLERANCE_S = 2.0
LOG_BYTES_MAX = 10_000_000


@dataclass(frozen=True)
class Record:
    """The content of a pid file. `marker` is a path that stands in the process's command line."""

    pid: int
    create_time: float
    marker: str


class Child:
    """One process of a service.

    Invariant: only a process whose pid, start time and command line all agree with the pid file is ever
    signalled. A reused pid, or a file left by a crash or a reboot, is a crashed child and nothing else.
    The pid file is removed by `stop` alone, so a file without its process means "crashed".
    """

    def __init__(self, name: str, directory: Path, log: Path) -> None:
        self.name = name
        self.directory = directory
        self.log = log
        self._file = directory / "pid.json"

    def start(
        self, command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, user: str | None = None
    ) -> None:
        """Start it, detached from the terminal. The command must name `directory`."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES_MAX:
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env={**os.environ, **(env or {})},
                start_new_session=True,  # Ctrl-C in the terminal is for the command, not for the services
                **identity(user),
            )
        create_time = psutil.Process(process.pid).create_time()
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(Record(process.pid, create_time, str(self.directory)))))
        fresh.replace(self._file)

    def process(self) -> psutil.Process | None:
        """The running process this child is, if it runs."""
        record = self._record()
        if record is None:
            return None
        with suppress(ChildProcessError):
            os.waitpid(record.pid, os.WNOHANG)  # ours and dead: reap it, so that the pid means nothing more
        with suppress(psutil.Error):
            process = psutil.Process(record.pid)
            same = abs(process.create_time() - record.create_time) < CLOCK_TOLERANCE_S
            if same and not _is_dead(process) and _names(process, record.marker):
                return process
        return None

    def is_alive(self) -> bool:
        return self.process() is not None

    def state(self) -> State:
        if self.is_alive():
            return "running"
        return "crashed" if self._file.exists() else "stopped"

    def send(self, number: signal.Signals) -> None:
        process = self.process()
        if process is not None:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def stop(self, timeout_s: float, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end, wait, kill it when it does not, forget it."""
        self.send(number)
        self.wait_until_gone(timeout_s)
        self.send(signal.SIGKILL)
        self.wait_until_gone(timeout_s)
        self._file.unlink(missing_ok=True)

    def wait_until_gone(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)

    def last_lines(self, count: int = 12) -> str:
        """The end of its log, for an error message."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(f"  {line}" for line in lines[-count:])

    def _record(self) -> Record | None:
        try:
            return Record(**json.loads(self._file.read_text()))
        except (OSError, ValueError, TypeError):
            return None


def identity(user: str | None) -> dict[str, Any]:
    """Arguments of subprocess for another user, with that user's group: root's would shut its own doors."""
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def _is_dead(process: psutil.Process) -> bool:
    """A zombie, and its last thread too: a killed JVM is one while its threads still hold ports and locks."""
    return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1


def _names(process: psutil.Process, marker: str) -> bool:
    """Whether the marker is in the command line, which is empty for a moment after exec and before exit."""
    try:
        command = process.cmdline()
    except psutil.ZombieProcess:
        return True
    return not command or any(marker in argument for argument in command)
