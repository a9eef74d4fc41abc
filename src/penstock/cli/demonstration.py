"""One demo: services, the pipeline and a producer as processes of their own, watched and audited."""

from __future__ import annotations

import json as jsonlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import typer
from rich.live import Live

from penstock.audit.auditor import Auditor, Reconciled, looking
from penstock.audit.exact import Audit, audit
from penstock.audit.verdict import keep, verdict
from penstock.cli.common import (
    CRASHED,
    console,
    say,
)
from penstock.cli.running import journal_path
from penstock.cli.verdict import result_sinks, show_verdict
from penstock.cli.view import Moment, flow, plain_line, render, spans_of
from penstock.cli.web import site_of
from penstock.engine.outputs import Endpoints
from penstock.engine.pipeline import READY
from penstock.errors import PipelineFailed
from penstock.local.services import Services
from penstock.observe.board.alerts import Limits
from penstock.observe.journal import Batch, JournalReader, Note
from penstock.observe.latency import Latency
from penstock.observe.summary import Summary
from penstock.paths import DataDir
from penstock.produce.producer import ProduceStats
from penstock.produce.shipped import plan_for
from penstock.sinks.topics import ensure_source_topic
from penstock.spec import PipelineSpec
from penstock.web.app import application
from penstock.web.server import Place, beside

_VIEW_EVERY_S = 1.0
_READY_WITHIN_S = 120.0
_DRAINED_WITHIN_S = 120.0
_QUIET_S = 4.0
"""How long nothing may happen, with no lag left, until all that can close counts as closed."""
_RESTARTS_MAX = 5
_WARM_AFTER_S = 30.0
"""A JVM compiles what it runs: the latencies of the first half minute are told apart."""
_AUDIT_EVERY_S = 5.0
_CHILD_STOP_S = 8.0
"""Then it is killed, which costs no more than a batch that comes again."""


@contextmanager
def page_of(spec: PipelineSpec, data: DataDir) -> Iterator[None]:
    """The page on the pipeline, opened where there is a desktop to open it on."""
    place = Place()
    site = site_of(data, {spec.name: spec}, Limits())
    with beside(application(site, place.names, place.token), place) as url:
        say(f"The page is at {url}")
        desktop = sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
        if console.is_terminal and desktop:
            typer.launch(url)
        yield


