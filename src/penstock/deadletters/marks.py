"""Which records were replayed: marks in a compacted topic, each written in the record's own transaction."""

from __future__ import annotations

import json

from penstock.deadletters.letter import Letter
from penstock.deadletters.reader import Reader
from penstock.sinks.producer import Message

_PARTITION = 0


def marks_topic(topic: str) -> str:
    """Where the marks of a topic of dead letters are."""
    return f"{topic}-replayed"


def mark_of(letter: Letter, now_ms: int) -> Message:
    mark = {"letter": letter.address, "replayed_ms": now_ms}
    return {"key": letter.mark.encode(), "value": json.dumps(mark).encode()}


def count_marks(bootstrap: str, topic: str) -> int:
    """How many records were replayed from a topic of dead letters."""
    with Reader(bootstrap) as reader:
        marks = Marks(reader, topic)
        marks.catch_up()
        return len(marks)


class Marks:
    """All marks of a topic of dead letters, as far as they have been read: about 200 bytes each."""

    def __init__(self, reader: Reader, topic: str) -> None:
        self._reader = reader
        self._topic = marks_topic(topic)
        self._replayed_ms: dict[str, int] = {}
        self._next = 0

    def catch_up(self) -> None:
        """Read what was committed since the last time."""
        extent = self._reader.extent(self._topic)
        if extent is None:
            return
        end = extent[_PARTITION].stop
        new = range(max(self._next, extent[_PARTITION].start), end)
        for message in self._reader.read(self._topic, {_PARTITION: new}):
            mark = json.loads(message.value() or b"{}")
            self._replayed_ms[(message.key() or b"").decode()] = mark.get("replayed_ms", 0)
        self._next = end

    def __len__(self) -> int:
        return len(self._replayed_ms)

    def __contains__(self, letter: Letter) -> bool:
        return letter.mark in self._replayed_ms

    def replayed_ms(self, letter: Letter) -> int | None:
        """When a letter's record was replayed, if it was."""
        return self._replayed_ms.get(letter.mark)
