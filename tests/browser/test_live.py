"""The page on a pipeline that runs: real Kafka, real Spark, a broker that is killed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.browser.conftest import Open, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

STARTED_WITHIN_MS = 240_000
SEEN_WITHIN_MS = 60_000
"""Far more than it takes, since the machine may be busy; what it took is printed."""

TROUBLE = "/Topic Uns|Broker Gone|Service Aw|Pipeline/.test(document.getElementById('alerts').textContent)"
GOES_ON = """/^[1-9]/.test(document.querySelector('#figures [data-key="Rate out"] .big').textContent)"""
LETTERS_READ = "!document.getElementById('letters-said').textContent.startsWith('reading')"


def penstock(*words: str, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", *words],
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """The data directory of a demo that runs."""
    demo = penstock(
        "demo", "clickstream", "--data", str(tmp_path), "--seconds", "300", "--rate", "2000",
        log=tmp_path / "demo.log",
    )  # fmt: skip
    yield tmp_path
    end(demo)


@pytest.fixture
def url(data: Path) -> Iterator[str]:
    log = data / "web.log"
    web = penstock("web", "clickstream", "--data", str(data), log=log)
    deadline = time.monotonic() + 60
    while not (found := re.search(r"http://127\.0\.0\.1:\d+/", log.read_text())):
        assert web.poll() is None, log.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield found[0]
    end(web)
    assert web.returncode == 0, log.read_text()


def broker(data: Path) -> psutil.Process:
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "kafka.Kafka" in words and any(str(data) in word for word in words):
            return process
    raise AssertionError("no broker runs")


def test_numbers_move_and_a_killed_broker_is_seen_and_forgotten_once_it_is_back(
    url: str, open_page: Open, data: Path, pictures: Path
) -> None:
    page = open_page(url)
    page.wait_for_selector("#sinks tbody tr", timeout=STARTED_WITHIN_MS)
    until(page, f"() => {GOES_ON}", within_ms=STARTED_WITHIN_MS)
    seen: set[str] = set()
    deadline = time.monotonic() + 60
    while len(seen) < 4 and time.monotonic() < deadline:
        seen.add(page.inner_text("#figures"))
        page.wait_for_timeout(500)
    assert len(seen) >= 4
    page.screenshot(path=pictures / "live.png", full_page=True)

    victim = broker(data)
    until(page, f"() => !{TROUBLE}", within_ms=SEEN_WITHIN_MS)
    victim.kill()
    killed = time.monotonic()
    until(page, f"() => {TROUBLE}", within_ms=SEEN_WITHIN_MS)
    print(f"a killed broker is on the page after {time.monotonic() - killed:.1f} s")  # noqa: T201
    page.screenshot(path=pictures / "live-broker-killed.png", full_page=True)

    until(page, f"() => !{TROUBLE}", within_ms=2 * SEEN_WITHIN_MS)
    print(f"and forgotten after {time.monotonic() - killed:.1f} s")  # noqa: T201
    until(page, f"() => {GOES_ON}", within_ms=SEEN_WITHIN_MS)

    # The first batch is small, and the second may have been what the kill interrupted: none may be there yet.
    deadline = time.monotonic() + SEEN_WITHIN_MS / 1000
    while not page.query_selector("#letters button.link"):
        assert time.monotonic() < deadline, page.inner_text("#letters-said")
        page.click("#letters-load")
        until(page, f"() => {LETTERS_READ}", within_ms=SEEN_WITHIN_MS)
        page.wait_for_timeout(500)
    page.click("#letters button.link >> nth=0")
    page.wait_for_selector("#letter-body pre")
    assert page.inner_text("#letter-body dl").count("reason") == 1
    page.screenshot(path=pictures / "live-letter.png")
