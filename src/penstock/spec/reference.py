"""The reference of all keys, made from the models, so that it cannot differ from them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from penstock.spec.pipeline import PipelineSpec
from penstock.spec.problems import fields, sections_in
from penstock.spec.sections import PlainValue, Sql
from penstock.spec.sql import Column, Measure
from penstock.spec.units import Duration

_WORDS: dict[Any, str] = {
    str: "text",
    int: "whole number",
    bool: "true or false",
    Duration: "duration",
    Column: "Spark DDL",
    Measure: "section of name = aggregate",
    Sql: "Spark SQL",
    PlainValue: "value",
}
_WIDTH = 100


def reference() -> str:
    """Every section and key of a description: type, default, meaning and an example."""
    return "\n".join(_section("", PipelineSpec)).strip() + "\n"


def _section(header: str, model: type[BaseModel]) -> Iterator[str]:
    yield f"\n## {header or 'Pipeline'}\n"
    yield from textwrap.wrap(model.__doc__ or "", _WIDTH)
    nested: list[tuple[str, type[BaseModel]]] = []
    keys: list[tuple[str, FieldInfo]] = []
    for key, field in fields(model).items():
        sections = sections_in(field.annotation)
        listed = get_origin(field.annotation) is tuple
        nested += [(_header(key, kind, listed=listed), section) for kind, section in sections.items()]
        if not sections:
            keys.append((key, field))
    for key, field in sorted(keys, key=lambda item: not item[1].is_required()):
        yield from _key(key, field)
    for name, section in nested:
        inside = header.strip("[]") + "." if header and not header.startswith("[[") else ""
        yield from _section(name.replace("[", f"[{inside}") if inside else name, section)


def _header(key: str, kind: str, *, listed: bool) -> str:
    return (f"[[{key}]]" if listed else f"[{key}]") + (f' kind = "{kind}"' if kind else "")


def _key(key: str, field: FieldInfo) -> Iterator[str]:
    yield f"\n{key} ({_type(field.annotation)}; {_default(field)})"
    yield from textwrap.wrap(field.description or "", _WIDTH, initial_indent="    ", subsequent_indent="    ")
    for example in field.examples or []:
        if isinstance(example, dict):
            yield from (f"    e.g. {key}.{name} = {json.dumps(value)}" for name, value in example.items())
        else:
            yield f"    e.g. {key} = {json.dumps(example)}"


def _type(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return " | ".join(get_args(annotation))
    if get_origin(annotation) is dict:
        return f"section of name = {_WORDS[get_args(annotation)[1]]}"
    inner = [part for part in get_args(annotation) if part not in (type(None), ...)]
    if get_origin(annotation) is tuple and inner[0] not in (Column, Measure):
        return f"list of {_type(inner[0])}"
    return _type(inner[0]) if inner else _WORDS[annotation]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "default: the topic or table"
    match field.default:
        case None | () | {}:
            return "optional"
        case tuple():
            return "default: " + ", ".join(field.default)
        case bool():
            return f"default: {json.dumps(field.default)}"
        case int():
            return f"default: {field.default:,}"
        case _:
            return f"default: {field.default}"
