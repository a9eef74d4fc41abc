"""Quantities in the words of a finding."""

from __future__ import annotations

from collections.abc import Iterable

_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000))
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def time_text(ms: float) -> str:
    """A length of time in its largest unit, to one decimal: "6.5 days"; 350 is "350 ms"."""
    for unit, size in _UNITS:
        if ms >= size:
            count = f"{ms / size:,.1f}".removesuffix(".0")
            return f"{count} {unit}{'' if count == '1' else 's'}"
    return f"{ms:.0f} ms"


def counted(count: int, noun: str) -> str:
    """A number and its noun: "1 record", "1,200 records"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))


def anew(pipeline: str) -> str:
    """The command that reads a topic anew, and leaves what is there of the pipeline as it is."""
    return f"penstock run SPEC --set name={pipeline}-2"


def behind(pipeline: str) -> str:
    """The command that goes on where a pipeline stood, with nothing but that of it."""
    return f"{anew(pipeline)} --after {pipeline}"


def alter_topic(where: str, topic: str, setting: str) -> str:
    """The command that changes a topic's setting."""
    return f"kafka-configs.sh --bootstrap-server {where} --alter --topic {topic} --add-config {setting}"
