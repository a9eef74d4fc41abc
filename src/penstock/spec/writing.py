"""A description as TOML text, complete with its defaults."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from penstock.spec.pipeline import PipelineSpec


def to_toml(spec: PipelineSpec) -> str:
    """TOML that `load` reads back as an equal description."""
    values = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    return "\n".join(_lines("", values)).lstrip("\n") + "\n"


def _lines(section: str, values: dict[str, Any]) -> Iterator[str]:
    """Plain values first: in TOML a key belongs to the last header before it."""
    for key, value in values.items():
        if not _is_section(value):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in values.items():
        if not _is_section(value):
            continue
        name = f"{section}.{_key(key)}" if section else _key(key)
        for item in value if isinstance(value, list) else [value]:
            yield f"\n[[{name}]]" if isinstance(value, list) else f"\n[{name}]"
            yield from _lines(name, item)


def _is_section(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(item, dict) for item in value)
    )


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key, re.ASCII) else _value(key)


def _value(value: Any) -> str:
    # JSON's strings, numbers and lists are TOML too, but for the one control character JSON leaves bare.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
