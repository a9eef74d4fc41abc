"""One thing that was wrong in a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Weight = Literal["critical", "warning", "note"]
WEIGHTS: tuple[Weight, ...] = ("critical", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One thing that was wrong, or is worth knowing."""

    weight: Weight
    title: str
    what: str
    next: str
    from_ms: int
    to_ms: int | None
    """None: until the end of the record."""
    is_past: bool = True
    """Whether it was over before the record ended."""
    times: int = 1
    """How often it was so between the two."""
