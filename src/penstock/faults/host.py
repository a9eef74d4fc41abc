"""A machine on which a pipeline may run, as far as the services can tell."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.engine.checkpoint import newest_batch
from penstock.faults.program import Program, until
from penstock.faults.watch import Watch
from penstock.paths import DataDir
from penstock.spec import PipelineSpec

MARK = "FAULTS_MARK"
"""In the environment: the file that slow-commit touches whenever a transaction is about to be committed."""

_SHARED = ("produced", "reference")


@dataclass
class Host:
    """A data directory with a checkpoint, a journal and logs of its own, and the pipeline that runs on it.

    What producers keep and reference data are shared by all hosts of a trial, by links.
    """

    root: Path
    shared: Path
    spec: PipelineSpec
    arguments: Sequence[str]
    """Of `penstock run`, but for the data directory: the pipeline, its settings, where the services are."""
    patches: Sequence[str] = ()
    watch: Watch = field(init=False)
    _program: Program | None = None

    def __post_init__(self) -> None:
        self.data = DataDir.at(self.root)
        for name in _SHARED:
            (self.shared / name).mkdir(exist_ok=True)
            if not (self.root / name).exists():
                (self.root / name).symlink_to(self.shared / name)
        self.journal = self.data.runs / self.spec.name / "journal.jsonl"
        self.checkpoint = self.data.checkpoints / self.spec.name
        self.watch = Watch(self.journal, self.spec.name)
        self._mark = self.root / "in-transaction"

    def start(self, *options: str, patches: Sequence[str] = ()) -> Program:
        """Start the pipeline; what runs already goes on."""
        log = self.data.logs / "run.log"
        self._program = Program(
            ["run", *self.arguments, "--data", str(self.root), *options],
            log,
            [*self.patches, *patches],
            {MARK: str(self._mark)},
        )
        return self._program

    @property
    def program(self) -> Program:
        """The pipeline that was started last."""
        if self._program is None:
            raise RuntimeError(f"nothing was started on {self.root}")
        return self._program

    def goes_on_with(self, program: Program) -> None:
        """Take another start of it for the pipeline of this host."""
        self._program = program

    def close(self) -> None:
        if self._program is not None:
            self._program.kill()

    def another(self, root: Path) -> Host:
        """A host of the same pipeline, with a copy of all that this one has: checkpoint and journal.

        The pipeline must be frozen or ended, or the copy is of no moment.
        """
        for kept in ("checkpoints", "runs"):
            shutil.copytree(self.root / kept, root / kept)
        return Host(root, self.shared, self.spec, self.arguments, self.patches)

    def await_transaction(self, within_s: float) -> bool:
        """Return at the moment at which a transaction is about to be committed; needs slow-commit."""
        self._mark.unlink(missing_ok=True)
        deadline_s = time.monotonic() + within_s
        while not self._mark.exists():
            if not until(deadline_s, poll_s=0.001):
                return False
        return True

    def last_planned(self) -> int:
        """The newest batch whose offsets Spark has written down; -1 before the first."""
        return newest_batch(self.checkpoint / "offsets")

    def is_committed(self, batch: int) -> bool:
        """Whether Spark knows that the batch is done."""
        return (self.checkpoint / "commits" / str(batch)).exists()

    def await_planned(self, within_s: float) -> int | None:
        """Return at the moment at which the next batch begins."""
        following = self.checkpoint / "offsets" / str(self.last_planned() + 1)
        deadline_s = time.monotonic() + within_s
        while not following.exists():
            if not until(deadline_s, poll_s=0.001):
                return None
        return int(following.name)