@dataclass
class Demonstration:
    """One demo: services, the pipeline and the producer as processes of their own, and the view on them."""

    spec: PipelineSpec
    data: DataDir
    services: Services
    name: str
    settings: Sequence[str]
    rate: str
    seconds: float
    seed: int
    stop: threading.Event
    _pipeline: subprocess.Popen[bytes] | None = None
    _producer: subprocess.Popen[bytes] | None = None
    _restarts: int = 0
    _ready: bool = False
    _notes: list[str] = field(default_factory=list)
    _summary: Summary = field(init=False)
    _stats: ProduceStats | None = None
    _warm: Latency = field(default_factory=Latency)
    _warm_from_ms: float = math.inf

    def __post_init__(self) -> None:
        self._summary = Summary(self.spec.name)

    def run(self) -> dict[str, Any] | None:
        """The report, or None when it was told to stop."""
        if self.stop.is_set():
            return None
        addresses = self.services.start()
        plan_for(self.spec, self.seed).write_reference(self.data.reference)
        ensure_source_topic(addresses.kafka, self.spec.source.topic, self.spec.source.partitions)
        self._journal = JournalReader(journal_path(self.data, self.spec), from_end=True)
        self._stats_file = self.data.runs / self.spec.name / "producer.jsonl"
        self._stats_file.unlink(missing_ok=True)
        self._pipeline = self._spawn("run")
        if not self._await_ready():
            return None
        self._began = time.monotonic()
        self._warm_from_ms = time.time() * 1000 + _WARM_AFTER_S * 1000
        self._producer = self._spawn_producer()
        at = Endpoints(addresses.kafka, addresses.clickhouse, addresses.postgres)
        with Auditor(self.spec, self.data, at) as auditor:
            with looking(auditor, _AUDIT_EVERY_S, self._keep_verdict):
                if not self._watch():
                    return None
            elapsed_s = time.monotonic() - self._began
            self._end_child(self._pipeline)
            self._pipeline = None
            say("auditing ...")
            outcome = audit(self.spec, self.data, at)
            self._keep_verdict(auditor.look(), outcome)
        return self._judge(outcome, elapsed_s)

    def _keep_verdict(self, reconciled: Reconciled, exact: Audit | None = None) -> None:
        keep(verdict(reconciled, exact, round(time.time() * 1000)), self.data, self.spec.name)

    def end(self) -> None:
        """Stop all that was started, producers first, and leave no process behind."""
        for child in (self._producer, self._pipeline):
            if child is not None:
                child.terminate()
        for child in (self._producer, self._pipeline):
            self._end_child(child)
        self.services.stop()

    def _spawn(self, command: str, *options: str) -> subprocess.Popen[bytes]:
        log = (self.data.logs / f"{command}-{self.spec.name}.log").open("ab")
        overrides = [part for setting in self.settings for part in ("--set", setting)]
        with log:
            return subprocess.Popen(
                [sys.executable, "-m", "penstock.cli", command, self.name, "--data", str(self.data.root),
                 "--with-parent", *overrides, *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this process, which stops the others in order
            )  # fmt: skip

    def _spawn_producer(self) -> subprocess.Popen[bytes]:
        """A producer for what is left of the time."""
        left_s = max(1.0, self.seconds - (time.monotonic() - self._began))
        return self._spawn(
            "produce", "--rate", self.rate, "--seconds", f"{left_s:.1f}", "--seed", str(self.seed),
            "--stats", str(self._stats_file), "--close-sessions",
        )  # fmt: skip

    def _end_child(self, child: subprocess.Popen[bytes] | None) -> None:
        if child is None or child.poll() is not None:
            return
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(_CHILD_STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _await_ready(self) -> bool:
        say("starting the pipeline ...")
        began = time.monotonic()
        while not self._ready and not self.stop.is_set():
            self._look()
            if time.monotonic() - began > _READY_WITHIN_S:
                raise PipelineFailed(
                    f"the pipeline did not start within {_READY_WITHIN_S:.0f} s", hint=self._log_hint()
                )
            self.stop.wait(0.2)
        return self._ready

    def _watch(self) -> bool:
        """Show the run until the producer is done and all it sent has come out; False when told to stop."""

        def moment() -> Moment:
            return Moment(
                title=f"{self.spec.name}: {flow(self.spec)}",
                elapsed_s=time.monotonic() - self._began,
                total_s=self.seconds,
                summary=self._summary,
                producer=self._stats,
                notes=tuple(self._notes),
                spans=spans_of(self.spec),
            )

        if console.is_terminal:
            with Live(render(moment()), console=console, auto_refresh=False) as live:
                while not self._over():
                    live.update(render(moment()), refresh=True)
        else:
            while not self._over():
                say(plain_line(moment()))
        return not self.stop.is_set()

    def _over(self) -> bool:
        if self.stop.wait(_VIEW_EVERY_S):
            return True
        self._look()
        assert self._producer is not None  # noqa: S101  (started before it is watched)
        status = self._producer.poll()
        if status is None:
            self._drain_began = time.monotonic()
            return False
        if status < 0 and self._may_restart():
            self._note(f"the producer was killed (signal {-status}); starting another")
            self._producer = self._spawn_producer()
            return False
        if status != 0:
            raise PipelineFailed(f"the producer ended with status {status}", hint=self._log_hint("produce"))
        if time.monotonic() - self._drain_began > _DRAINED_WITHIN_S:
            self._note(f"not drained within {_DRAINED_WITHIN_S:.0f} s; auditing what there is")
            return True
        summary = self._summary
        idle_s = time.time() - summary.last_batch_at_ms / 1000
        # On a busy machine the batch that closes all takes longer than the quiet time.
        quiet_s = max(_QUIET_S, 2 * summary.last_batch_ms / 1000)
        lag_is_fresh = summary.lag is not None and summary.lag.at_ms > summary.last_batch_at_ms
        return lag_is_fresh and summary.lag is not None and summary.lag.total == 0 and idle_s > quiet_s

    def _look(self) -> None:
        """Take in what happened, and bring back what died."""
        for entry in self._journal.new():
            self._summary.feed(entry)
            if isinstance(entry, Batch) and entry.receipt.started_at_ms > self._warm_from_ms:
                self._warm.add(entry.latency)
            if isinstance(entry, Note):
                self._ready = self._ready or entry.text == READY
                if self._ready and entry.text != READY:
                    self._note(entry.text)
        if self._stats_file.exists():
            lines = self._stats_file.read_bytes().splitlines(keepends=True)
            whole = [line for line in lines[-2:] if line.endswith(b"\n")]
            if whole:
                self._stats = ProduceStats(**jsonlib.loads(whole[-1]))
        for revived in self.services.revive():
            self._note(f"{revived} had died and was started again")
        assert self._pipeline is not None  # noqa: S101  (started before it is watched)
        status = self._pipeline.poll()
        if status is not None and not self.stop.is_set():
            self._restart(status)

    def _restart(self, status: int) -> None:
        how = f"was killed (signal {-status})" if status < 0 else f"ended with status {status}"
        # An exit by itself is a decision with a reason; only a death is worth another try.
        if (status >= 0 and status != CRASHED) or not self._may_restart():
            raise PipelineFailed(f"the pipeline {how}", hint=self._log_hint())
        self._note(f"the pipeline {how}; starting it again from its checkpoint")
        self._pipeline = self._spawn("run")

    def _may_restart(self) -> bool:
        self._restarts += 1
        return self._restarts <= _RESTARTS_MAX

    def _note(self, text: str) -> None:
        self._notes.append(text)
        if not console.is_terminal:
            say(text)

    def _log_hint(self, command: str = "run") -> str:
        log = self.data.logs / f"{command}-{self.spec.name}.log"
        lines = log.read_text(errors="replace").splitlines()[-8:] if log.exists() else []
        return "\n".join([f"The end of {log}:", *(f"  {line}" for line in lines)])

    def _judge(self, outcome: Audit, elapsed_s: float) -> dict[str, Any]:
        latency = self._summary.latency.percentiles()
        report = {
            "sent": outcome.sent,
            "decoded": outcome.decoded,
            "rejected": outcome.rejected,
            "late": outcome.late,
            "lost": outcome.lost,
            "duplicated": outcome.duplicated,
            outcome.results_are: {
                "expected": outcome.expected,
                **{sink.name: outcome.sinks[sink.name].held for sink in result_sinks(self.spec, outcome)},
            },
            "sinks": {name: asdict(sink) for name, sink in outcome.sinks.items()},
            "latency_ms": asdict(latency),
            "latency_warm_ms": asdict(self._warm.percentiles()) if self._warm else None,
            "lag_end": self._summary.lag.total if self._summary.lag else None,
            "rate_in_eps": round(self._stats.achieved_eps, 1) if self._stats else 0.0,
            "seconds": round(elapsed_s, 1),
            "verdict": "pass" if outcome.passed else "fail",
            "problems": list(outcome.problems),
            "restarts": self._restarts,
            "producer_behind_ms_max": round(self._stats.behind_ms_max) if self._stats else 0,
        }
        show_verdict(self.spec, outcome, report)
        return report
