"""A moment as a person writes it."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from penstock.spec import Duration

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_DAY_MS = 86_400_000


def moment_ms(text: str, end_ms: int) -> int:
    """A date and time, a time of day (the last one before the end), or a length of time before the end. UTC.

    Raises ValueError where it is none of these.
    """
    if found := _CLOCK.fullmatch(text.strip()):
        hours, minutes, seconds = (int(part or 0) for part in found.groups())
        if hours > 23 or minutes > 59 or seconds > 59:
            raise ValueError("expected a time of day, e.g. 14:02 or 14:02:30")
        midnight_ms = end_ms // _DAY_MS * _DAY_MS
        at_ms = midnight_ms + ((hours * 60 + minutes) * 60 + seconds) * 1000
        return at_ms if at_ms <= end_ms else at_ms - _DAY_MS
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        try:
            return end_ms - Duration.parse(text).ms
        except ValueError:
            raise ValueError(
                "expected a date and time (2026-11-16T14:02), a time of day (14:02), or how long before the"
                ' end ("30 minutes"), in UTC'
            ) from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
