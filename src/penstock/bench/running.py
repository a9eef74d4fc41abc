"""A pipeline and its producer as users run them: processes of their own on embedded services."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.paths import DataDir
from penstock.spec import PipelineSpec, to_toml
from penstock.tuning import UNTUNED

_STARTED_WITHIN_S = 180.0


@contextmanager
def running_pipeline(data: DataDir, spec: PipelineSpec) -> Iterator[subprocess.Popen[bytes]]:
    """The pipeline from the moment it takes records in."""
    file = data.root / "pipeline.toml"
    file.write_text(to_toml(spec))
    command = [sys.executable, "-m", "penstock.cli", "run", str(file), "--data", str(data.root)]
    log = data.logs / "run.log"
    with log.open("wb") as out:
        process = subprocess.Popen([*command, "--create-topics", "--with-parent"], stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + _STARTED_WITHIN_S
        while b"\nrunning" not in log.read_bytes():
            if process.poll() is not None or time.monotonic() > deadline:
                raise PenstockError(f"the pipeline did not start: {log.read_text()[-2000:]}")
            time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        process.wait(30)


def produce(data: DataDir, pipeline: str | Path, rate_eps: float, seconds: float) -> dict[str, Any]:
    """Send what a pipeline reads at a rate, for so long; the producer's own account of it."""
    report, log = data.root / "produced.json", data.logs / "produce.log"
    command = [sys.executable, "-m", "penstock.cli", "produce", str(pipeline), "--data", str(data.root)]
    command += ["--rate", str(rate_eps), "--seconds", str(seconds), "--json", str(report), "--with-parent"]
    with log.open("wb") as out:
        code = subprocess.run(command, stdout=out, stderr=out).returncode
    if code:
        raise PenstockError(f"the producer failed: {log.read_text()[-2000:]}")
    told: dict[str, Any] = json.loads(report.read_text())
    return told


@contextmanager
def without(untuned: str) -> Iterator[None]:
    """What is started in here goes without these settings of ours, and with all others."""
    before = os.environ.get(UNTUNED)
    os.environ[UNTUNED] = untuned
    try:
        yield
    finally:
        if before is None:
            del os.environ[UNTUNED]
        else:
            os.environ[UNTUNED] = before
