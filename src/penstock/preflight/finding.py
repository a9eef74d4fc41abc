"""One thing that a check has to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note", "ok"]


@dataclass(frozen=True)
class Finding:
    """What was found, why it matters, and the command or setting that mends it.

    An error would lose, double or fail; a warning is a risk; a note is for the person to judge.
    """

    severity: Severity
    about: str
    what: str
    why: str = ""
    fix: str = ""
    start_helps: bool = False
    """An error that waiting makes worse: `penstock run` says it and starts."""

    @property
    def stops(self) -> bool:
        """Whether a pipeline must not start."""
        return self.severity == "error" and not self.start_helps

    @property
    def line(self) -> str:
        return f"{self.about}: {self.what}"

    def text(self) -> str:
        """All of it, on a line for each part."""
        parts = [("why", self.why), ("fix", self.fix)]
        return "\n".join([self.line, *(f"  {name}: {said}" for name, said in parts if said)])


def error(about: str, what: str, *, why: str, fix: str, start_helps: bool = False) -> Finding:
    return Finding("error", about, what, why, fix, start_helps)


def warning(about: str, what: str, *, why: str, fix: str) -> Finding:
    return Finding("warning", about, what, why, fix)


def note(about: str, what: str, *, why: str = "", fix: str = "") -> Finding:
    return Finding("note", about, what, why, fix)


def ok(about: str, what: str) -> Finding:
    return Finding("ok", about, what)
