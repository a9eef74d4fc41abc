"""The system's package manager, where there is one and this user may use it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping

INSTALL_TIMEOUT_S = 600

Choices = Mapping[str, tuple[str, ...]]
"""By package manager, the arguments that may lead to what is wanted; each is tried when those before fail."""


def example(choices: Choices) -> str:
    """What a person would type here."""
    manager = _manager(choices) or "apt-get"
    return f"{manager} {choices[manager][0]}"


def install(what: str, choices: Choices, say: Callable[[str], None]) -> bool:
    """Whether it is there now; nothing is tried, or said, where this user may not install."""
    manager = _manager(choices)
    prefix = _privilege(manager)
    if manager is None or prefix is None:
        return False
    say(f"no {what} found: installing one with {manager} (once, about a minute)")
    if manager == "apt-get":
        _run([*prefix, manager, "update"])
    return any(_run([*prefix, manager, *arguments.split()]) for arguments in choices[manager])


def _manager(choices: Choices) -> str | None:
    return next((name for name in choices if shutil.which(name)), None)


def _privilege(manager: str | None) -> list[str] | None:
    """What to put before the package manager's name, or None when this user may not install."""
    if manager == "brew" or os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo and _run([sudo, "-n", "true"]):
        return [sudo, "-n"]
    return None


def _run(command: list[str]) -> bool:
    try:
        return (
            subprocess.run(command, capture_output=True, check=False, timeout=INSTALL_TIMEOUT_S).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        return False
