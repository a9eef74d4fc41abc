"""Why reference data cannot be used."""

from __future__ import annotations


class Unusable(Exception):
    """Of one kind, for one or more reasons. At the start it becomes a SpecError, later an alarm."""

    def __init__(self, kind: str, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.kind = kind
        self.reasons = list(reasons)
