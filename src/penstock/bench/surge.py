"""A steady rate, and a surge of five times as much behind it: how long events take, and when lag is back."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.bench.followed import Followed
from penstock.errors import PenstockError
from penstock.observe.journal import Batch, Lag, Note
from penstock.observe.latency import Latency
from penstock.paths import DataDir

SURGE_S = 30.0
TIMES = 5
WARM_UP_S = 10.0
_HELD_SAMPLES = 3
"""So many in a row, a second apart: one alone may be the moment between two batches."""
_SENDS_WITHIN_S = 60.0
_SLACK_S = 30.0
_LOOK_S = 0.05


@dataclass(frozen=True)
class Span:
    """From a moment on, up to another."""

    began_ms: int
    ended_ms: int

    def __contains__(self, at_ms: int) -> bool:
        return self.began_ms <= at_ms < self.ended_ms


@dataclass(frozen=True)
class Rated:
    """What a pipeline made of a steady rate, and of the surge."""

    rate_eps: int
    p50_ms: float
    p99_ms: float
    surge_p99_ms: float
    """Of all that became visible from the surge's begin until lag was back, or nobody waited any longer."""
    longest_batch_ms: float
    """In that time."""
    lag_max: int
    recovered_s: float | None
    """From the surge's end until lag was back; None if it was not."""
    failures: int
    """Batches that failed or timed out, and services that were away, in the whole run."""


def recovery_s(lags: Sequence[Lag], steady: Span, ended_ms: int) -> float | None:
    """Seconds from a surge's end until lag is no more than it was at the steady rate, and stays so."""
    level = max((lag.total for lag in lags if lag.at_ms in steady), default=0)
    behind = [lag for lag in lags if lag.at_ms >= ended_ms]
    for first in range(len(behind) - _HELD_SAMPLES + 1):
        if all(lag.total <= level for lag in behind[first : first + _HELD_SAMPLES]):
            return (behind[first].at_ms - ended_ms) / 1000
    return None


def is_failure(text: str) -> bool:
    """Whether a note tells of a batch that has to come again."""
    return text.startswith(("batch failed", "failed:")) or text.endswith("away; waiting")


def rated(
    rate_eps: int,
    batches: Sequence[Batch],
    lags: Sequence[Lag],
    notes: Sequence[Note],
    steady: Span,
    surge: Span,
) -> Rated:
    """What was seen of both. A batch belongs to the steady rate if all of it does."""
    calm = within(batches, steady)
    back_s = recovery_s(lags, steady, surge.ended_ms)
    over_ms = lags[-1].at_ms if back_s is None else surge.ended_ms + round(back_s * 1000)
    stormy = [batch for batch in batches if surge.began_ms <= batch.at_ms <= over_ms]
    if not calm or not stormy:
        raise PenstockError(
            "not one batch was done in time", hint="Ask for a lower --rate, or for more --seconds."
        )
    usual = latency_of(calm).percentiles()
    return Rated(
        rate_eps=rate_eps,
        p50_ms=usual.p50,
        p99_ms=usual.p99,
        surge_p99_ms=latency_of(stormy).percentiles().p99,
        longest_batch_ms=max(batch.receipt.total_ms for batch in stormy),
        lag_max=max(lag.total for lag in lags if surge.began_ms <= lag.at_ms <= over_ms),
        recovered_s=back_s,
        failures=sum(is_failure(note.text) for note in notes),
    )


def within(batches: Sequence[Batch], steady: Span) -> list[Batch]:
    """The batches that began and ended in a span."""
    return [batch for batch in batches if batch.receipt.started_at_ms in steady and batch.at_ms in steady]


def latency_of(batches: Sequence[Batch]) -> Latency:
    whole = Latency()
    for batch in batches:
        whole.add(batch.latency)
    return whole


def measure_surge(
    data: DataDir, file: Path, pipeline: Followed, rate_eps: int, seconds: float, within_s: float
) -> Rated:
    """Send at the rate, and for a while at five times it; wait for so long for lag to be back."""
    whole_s = WARM_UP_S + seconds + _SENDS_WITHIN_S + SURGE_S + within_s + _SLACK_S
    with sending(data, file, rate_eps, whole_s) as began_ms:
        steady_ms = began_ms + round((WARM_UP_S + seconds) * 1000)
        if not pipeline.until(lambda: pipeline.now_ms >= steady_ms, WARM_UP_S + seconds + _SLACK_S):
            raise PenstockError("the pipeline's lag cannot be told")
        with sending(data, file, rate_eps * (TIMES - 1), SURGE_S) as surge_ms:
            steady = Span(began_ms + round(WARM_UP_S * 1000), surge_ms)
            surge = Span(surge_ms, surge_ms + round(SURGE_S * 1000))
            pipeline.until(
                lambda: recovery_s(pipeline.lags, steady, surge.ended_ms) is not None, SURGE_S + within_s
            )
    return rated(rate_eps, pipeline.batches, pipeline.lags, pipeline.notes, steady, surge)


@contextmanager
def sending(data: DataDir, file: Path, rate_eps: int, seconds: float) -> Iterator[int]:
    """A producer that sends to the pipeline of a file, and the moment it began to send.

    Without flaws: a copy that is sent 300 ms later on purpose would count as an event that took so long.
    """
    stats = data.root / f"sending-{time.monotonic_ns()}.jsonl"
    command = [sys.executable, "-m", "penstock.cli", "produce", str(file), "--data", str(data.root)]
    command += ["--rate", str(rate_eps), "--seconds", str(seconds), "--stats", str(stats), "--with-parent"]
    command += ["--no-flaws"]
    with (data.logs / "produce.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield _began_ms(process, stats)
    finally:
        process.terminate()
        process.wait(_SLACK_S)


def _began_ms(process: subprocess.Popen[bytes], stats: Path) -> int:
    deadline = time.monotonic() + _SENDS_WITHIN_S
    while not (stats.exists() and stats.read_text().endswith("\n")):
        if process.poll() is not None or time.monotonic() > deadline:
            raise PenstockError("the producer did not begin to send", hint="Its log: logs/produce.log")
        time.sleep(_LOOK_S)
    elapsed_s = float(json.loads(stats.read_text().splitlines()[0])["elapsed_s"])
    return round((stats.stat().st_mtime - elapsed_s) * 1000)
