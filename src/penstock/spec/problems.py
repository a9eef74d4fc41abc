"""What is wrong with a description: one line a problem, with the key, the value and the way out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from penstock.spec.names import nearest, quoted

Path = tuple[str | int, ...]
_ABSENT = object()


@dataclass(frozen=True)
class Problem:
    """Something wrong at one place of a description."""

    path: Path
    what: str

    def line(self, given: object, origins: Mapping[Path, str] | None = None) -> str:
        """The problem with the value that was given, and where the value came from if not from the file."""
        value = _follow(given, self.path)
        # A lone item of a list may be written as plain text, which has no index.
        path = self.path[:-1] if value is _ABSENT and isinstance(self.path[-1], int) else self.path
        froms = [origin for place, origin in (origins or {}).items() if path[: len(place)] == place]
        origin = f" (from {froms[0]})" if froms else ""
        return f"{key(path)}{_show(_follow(given, path))}: {self.what}{origin}"


def key(path: Path) -> str:
    """("sink", 0, "rows") as a person writes it: sink[0].rows."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def explain(model: type[BaseModel], error: ValidationError, given: object) -> Iterator[Problem]:
    """What pydantic found, in words for the person who wrote the description."""
    for details in error.errors(include_url=False):
        path = _path(details, given)
        match details["type"]:
            case "default_factory_not_called":
                continue  # a consequence of another error
            case "too_short" if details["input"]:
                continue  # likewise: pydantic counts only the valid items
            case "union_tag_invalid":
                kinds, kind = details["ctx"]["expected_tags"], details["ctx"]["tag"]
                yield Problem((*path, "kind"), _one_of(kinds, kind))
            case "union_tag_not_found":
                yield Problem((*path, "kind"), "required, but missing; it says which kind of sink this is")
            case _:
                yield Problem(path, _what(model, details))


def _what(model: type[BaseModel], details: ErrorDetails) -> str:
    match details["type"]:
        case "missing":
            field = fields(_section_at(model, details["loc"][:-1]))[str(details["loc"][-1])]
            example = f"; e.g.{_show(field.examples[0]).removeprefix(' =')}" if field.examples else ""
            return f"required, but missing{example}"
        case "extra_forbidden":
            known = sorted(fields(_section_at(model, details["loc"][:-1])))
            return f"unknown key{nearest(str(details['loc'][-1]), known)} (known: {', '.join(known)})"
        case "literal_error":
            return _one_of(details["ctx"]["expected"], details["input"])
        case "value_error":
            return str(details["ctx"]["error"])
        case "string_type":
            return "expected text in quotes"
        case "bool_type" | "bool_parsing":
            return "expected true or false"
        case "string_too_short":
            return "expected some text"
        case "tuple_type":
            return "expected a list"
        case "too_short":
            return "expected at least one"
        case "model_type" | "model_attributes_type" | "dict_type":
            return "expected a section (a TOML table)"
        case _:
            return details["msg"]


def _one_of(expected: str, given: object) -> str:
    allowed = re.findall(r"'([^']*)'", expected)
    choice = "one of " if len(allowed) > 1 else ""
    return f"expected {choice}{', '.join(allowed)}{nearest(str(given), allowed)}"


def fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The keys of a section as they are written."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def sections_in(annotation: Any) -> dict[str, type[BaseModel]]:
    """The sections a field holds, by kind; the only one is under "" when there is no choice."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        kind = annotation.model_fields.get("kind")
        return {kind.default if kind else "": annotation}
    return {kind: model for part in get_args(annotation) for kind, model in sections_in(part).items()}


def _section_at(model: type[BaseModel], loc: Sequence[str | int]) -> type[BaseModel]:
    choice: dict[str, type[BaseModel]] = {"": model}
    for part in loc:
        if part in choice:
            model = choice[str(part)]
        elif isinstance(part, str):
            choice = sections_in(fields(model)[part].annotation)
            model = choice.get("", model)
    return model


def _path(details: ErrorDetails, given: object) -> Path:
    """Pydantic's location, without steps the text does not have: a union's tag, the index of a lone item."""
    path: Path = ()
    loc = details["loc"]
    for part in loc:
        if _follow(given, (*path, part)) is not _ABSENT:
            path = (*path, part)
    return (*path, loc[-1]) if details["type"] == "missing" else path


def _follow(given: object, path: Path) -> object:
    for part in path:
        if isinstance(given, Mapping):
            given = given.get(part, _ABSENT)
        elif isinstance(given, str) and "," in given and isinstance(part, int):
            given = given.split(",")[part].strip()
        elif isinstance(given, list | tuple) and isinstance(part, int) and part < len(given):
            given = given[part]
        elif isinstance(given, BaseModel) and isinstance(part, str):
            given = getattr(given, part, _ABSENT)
        else:
            return _ABSENT
    return given


def _show(value: object) -> str:
    """` = value` in TOML's spelling, without passwords; nothing for a section."""
    match value:
        case str():
            return " = " + quoted(re.sub(r":(?!//).*@", ":***@", value, flags=re.DOTALL))
        case bool():
            return f" = {str(value).lower()}"
        case int() | float():
            return f" = {value}"
        case list() | tuple() if all(isinstance(item, str) for item in value):
            return " = [" + ", ".join(quoted(item) for item in value) + "]"
        case _:
            return ""
