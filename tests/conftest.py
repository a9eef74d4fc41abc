"""What all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from penstock.faults.program import SHORT_LIVED

os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED)

# How long an example takes says something of the machine, not of the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """A command that runs in this process takes Ctrl-C for itself: give it back."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)
