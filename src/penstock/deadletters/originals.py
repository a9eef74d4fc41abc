"""The records that dead letters are of, as they still stand in the source's topic, with key and headers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from penstock.deadletters.letter import Headers, Letter, Place, headers_of
from penstock.deadletters.reader import Reader

REPLAYED_HEADER = "penstock-replayed"
"""On a record that was replayed: the dead letter it comes from. One for each time it came round."""

_SKIP_OFFSETS = 2_000
"""A gap that is wider is skipped: a seek takes about as long as reading so many records of 200 bytes."""


@dataclass(frozen=True)
class Original:
    """What a dead letter does not hold of its record."""

    key: bytes | None
    headers: Headers

    @property
    def rounds(self) -> tuple[str, ...]:
        """The dead letters through which it came here, the oldest first."""
        return tuple(
            (value or b"").decode(errors="replace") for name, value in self.headers if name == REPLAYED_HEADER
        )


class Originals:
    """Looks records of one topic up by their place."""

    def __init__(self, reader: Reader, topic: str) -> None:
        self._reader = reader
        self._topic = topic

    def of(self, letters: Iterable[Letter]) -> dict[Place, Original]:
        """By origin. Those that retention took, or that another record has replaced, are not among them."""
        wanted = {letter.origin: letter.value for letter in letters}
        held = self._reader.extent(self._topic) or {}
        by_partition: dict[int, list[int]] = {}
        for place in sorted(wanted):
            if place.offset in held.get(place.partition, ()):
                by_partition.setdefault(place.partition, []).append(place.offset)
        found = {}
        rows = [[(p, stretch) for stretch in stretches(offsets)] for p, offsets in by_partition.items()]
        for at_once in zip_longest(*rows):
            for message in self._reader.read(self._topic, dict(one for one in at_once if one is not None)):
                place = Place(message.partition() or 0, message.offset() or 0)
                # Another value: the topic was deleted and made anew since.
                if place in wanted and message.value() == wanted[place]:
                    found[place] = Original(message.key(), headers_of(message))
        return found


def stretches(offsets: list[int]) -> list[range]:
    """Ranges that hold all of these ascending offsets and skip wide gaps between them."""
    found: list[range] = []
    for offset in offsets:
        if found and offset - found[-1].stop < _SKIP_OFFSETS:
            found[-1] = range(found[-1].start, offset + 1)
        else:
            found.append(range(offset, offset + 1))
    return found
