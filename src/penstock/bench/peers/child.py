"""A peer as a child process: started, metered, and ended with this process at the latest."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

import psutil

from penstock.bench.peers.job import Done, First, Job, Round, mark
from penstock.errors import PenstockError

ROUND_WITHIN_S = 900.0
_LOOK_EVERY_S = 0.25


@contextmanager
def running(
    command: Sequence[str | Path], log: Path, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """The process, in a group of its own, all of which is killed at the end; it watches its parent itself."""
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **(environ or {})},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_rounds(
    name: str,
    job: Job,
    command: Sequence[str | Path],
    log: Path,
    environ: Mapping[str, str] | None = None,
) -> list[Round]:
    """Start a peer, and meter each of its rounds; the first one is the warm-up."""
    rounds: list[Round] = []
    with running(command, log, environ) as process:
        meter, said = _Meter(process.pid), _said(process)
        while len(rounds) < job.rounds:
            meter.begin()
            done = _await_round(name, said, meter, log)
            rounds.append(_round(name, job, done, meter, warm=bool(rounds)))
    return rounds


class _Meter:
    """CPU and memory of a process and of all that it started."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._before_s = 0.0
        self.rss_mb = 0.0

    def begin(self) -> None:
        self._before_s = self._cpu_s()
        self.rss_mb = 0.0

    def look(self) -> None:
        self.rss_mb = max(self.rss_mb, self._sum(lambda process: process.memory_info().rss) / 1e6)

    @property
    def used_s(self) -> float:
        return self._cpu_s() - self._before_s

    def _cpu_s(self) -> float:
        # With that of children that have ended: a worker of Python's may live for one round.
        return self._sum(lambda process: sum(process.cpu_times()[:4]))

    def _sum(self, of: Callable[[psutil.Process], float]) -> float:
        total = 0.0
        with suppress(psutil.NoSuchProcess):
            total += of(self._root)
            for process in self._root.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    total += of(process)
        return total


def _await_round(name: str, said: SimpleQueue[str | None], meter: _Meter, log: Path) -> Done:
    deadline = time.monotonic() + ROUND_WITHIN_S
    while time.monotonic() < deadline:
        try:
            line = said.get(timeout=_LOOK_EVERY_S)
        except Empty:
            meter.look()
            continue
        if line is None:
            raise PenstockError(f"{name} has ended before its work was done:\n{_tail(log)}")
        match mark(line):
            case First():
                meter.begin()
            case Done() as done:
                meter.look()
                return done
    raise PenstockError(f"{name} has not done a round within {ROUND_WITHIN_S:.0f} s:\n{_tail(log)}")


def _round(name: str, job: Job, done: Done, meter: _Meter, *, warm: bool) -> Round:
    return Round(
        job=name,
        guarantee=job.guarantee,
        events=done.events,
        seconds=done.seconds,
        committed_s=done.committed_s,
        events_per_s=round(done.events / done.seconds),
        cpu_s_per_million=round(meter.used_s / done.events * 1e6, 2),
        rss_mb=round(meter.rss_mb),
        sessions=done.sessions,
        warm=warm,
    )


def _said(process: subprocess.Popen[str]) -> SimpleQueue[str | None]:
    """What it prints, line by line; None at the end."""
    lines: SimpleQueue[str | None] = SimpleQueue()

    def read(output: IO[str]) -> None:
        for line in output:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, args=[process.stdout], name="peer", daemon=True).start()
    return lines


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]
