"""Child processes and their pid files, with real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from penstock.local.process import Child

SLEEP = "import time; time.sleep(600)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); {SLEEP}"


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    child = Child("sleeper", tmp_path, tmp_path / "sleeper.log")
    yield child
    child.stop(timeout_s=0)


@pytest.fixture
def foreign() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else."""
    process = subprocess.Popen([sys.executable, "-c", SLEEP])
    yield process
    process.kill()
    process.wait()


def start(child: Child, script: str = SLEEP) -> psutil.Process:
    child.start([sys.executable, "-c", script, str(child.directory)])
    process = child.process()
    assert process is not None
    return process


def write_pid_file(child: Child, **fields: object) -> None:
    (child.directory / "pid.json").write_text(json.dumps(fields))


def test_a_started_child_runs_in_a_session_of_its_own_and_is_known_again(child: Child) -> None:
    process = start(child)
    again = Child(child.name, child.directory, child.log)
    assert again.process() == process
    assert again.state() == "running"
    ids = Path(f"/proc/{process.pid}/stat").read_text().split(") ")[1].split()
    assert int(ids[3]) == process.pid


def test_a_stopped_child_is_stopped_and_a_killed_one_has_crashed(child: Child) -> None:
    assert child.state() == "stopped"
    start(child).kill()
    child.wait_until_gone(10)
    assert child.state() == "crashed"
    start(child)
    child.stop(timeout_s=10)
    assert child.state() == "stopped"


def test_a_child_that_ignores_the_request_is_killed(child: Child) -> None:
    process = start(child, DEAF)
    while "deaf" not in child.log.read_text():
        pass
    child.stop(timeout_s=0.3)
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_pid_file_of_a_process_long_gone_is_a_crash(child: Child) -> None:
    write_pid_file(child, pid=2**22 - 1, create_time=1.0, marker=str(child.directory))
    assert child.state() == "crashed"
    child.stop(timeout_s=1)
    assert child.state() == "stopped"


def test_a_reused_pid_is_never_signalled(child: Child, foreign: subprocess.Popen[bytes]) -> None:
    write_pid_file(child, pid=foreign.pid, create_time=1.0, marker=str(child.directory))
    assert child.state() == "crashed"
    child.stop(timeout_s=0.2)
    assert foreign.poll() is None


def test_a_process_with_the_right_pid_and_time_but_another_command_is_never_signalled(
    child: Child, foreign: subprocess.Popen[bytes]
) -> None:
    born = psutil.Process(foreign.pid).create_time()
    write_pid_file(child, pid=foreign.pid, create_time=born, marker=str(child.directory))
    child.send(signal.SIGKILL)
    child.stop(timeout_s=0.2)
    assert foreign.poll() is None


def test_a_broken_pid_file_is_a_crash(child: Child) -> None:
    (child.directory / "pid.json").write_text("{")
    assert child.state() == "crashed"


def test_output_goes_to_the_log_and_a_huge_log_is_set_aside(child: Child) -> None:
    child.log.write_bytes(b"x" * 10_000_001)
    child.start([sys.executable, "-c", "print('first')", str(child.directory)])
    child.wait_until_gone(10)
    assert child.last_lines() == "  first"
    assert child.log.with_suffix(".log.1").stat().st_size == 10_000_001
