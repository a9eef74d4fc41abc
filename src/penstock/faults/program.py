"""A `penstock` command as a process group of its own, which can be killed, frozen and asked how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

SHORT_LIVED = "-XX:TieredStopAtLevel=1"
"""For a JVM that lives for a minute: compiling well takes more CPU than it saves. A session, a query and
three batches of a stream took 20 CPU-seconds so, and 35 otherwise."""

_STOP_WITHIN_S = 20.0


class Program:
    """One start of `penstock COMMAND ...`. Its JVM is in its process group, so that one signal reaches both.

    `patches` names changes made to it before it runs (see patched.py); without any it is the program as
    shipped. It ends with this process, unless this process is killed while it is frozen.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        patches: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        module = ["penstock.faults.patched", ",".join(patches)] if patches else ["penstock.cli"]
        self._log = log
        self._log_from = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *module, *arguments, "--with-parent"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={"JAVA_TOOL_OPTIONS": SHORT_LIVED, **os.environ, **(environ or {})},
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all of its processes at the same instant."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait()

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ask it to end; one that does not is killed."""
        if self.status() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        if self.await_end(_STOP_WITHIN_S) is None:
            self.kill()

    def status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def await_end(self, within_s: float) -> int | None:
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return None

    def said(self) -> str:
        """All that it printed."""
        with self._log.open("rb") as file:
            file.seek(self._log_from)
            return file.read().decode(errors="replace")

    def last_words(self, lines: int = 8) -> str:
        return "\n".join(f"  {line}" for line in self.said().splitlines()[-lines:])

    def jvm(self) -> psutil.Process | None:
        """The JVM that Spark runs in."""
        for child in self._family():
            with suppress(psutil.Error):
                if any("SparkSubmit" in word for word in child.cmdline()):
                    return child
        return None

    def executors(self) -> list[psutil.Process]:
        """The JVMs in which tasks run, where Spark has any beside its own."""
        found = []
        for child in self._family():
            with suppress(psutil.Error):
                if any("CoarseGrainedExecutorBackend" in word for word in child.cmdline()):
                    found.append(child)
        return found

    def memory_bytes(self) -> int:
        """What all of its processes hold in memory."""
        total = 0
        for process in self._family():
            with suppress(psutil.Error):
                total += process.memory_info().rss
        return total

    def _family(self) -> list[psutil.Process]:
        with suppress(psutil.Error):
            parent = psutil.Process(self._process.pid)
            return [parent, *parent.children(recursive=True)]
        return []


def until(deadline_s: float, poll_s: float = 0.1) -> bool:
    """Sleep a little; False when the deadline, of the monotonic clock, has passed."""
    time.sleep(poll_s)
    return time.monotonic() < deadline_s
