"""The producer of a trial: a process that sends all the time, and the event that closes what is open."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.faults.program import Program
from penstock.produce.producer import send_clock_event
from penstock.produce.shipped import plan_for
from penstock.produce.workload import span_ms
from penstock.spec import PipelineSpec


@dataclass
class Sender:
    """`penstock produce` on the trial's own data directory, until told to stop."""

    root: Path
    spec: PipelineSpec
    arguments: Sequence[str]
    """The pipeline and its settings."""
    rate_eps: int
    seed: int
    kafka: str
    patches: Sequence[str] = ()
    programs: list[Program] = field(default_factory=list)
    _is_over: bool = False

    def start(self, *, times_rate: int = 1, seconds: float | None = None) -> Program:
        options = ["--seconds", str(seconds)] if seconds else []
        program = Program(
            ["produce", *self.arguments, "--data", str(self.root), "--rate", str(self.rate_eps * times_rate),
             "--seed", str(self.seed), *options],
            self.root / "logs" / "produce.log",
            self.patches,
        )  # fmt: skip
        self.programs.append(program)
        return program

    @property
    def program(self) -> Program:
        """The one that was started last."""
        return self.programs[-1]

    def revive(self) -> None:
        """Start another when the last one was killed."""
        status = self.program.status()
        if status is not None and status < 0 and not self._is_over:
            self.start()

    def stop(self) -> None:
        self._is_over = True
        for program in self.programs:
            program.stop()

    def close(self) -> None:
        for program in self.programs:
            program.kill()

    def close_sessions(self) -> None:
        """Move event time so far on that every session or window ends."""
        if self.spec.grouping is None:
            return
        ahead_ms = span_ms(self.spec) + self.spec.grouping.out_of_order.ms + 1_000
        send_clock_event(
            plan_for(self.spec, self.seed),
            bootstrap=self.kafka,
            topic=self.spec.source.topic,
            ts_ms=time.time_ns() // 1_000_000 + ahead_ms,
            ledger_dir=self.root / "produced" / self.spec.name,
        )
