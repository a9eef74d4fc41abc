"""The settings in force: ours, but for those that an experiment turns back to their system's own."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from functools import cache

from penstock.errors import PenstockError
from penstock.tuning.settings import Setting, Value, find, settings

UNTUNED = "PENSTOCK_UNTUNED"
"""The variable that names them: ids, or patterns such as `state.*` and `*`, with commas between them."""


def tuned(area: str) -> dict[str, Value]:
    """What a client is given, by the names that its system has for it.

    One that is turned back is not given: so it is what that system makes of it, whatever its version.
    """
    back = untuned()
    return {
        setting.key: setting.ours
        for setting in settings()
        if setting.area.name == area and setting.ours is not None and setting.id not in back
    }


def value(name: str) -> Value:
    """One setting that our own code goes by, too."""
    setting = find(name)
    ours = setting.ours if setting.correctness or setting.id not in untuned() else setting.default
    if ours is None:
        raise LookupError(f"{name} has no value, but a rule: {setting.rule}")
    return ours


def is_tuned(name: str) -> bool:
    """Whether a rule of ours is to be followed."""
    return find(name).id not in untuned()


def untuned(asked: str | None = None) -> frozenset[str]:
    """The ids that are turned back, by the environment unless given."""
    return _read(os.environ.get(UNTUNED, "") if asked is None else asked)


@cache
def _read(text: str) -> frozenset[str]:
    return frozenset(
        setting.id for name in text.split(",") if name.strip() for setting in _named(name.strip())
    )


def _named(name: str) -> list[Setting]:
    if "*" not in name:
        setting = _known(name)
        if setting.correctness:
            raise PenstockError(
                f"{UNTUNED}: {setting.id} is about correctness, and is not turned back",
                hint=f"What it is for: penstock explain {setting.id}",
            )
        return [setting]
    found = [one for one in settings() if fnmatchcase(one.id, name) and not one.correctness]
    if not found:
        raise PenstockError(
            f'{UNTUNED}: "{name}" matches nothing that can be turned back',
            hint="All settings: penstock explain",
        )
    return found


def _known(name: str) -> Setting:
    try:
        return find(name)
    except PenstockError as error:
        raise PenstockError(f"{UNTUNED}: {error.message}", hint=error.hint) from None
