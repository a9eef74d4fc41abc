"""A dead letter: a record as it came, why it was set aside, and where it stood."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Self, cast

from confluent_kafka import Message

from penstock.errors import SpecError

Headers = tuple[tuple[str, bytes | None], ...]
_PREFIX = "penstock."


@dataclass(frozen=True, order=True)
class Place:
    """A record of a topic, as people write it: 3:120."""

    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Self:
        found = re.fullmatch(r"(\d{1,9}):(\d{1,18})", text, re.ASCII)
        if found is None:
            wrong = f'"{text}": expected a partition and an offset, e.g. 3:120, as the list shows them'
            raise SpecError("PARTITION:OFFSET", [wrong])
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


@dataclass(frozen=True)
class Letter:
    """One record of a topic of dead letters."""

    topic: str
    place: Place
    at_ms: int
    """When it was set aside."""
    kind: str
    reason: str
    query: str
    source: str
    """The topic it came from."""
    origin: Place
    """Where it stood there."""
    value: bytes | None
    headers: Headers

    @property
    def is_record(self) -> bool:
        """Whether it holds a record of the source's topic, and all of it."""
        return self.kind != "refused" and not any(name == f"{_PREFIX}cut" for name, _ in self.headers)

    @property
    def address(self) -> str:
        return f"{self.topic}/{self.place.partition}/{self.place.offset}"

    @property
    def mark(self) -> str:
        """The name of the original record: two letters of one record bear the same, and it is replayed once.

        The digest tells it from a record that stood at the same offset of a topic that was deleted since.
        """
        digest = hashlib.blake2b(self.value or b"", digest_size=8).hexdigest()
        return f"{self.source}/{self.origin.partition}/{self.origin.offset}/{digest}"


def headers_of(message: Message) -> Headers:
    return cast(Headers, tuple(message.headers() or ()))


def letter_of(message: Message) -> Letter | None:
    """The dead letter that a record is; None for one that this program did not write."""
    headers = headers_of(message)
    said = {name.removeprefix(_PREFIX): (value or b"").decode(errors="replace") for name, value in headers}
    try:
        origin = Place(int(said["partition"]), int(said["offset"]))
        kind, reason, query, source = (said[name] for name in ("kind", "reason", "query", "topic"))
    except (KeyError, ValueError):
        return None
    place = Place(message.partition() or 0, message.offset() or 0)
    at_ms = int(message.timestamp()[1])
    return Letter(
        str(message.topic()), place, at_ms, kind, reason, query, source, origin, message.value(), headers
    )
