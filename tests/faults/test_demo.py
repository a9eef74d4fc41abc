"""The demo as a person runs it, with something killed in the middle: it brings the part back, and goes on.

What pipelines make of faults is in test_scenarios.py. The seed of a round is printed with its name.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]

ROUNDS = int(os.environ.get("FAULT_ROUNDS", "1"))
STARTED_WITHIN_S = 240
BATCHES_WITHIN_S = 8
ENDED_WITHIN_S = 400
STOPPED_WITHIN_S = 15


class Demo:
    """`penstock demo` in a data directory of its own, and what can be done to it."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._report = data / "report.json"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, seconds: int = 20, rate: int = 1_000) -> None:
        command = [
            sys.executable,
            "-m",
            "penstock.cli",
            "demo",
            "--data",
            str(self.data),
            "--seconds",
            str(seconds),
        ]
        with (self.data / "demo.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--rate", str(rate), "--json", str(self._report)],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def await_batches(self, count: int) -> None:
        """Wait until so many batches are done, or as many as a busy machine does while events are sent."""
        journal = self.data / "runs" / "clickstream" / "journal.jsonl"
        deadline = time.monotonic() + STARTED_WITHIN_S
        seen, first_s = self._batches(journal), math.inf
        while (done := self._batches(journal) - seen) < count:
            first_s = min(first_s, time.monotonic()) if done else math.inf
            if time.monotonic() - first_s > BATCHES_WITHIN_S:
                return
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)

    def _batches(self, journal: Path) -> int:
        if not journal.exists():
            return 0
        return sum(b'"what":"batch"' in line for line in journal.read_bytes().splitlines())

    def child(self, words: str) -> psutil.Process:
        """The process whose command line has these words and the data directory."""
        for process in psutil.process_iter(["cmdline"]):
            line = " ".join(process.info["cmdline"] or [])
            if words in line and str(self.data) in line and process.pid != self.process.pid:
                return process
        raise AssertionError(f"no process {words!r}; {self.log()}")

    def end(self) -> dict[str, Any]:
        """Wait for the end and the report."""
        status = self.process.wait(ENDED_WITHIN_S)
        assert self._report.exists(), self.log()
        report: dict[str, Any] = json.loads(self._report.read_text())
        assert (status == 0) == (report["verdict"] == "pass")
        return report

    def left_behind(self) -> list[str]:
        """Command lines of processes that still know the data directory."""
        lines = []
        for process in psutil.process_iter(["cmdline", "status"]):
            line = " ".join(process.info["cmdline"] or [])
            if str(self.data) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
                lines.append(line)
        return lines

    def log(self) -> str:
        return (self.data / "demo.log").read_text()[-3_000:]


@pytest.fixture
def demo() -> Iterator[Demo]:
    with TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as directory:
        demo = Demo(Path(directory))
        yield demo
        if demo._process is not None and demo.process.poll() is None:
            demo.process.send_signal(signal.SIGTERM)
            demo.process.wait(60)
        _until(lambda: not demo.left_behind(), 30)


def _until(holds: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert holds()


def check(report: dict[str, Any], log: str) -> None:
    assert report["problems"] == [], log
    assert report["verdict"] == "pass"
    assert (report["lost"], report["duplicated"], report["lag_end"]) == (0, 0, 0)
    assert report["sent"] == report["decoded"] + report["rejected"] > 0
    results = report["sessions"]
    assert results["expected"] > 0
    assert len(results) > 1
    assert set(results.values()) == {results["expected"]}
    assert all(sink["expected"] == sink["held"] for sink in report["sinks"].values())


def after_some_batches(seed: int, most: int = 7) -> tuple[int, float]:
    """A moment: so many batches, and a part of one more."""
    chance = random.Random(seed)
    return chance.randrange(1, most + 1), chance.random()


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.parametrize(
    "victim",
    [
        "penstock.cli run",
        "deploy.SparkSubmit",
        "penstock.cli produce",
        "kafka.Kafka",
        "penstock.local.clickhouse_server",
    ],
)
def test_a_part_that_is_killed_is_brought_back_and_nothing_lost_or_doubled(
    demo: Demo, victim: str, seed: int
) -> None:
    batches, wait_s = after_some_batches(seed)
    demo.start()
    demo.await_batches(batches)
    time.sleep(wait_s)
    demo.child(victim).kill()
    check(demo.end(), demo.log())
    _until(lambda: not demo.left_behind(), 10)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_demo_killed_as_a_whole_leaves_no_process_and_goes_on_at_the_next_start(
    demo: Demo, seed: int
) -> None:
    batches, wait_s = after_some_batches(seed)
    demo.start(seconds=60)
    demo.await_batches(batches)
    time.sleep(wait_s)
    demo.process.kill()
    demo.process.wait()
    _until(lambda: not demo.left_behind(), 30)
    demo.start(seconds=10)
    check(demo.end(), demo.log())


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_ctrl_c_stops_everything_in_time_and_the_next_start_goes_on(demo: Demo, seed: int) -> None:
    batches, wait_s = after_some_batches(seed)
    demo.start(seconds=60)
    demo.await_batches(batches)
    time.sleep(wait_s)
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(STOPPED_WITHIN_S) == 130
    assert demo.left_behind() == []
    demo.start(seconds=10)
    check(demo.end(), demo.log())
