"""Every error a person can meet, in one tree.

    PenstockError
    ├── SpecError            the description of a pipeline is wrong; lists every problem
    ├── ToolchainError       a JDK, a jar or the kernel cannot be had
    ├── ServiceError         an embedded or outside service does not start, answer or stop
    ├── SourceError          the topic is not what the spec says
    ├── CheckFailed          a start would lose, double or fail; nothing has been written
    ├── PipelineFailed       the query failed and starting it again did not help
    ├── CheckpointInUse      another process runs on the same checkpoint
    ├── StateMismatch        a checkpoint's state does not fit the spec
    └── SinkError            a sink cannot take a batch
        ├── Fenced           a newer writer has taken over this sink
        ├── PositionLost     the sink no longer knows which batch it holds
        └── ReplayDiffers    a batch came again with other content

A message says what happened and what was expected; `hint` says what to do about it.
"""

from __future__ import annotations


class PenstockError(Exception):
    """Something a person can act on. The command line prints it without a traceback."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


def first_line(error: BaseException) -> str:
    """What an error of somebody else's says before it goes into details, for a line of our own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].startswith(_FROM_JAVA):
        lines = [_root(lines[1:])]
    return lines[0][:300] if lines else type(error).__name__


_FROM_JAVA = "An error occurred while calling"
"""How Py4J begins, and that is all it says of what happened; a stack trace of Java's follows."""


def _root(trace: list[str]) -> str:
    """What a stack trace of Java's goes back to, with what came of it where the root has no words."""
    marks = (": ", "Caused by: ")
    causes = [line.removeprefix(mark) for line in trace for mark in marks if line.startswith(mark)]
    told = ""
    for cause in reversed(causes):
        told = f"{cause}: {told}" if told else cause
        if ": " in cause:
            return told
    return told or _FROM_JAVA


class SpecError(PenstockError):
    """The description of a pipeline is wrong. `problems` holds one readable line each."""

    def __init__(self, where: str, problems: list[str]) -> None:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"{where}: {count}\n" + "\n".join(f"  {line}" for line in problems))
        self.problems = problems


class ToolchainError(PenstockError):
    """A JDK, a jar or the kernel cannot be had."""


class ServiceError(PenstockError):
    """An embedded or outside service does not start, answer or stop."""


class SourceError(PenstockError):
    """The topic is not what the spec says."""


class CheckFailed(PenstockError):
    """A start would lose, double or fail; nothing has been written."""


class PipelineFailed(PenstockError):
    """The query failed and starting it again did not help."""


class CheckpointInUse(PenstockError):
    """Another process runs on the same checkpoint."""


class StateMismatch(PenstockError):
    """A checkpoint's state does not fit the spec; nothing has been written."""


class SinkError(PenstockError):
    """A sink cannot take a batch; the batch fails and is replayed."""


class Fenced(SinkError):
    """A newer writer has taken over this sink, so this one must stop."""


class PositionLost(SinkError):
    """The sink no longer knows which batch it holds, so a replay could double or drop rows."""


class ReplayDiffers(SinkError):
    """A batch came again with other content: the pipeline is not deterministic."""
