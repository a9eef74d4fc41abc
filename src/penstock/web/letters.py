"""Dead letters for the page: the newest, and a look into one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.deadletters.box import LetterBox, letter_sink
from penstock.deadletters.content import byte_named, caret, lines, snippet, visible
from penstock.deadletters.letter import Letter, Place
from penstock.deadletters.reader import Reader
from penstock.deadletters.selection import Summary
from penstock.spec import PipelineSpec

_PER_PARTITION = 200
"""The newest offsets that are read of each partition: a page must not read a topic of millions."""
_SHOWN = 25
_LINES_MAX = 200
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Letters:
    """The dead letters of one pipeline."""

    spec: PipelineSpec
    kafka: Callable[[], str]
    """Where Kafka is; asked when it is needed, since it may be away."""
    lock: threading.Lock = field(default=_one_at_a_time)

    def newest(self) -> dict[str, Any]:
        sink = letter_sink(self.spec)
        with self.lock, Reader(self.kafka()) as reader:
            box = LetterBox(reader, self.spec, sink)
            extent = box.extent()
            read = {
                partition: range(max(held.start, held.stop - _PER_PARTITION), held.stop)
                for partition, held in extent.items()
            }
            summary = Summary(_SHOWN)
            for letter in box.letters(read):
                summary.add(letter)
        return {
            "topic": box.topic,
            "whole": read == extent,
            "groups": [
                {"kind": kind, "reason": visible(reason), "count": count}
                for (kind, reason), count in summary.groups.most_common(12)
            ],
            "newest": [_told(letter) for letter in summary.newest],
        }

    def one(self, place: Place) -> dict[str, Any]:
        sink = letter_sink(self.spec)
        with self.lock, Reader(self.kafka()) as reader:
            letter = LetterBox(reader, self.spec, sink).at(place)
        found = lines(letter.value)
        at = byte_named(letter.reason)
        return {
            **_told(letter),
            "headers": [[visible(name), snippet(value, 200)] for name, value in letter.headers],
            "bytes": len(letter.value or b""),
            "lines": found[:_LINES_MAX],
            "lines_left": max(0, len(found) - _LINES_MAX),
            "caret": list(caret(letter.value, at)) if at is not None else None,
        }


def _told(letter: Letter) -> dict[str, Any]:
    return {
        "place": str(letter.place),
        "at_ms": letter.at_ms,
        "kind": letter.kind,
        "reason": visible(letter.reason),
        "origin": f"{letter.source} {letter.origin}",
        "snippet": snippet(letter.value, 120),
    }
