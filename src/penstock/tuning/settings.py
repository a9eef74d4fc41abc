"""What settings.toml says."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.spec.names import nearest

FILE = Path(__file__).with_name("settings.toml")

Value = str | int | bool


@dataclass(frozen=True)
class Area:
    """A client or a server that is given settings."""

    name: str
    what: str
    system: str
    prefix: str = ""


@dataclass(frozen=True)
class Setting:
    """One setting of an area."""

    area: Area
    name: str
    default: Value
    why: str
    effect: str
    measured: str = ""
    """The command, commit or document that has the effect; empty where it was not measured."""
    ours: Value | None = None
    rule: str = ""
    """What the value depends on, where it is not the same for every pipeline and machine."""
    correctness: bool = False
    """Another value would lose, double or misjudge records."""

    @property
    def id(self) -> str:
        return f"{self.area.name}.{self.name}"

    @property
    def key(self) -> str:
        """What its system calls it."""
        return self.area.prefix + self.name

    @property
    def given(self) -> str:
        """What it is set to, in words."""
        if self.ours is None:
            return self.rule
        return f"{_text(self.ours)}, {self.rule}" if self.rule else _text(self.ours)

    @property
    def usual(self) -> str:
        """What it would be, in words."""
        return _text(self.default)


def _text(given: Value) -> str:
    if isinstance(given, bool):
        return str(given).lower()
    return f"{given:,}" if isinstance(given, int) else given


@cache
def settings() -> tuple[Setting, ...]:
    """All of them, in the order of the file: some systems heed it."""
    read = _read()
    return tuple(Setting(area, **given) for name, area in areas().items() for given in read[name]["setting"])


@cache
def areas() -> Mapping[str, Area]:
    return {
        name: Area(name, given["what"], given["system"], given.get("prefix", ""))
        for name, given in _read().items()
    }


@cache
def _read() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def find(name: str, also: Collection[str] = ()) -> Setting:
    """By its id, or by what its system calls it if only one area has that; `also` may be meant, too."""
    called = [setting for setting in settings() if name in (setting.id, setting.key, setting.name)]
    exact = [setting for setting in called if setting.id == name] or called
    if len(exact) == 1:
        return exact[0]
    if exact:
        raise PenstockError(
            f'several areas have a setting "{name}"', hint=f"One of: {', '.join(one.id for one in exact)}"
        )
    known = {text for one in settings() for text in (one.id, one.key, one.name)}
    raise PenstockError(
        f'there is no setting "{name}"{nearest(name, sorted(known.union(also)))}',
        hint="All of them: penstock explain",
    )
