"""A description from a TOML file, the environment and the command line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.errors import SpecError
from penstock.spec import problems
from penstock.spec.names import nearest
from penstock.spec.pipeline import PipelineSpec, find_problems
from penstock.spec.problems import Problem

_PREFIX = "PENSTOCK_"
_NOT_OF_THE_SPEC = {"PENSTOCK_DATA", "PENSTOCK_IVY_SETTINGS", "PENSTOCK_UNTUNED", "PENSTOCK_WEB_TOKEN"}


def load(
    path: Path | str, *, environ: Mapping[str, str] = os.environ, overrides: Mapping[str, str] | None = None
) -> PipelineSpec:
    """Read a pipeline; a SpecError lists everything that is wrong with it."""
    # Precedence: defaults (in the models) < the file < the environment < overrides (flags).
    given = _read(Path(path))
    found: list[Problem] = []
    origins: dict[problems.Path, str] = {}
    for variable, text in sorted(environ.items()):
        if variable.startswith(_PREFIX) and variable not in _NOT_OF_THE_SPEC:
            steps = variable.removeprefix(_PREFIX).lower().split("__")
            _put(given, steps, text, variable, origins, found)
    for key, text in (overrides or {}).items():
        steps = re.sub(r"\[(\d+)\]", r".\1", key).split(".")
        _put(given, steps, text, f"the override {key}", origins, found)
    found += find_problems(given)
    if found:
        raise SpecError(str(path), [problem.line(given, origins) for problem in found])
    return PipelineSpec(**given)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        beside = [file.name for file in path.parent.glob("*.toml")] if path.parent.is_dir() else []
        raise SpecError(
            str(path), [f"no such file{nearest(path.name, beside) or '; give the path of a TOML file'}"]
        ) from None
    except OSError as error:
        raise SpecError(str(path), [f"cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise SpecError(str(path), [f"not TOML: byte {error.start} is not UTF-8"]) from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(str(path), [f"not TOML: {error}"]) from None


def _put(
    given: dict[str, Any],
    steps: list[str],
    text: str,
    origin: str,
    origins: dict[problems.Path, str],
    found: list[Problem],
) -> None:
    """Set one value by its path, and remember where it came from. An item of a list goes by index or name."""
    here: Any = given
    path: problems.Path = ()
    for step in steps[:-1]:
        if isinstance(here, list):
            index = _index(here, step)
            if index is None:
                names = [name for item in here if (name := _name(item))]
                what = f"no item {step!r}{nearest(step, names)} (there are {len(here)}: {', '.join(names)})"
                found.append(Problem(path, f"{what} (from {origin})"))
                return
            here, path = here[index], (*path, index)
        elif isinstance(here, dict):
            here, path = here.setdefault(step, {}), (*path, step)
    if not isinstance(here, dict):
        found.append(Problem(path, f"has no key {steps[-1]!r} to set (from {origin})"))
        return
    here[steps[-1]] = text
    origins[(*path, steps[-1])] = origin


def _index(items: list[Any], step: str) -> int | None:
    if step.isdecimal():
        return int(step) if int(step) < len(items) else None
    plain = step.lower().replace("-", "_")
    matches = [i for i, item in enumerate(items) if _name(item).lower().replace("-", "_") == plain]
    return matches[0] if len(matches) == 1 else None


def _name(item: Any) -> str:
    """What an item of a list is called; a sink's name is its topic or table unless it has one."""
    if not isinstance(item, dict):
        return ""
    return str(item.get("name") or item.get("topic") or item.get("table") or "")
