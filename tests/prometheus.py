"""A real Prometheus and its promtool, for tests: found, or fetched without root."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from penstock.local.ports import free_ports
from penstock.paths import PROJECT, cache_dir

RULES = PROJECT / "deploy" / "prometheus" / "alerts.yml"
_READY_WITHIN_S = 60.0
_FETCHED_WITHIN_S = 120.0


@cache
def tool(name: str) -> Path:
    """`prometheus` or `promtool`; where there is none and Debian's package cannot be had, the test skips."""
    found = shutil.which(name) or shutil.which(name, path=str(_kept() / "usr" / "bin"))
    if found is None:
        _fetch()
        found = shutil.which(name, path=str(_kept() / "usr" / "bin"))
    if found is None:
        pytest.skip(f"no {name} on the PATH, and none to be had: apt-get install prometheus")
    return Path(found)


def _kept() -> Path:
    return cache_dir() / "debian" / "prometheus"


def _fetch() -> None:
    """Debian's package, unpacked: that needs no root, and nothing of it is installed."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        return
    _kept().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_kept().parent) as directory:
        fresh = Path(directory)
        with suppress(subprocess.SubprocessError):
            _run_in(fresh, "apt-get", "download", "prometheus")
            [package] = fresh.glob("prometheus_*.deb")
            _run_in(fresh, "dpkg", "-x", package.name, "unpacked")
        if not (fresh / "unpacked").exists():
            return
        # Another test process may have been faster.
        if not _kept().exists():
            (fresh / "unpacked").rename(_kept())


def _run_in(directory: Path, *words: str) -> None:
    subprocess.run(words, cwd=directory, capture_output=True, check=True, timeout=_FETCHED_WITHIN_S)


def promtool(*words: str, given: bytes = b"") -> str:
    """What it says; a failure is one of the test."""
    done = subprocess.run([tool("promtool"), *words], input=given, capture_output=True, check=False)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


@dataclass(frozen=True)
class Prometheus:
    """One that runs."""

    port: int

    def ask(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}") as answer:
            return json.load(answer)["data"]

    def value(self, expression: str) -> float | None:
        """Of an expression with one result; None where there is none."""
        found = self.ask("query", query=expression)["result"]
        return float(found[0]["value"][1]) if found else None

    def firing(self) -> dict[str, dict[str, Any]]:
        """The alerts that fire, by name."""
        alerts = self.ask("alerts")["alerts"]
        return {one["labels"]["alertname"]: one for one in alerts if one["state"] == "firing"}


@contextmanager
def prometheus(directory: Path, target: int) -> Iterator[Prometheus]:
    """Scrapes a port each second, with the shipped rules; but what must last lasts a second."""
    program = tool("prometheus")
    rules = yaml.safe_load(RULES.read_text())
    for rule in (rule for group in rules["groups"] for rule in group["rules"] if "for" in rule):
        rule["for"] = "1s"
    (directory / "alerts.yml").write_text(yaml.safe_dump(rules))
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [
            {"job_name": "penstock", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
        ],
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    [port] = free_ports(1)
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=tsdb",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            cwd=directory,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_until_ready(process, port, directory / "prometheus.log")
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(30)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _READY_WITHIN_S
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready").close()
            return
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
