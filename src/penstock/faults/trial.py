"""One trial: real services, a producer that goes on sending, the pipeline, and readers that look on."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from penstock.audit.exact import Audit, audit
from penstock.engine.outputs import Endpoints
from penstock.engine.pipeline import READY
from penstock.faults.host import Host
from penstock.faults.program import Program, until
from penstock.faults.readers import Reader, readers_of
from penstock.faults.scenario import Scenario, Unmet
from penstock.faults.sender import Sender
from penstock.local.services import Services
from penstock.paths import DataDir, shipped
from penstock.produce.shipped import plan_for
from penstock.sinks.topics import ensure_source_topic
from penstock.spec import PipelineSpec, load

RATE_EPS = 500
STARTED_WITHIN_S = 180.0
RECOVERED_WITHIN_S = 180.0
_DRAINED_WITHIN_S = 180.0
_CRASHED = 70
"""How a pipeline ends whose JVM died: what runs it starts it again."""

# Short, so that sessions and windows are seen to end.
_SHORT = {
    "clickstream": ("sessions.gap=10 seconds", "sessions.lateness=20 seconds"),
    "behaviour": ("windows.size=10 seconds", "windows.lateness=20 seconds"),
}


class Trial:
    """All that a scenario needs: `host` (the pipeline), `sender`, `services`, and `chance` for its moments.

    A round does its fault between `strike` and `recover`.
    """

    def __init__(self, scenario: Scenario, seed: int, root: Path, patches: Sequence[str] = ()) -> None:
        self.root = root
        self.chance = random.Random(f"{seed}/{scenario.name}")  # noqa: S311  (moments, not secrets)
        self.settings = (*_SHORT.get(scenario.pipeline, ()), *scenario.settings)
        self.spec = _load(scenario.pipeline, self.settings)
        self.hits: int | None = None
        self.recoveries_s: list[float] = []
        self.chose = ""
        """What chance has chosen for this round, in words, where there is a choice."""
        self._scenario = scenario
        self._patches = (*scenario.run_patches, *patches)
        self._seed = seed
        self.struck_ms = 0
        self._hosts: list[Host] = []
        self._readers: list[Reader] = []
        needed = {"kafka", *(sink.kind for sink in self.spec.sink)}
        self.services = Services(DataDir.at(root), brokers=scenario.brokers, tie_to_parent=True, only=needed)

    def start(self) -> None:
        """Start everything, and return when the first batches are through."""
        addresses = self.services.start()
        self.at = Endpoints(addresses.kafka, addresses.clickhouse, addresses.postgres)
        ensure_source_topic(self.at.kafka, self.spec.source.topic, self.spec.source.partitions)
        plan_for(self.spec, self._seed).write_reference(self.root / "reference")
        pipeline = [self._scenario.pipeline, *_as_options(self.settings)]
        (self.root / "logs").mkdir(exist_ok=True)
        self.sender = Sender(
            self.root, self.spec, pipeline, RATE_EPS, self._seed, self.at.kafka, self._scenario.send_patches
        )
        where = [f"services.{name}={address}" for name, address in vars(addresses).items() if address]
        run = [*pipeline, *_as_options(where), *self._scenario.run_options]
        self.host = Host(self.root / "host-1", self.root, self.spec, run, self._patches)
        self._hosts.append(self.host)
        self.host.start()
        self.await_note(self.host, READY)
        self._readers = readers_of(self.spec, self.at)
        for reader in self._readers:
            reader.start()
        self.sender.start()
        self.await_batches(2)

    def another_host(self) -> Host:
        """A host with a copy of what the present one has; freeze or end its pipeline first."""
        host = self.host.another(self.root / f"host-{len(self._hosts) + 1}")
        self._hosts.append(host)
        return host

    def close(self) -> None:
        """End all that was started."""
        for reader in self._readers:
            reader.stop()
        if hasattr(self, "sender"):
            self.sender.close()
        for host in self._hosts:
            host.close()
        self.services.stop()

    # What scenarios wait for

    def await_note(self, host: Host, text: str, within_s: float = STARTED_WITHIN_S) -> None:
        deadline_s = time.monotonic() + within_s
        while text not in host.watch.notes():
            self._alive(host.program)
            if not until(deadline_s):
                raise Unmet(f'the pipeline did not say "{text}" within {within_s:.0f} s')

    def await_batches(self, count: int, within_s: float = STARTED_WITHIN_S) -> None:
        """Wait until the pipeline is so many batches further."""
        deadline_s = time.monotonic() + within_s
        while count > 0:
            count -= len(self.host.watch.batches())
            self._alive(self.host.program)
            if not until(deadline_s):
                raise Unmet(f"no batch within {within_s:.0f} s")

    def await_some_batches(self, most: int = 4) -> None:
        """Go on to a moment of chance: some batches, and a part of one."""
        self.await_batches(self.chance.randint(1, most))
        time.sleep(self.chance.random() * self.host.watch.summary.last_batch_ms / 1000)

    def await_drained(self, within_s: float = _DRAINED_WITHIN_S) -> None:
        """Wait until all that was sent has come out."""
        deadline_s = time.monotonic() + within_s
        while not self.host.watch.is_drained():
            self._bring_back()
            if not until(deadline_s, poll_s=0.2):
                raise Unmet(f"not drained within {within_s:.0f} s")

    def await_refusal(self, host: Host, *words: str, within_s: float = STARTED_WITHIN_S) -> None:
        """Wait until a host's pipeline ends by its own decision, without a batch, and says why."""
        program, deadline_s = host.program, time.monotonic() + within_s
        while (status := program.status()) is None:
            for batch in host.watch.batches():
                if batch.receipt.started_at_ms > self.struck_ms:
                    raise Unmet(f"a pipeline that must refuse took batch {batch.receipt.batch}")
            if not until(deadline_s):
                raise Unmet(f"a pipeline that must refuse still runs after {within_s:.0f} s")
        self.check_refusal(program, status, words)

    def demand_refusal(self, *words: str, options: Sequence[str] = ()) -> None:
        """Start a pipeline that must not run: the check before a start refuses it, and what is behind, too.

        What the check cannot see, or not in time, the second start stands for.
        """
        for patches in ((), ("unchecked",)):
            self.host.start(*options, patches=patches)
            self.await_refusal(self.host, *words)

    def check_refusal(self, program: Program, status: int | None, words: Sequence[str]) -> None:
        """An end by decision has status 1, and one of these words."""
        if status != 1 or not any(word in program.said() for word in words):
            expected = " or ".join(f'"{word}"' for word in words)
            raise Unmet(f"expected status 1 and {expected}, got status {status}:\n{program.last_words()}")

    # What scenarios do

    def strike(self) -> None:
        """The fault happens now."""
        self.struck_ms = time.time_ns() // 1_000_000

    def hit(self, whether: bool) -> None:
        """Count a fault that met the moment it was meant for."""
        self.hits = (self.hits or 0) + whether

    def lag(self) -> int:
        """Records that were sent and not read, as far as the journal tells."""
        self.host.watch.batches()
        lag = self.host.watch.summary.lag
        return lag.total if lag else 0

    def kill_service(self, name: str) -> None:
        """Kill -9 one process of the services."""
        [pid] = [status.pid for status in self.services.status() if status.name == name and status.pid]
        psutil.Process(pid).kill()

    def recover(self) -> None:
        """Bring back what died, and wait for a batch that began after the fault."""
        deadline_s = time.monotonic() + RECOVERED_WITHIN_S
        while True:
            self._bring_back()
            for batch in self.host.watch.batches():
                if batch.receipt.started_at_ms > self.struck_ms:
                    self.recoveries_s.append((batch.at_ms - self.struck_ms) / 1000)
                    return
            if not until(deadline_s):
                last = self.host.program.last_words()
                raise Unmet(f"no batch within {RECOVERED_WITHIN_S:.0f} s of the fault:\n{last}")

    def _bring_back(self) -> None:
        """What a supervisor does: start again what died, and nothing that ended by itself."""
        self.services.revive()
        if self._alive(self.host.program) is not None:
            self.host.start()
        self.sender.revive()

    def _alive(self, program: Program) -> int | None:
        """The status of a pipeline that died, None while it runs; one that gave up is a failure."""
        status = program.status()
        if status is not None and status >= 0 and status != _CRASHED:
            raise Unmet(f"the pipeline ended with status {status}:\n{program.last_words()}")
        return status

    # The end

    def judge(self) -> list[str]:
        """Let all come out, and say what is wrong with it."""
        self.sender.stop()
        self.sender.close_sessions()
        self.await_drained()
        return self.judge_held()

    def judge_held(self) -> list[str]:
        """What is wrong with what the sinks hold, now that nothing comes any more."""
        self.host.program.stop()
        for reader in self._readers:
            reader.stop()
        self.audit: Audit = audit(self.spec, self.host.data, self.at)
        seen = [line for reader in self._readers for line in reader.judge()]
        return [*self.audit.problems, *seen, *self._scenario.verdict(self)]


def _load(pipeline: str, settings: Sequence[str]) -> PipelineSpec:
    overrides = dict(setting.split("=", 1) for setting in settings)
    return load(shipped("pipelines") / f"{pipeline}.toml", overrides=overrides)


def _as_options(settings: Sequence[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]
