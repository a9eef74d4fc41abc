"""A run's files as entries: whatever state they are in, and whichever version wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from heapq import merge
from pathlib import Path
from typing import TypeVar

from penstock.engine.receipt import Receipt
from penstock.errors import SpecError
from penstock.observe.journal import Batch, Entry, JournalReader, Lag, Note
from penstock.observe.run import Seen, journal_file, sample_file, spec_file
from penstock.observe.samplefile import SampleReader
from penstock.observe.samples import AuditVerdict, Sample
from penstock.report.facts import Record
from penstock.spec import PipelineSpec, load

T = TypeVar("T", bound=Seen)

_TAIL_BYTES = 262_144
_AT_MS_MAX = 253_402_300_799_000
"""The year 9999."""
_NUMBER_MAX = 2.0**53
"""Beyond this, floats do not count."""


@dataclass(frozen=True)
class Bounds:
    """The first and the last moment that a journal tells of."""

    first_ms: int
    last_ms: int


class RunFiles:
    """One run on disk: a directory of runs/, or a journal alone."""

    def __init__(self, path: Path) -> None:
        directory = path if path.is_dir() else path.parent
        self.journal = journal_file(path) if path.is_dir() else path
        self.is_alone = self.journal != journal_file(directory)
        self._directory = directory
        self.spec = None if self.is_alone else _kept(spec_file(directory))
        self.name = self.spec.name if self.spec else self._named()
        self._lines = self._unread = 0

    def _named(self) -> str:
        """By its first query, whose name is the shortest; else by its directory."""
        recent = plausible(JournalReader.tail(self.journal, _TAIL_BYTES, unread=lambda _: None).new())
        queries = {entry.receipt.query for entry in recent if isinstance(entry, Batch)}
        return min(sorted(queries), key=len) if queries else self.journal.absolute().parent.name

    def bounds(self) -> Bounds | None:
        """None where nothing is written down."""
        first = next(plausible(JournalReader(self.journal, unread=lambda _: None).new()), None)
        if first is None:
            return None
        last_ms = first.at_ms
        for last in plausible(JournalReader.tail(self.journal, _TAIL_BYTES, unread=lambda _: None).new()):
            last_ms = max(last_ms, last.at_ms)
        return Bounds(first.at_ms, last_ms)

    def entries(self, from_ms: int, to_ms: int) -> Iterator[Seen]:
        """What happened between two moments, the oldest first, and what audits found afterwards."""
        for seen in merge(self._journal_entries(from_ms), self._samples(), key=lambda seen: seen.at_ms):
            if from_ms <= seen.at_ms <= to_ms or (isinstance(seen, AuditVerdict) and seen.at_ms > to_ms):
                yield seen

    def _journal_entries(self, from_ms: int) -> Iterator[Entry]:
        reader = JournalReader(self.journal, unread=self._missed)
        reader.skip_to(from_ms)
        for entry in reader.new():
            self._lines += 1
            if is_plausible(entry):
                yield entry
            else:
                self._unread += 1

    def _missed(self, _line: bytes) -> None:
        self._lines += 1
        self._unread += 1

    def _samples(self) -> Iterator[Sample]:
        if not self.is_alone:
            yield from plausible(SampleReader(sample_file(self._directory)).new())

    def record(self, from_ms: int, to_ms: int, bounds: Bounds | None) -> Record:
        """What has been read."""
        if bounds is None:
            return Record(self._lines, self._unread, None, False)
        is_cut, goes_on = bounds.first_ms < from_ms, to_ms < bounds.last_ms
        return Record(self._lines, self._unread, None, is_cut, goes_on)


def _kept(spec: Path) -> PipelineSpec | None:
    """What ran, as it was described; None where that is not known, or means nothing any more."""
    try:
        return load(spec, environ={})
    except SpecError:
        return None


def plausible(seen: Iterable[T]) -> Iterator[T]:
    return (one for one in seen if is_plausible(one))


def is_plausible(seen: Seen) -> bool:
    """Whether an entry is what this version would have written: a journal's are not checked when read."""
    if not isinstance(seen.at_ms, int) or not 0 < seen.at_ms < _AT_MS_MAX:
        return False
    match seen:
        case Batch():
            return _is_receipt(seen.receipt)
        case Lag():
            return _are_numbers([*seen.ends.values(), *seen.done.values()])
        case Note():
            return isinstance(seen.text, str)
        case _:
            return _is_sane(seen)


def _is_receipt(receipt: Receipt) -> bool:
    counts = [getattr(receipt, field.name) for field in fields(Receipt) if field.type in ("int", "float")]
    sinks = [
        number
        for sink in receipt.sinks
        for number in (sink.rows, sink.write_ms, sink.visible_at_ms, sink.refused)
    ]
    named = [receipt.query, *(sink.name for sink in receipt.sinks), *receipt.versions.values()]
    spans = list(receipt.offsets.values())
    return (
        _are_numbers([*counts, *sinks, *receipt.stale_since_ms.values()])
        and all(isinstance(name, str) for name in named)
        and all(len(span) == 2 and _are_numbers(span) for span in spans)
    )


def _are_numbers(values: Iterable[object]) -> bool:
    return all(type(value) in (int, float) and 0 <= value <= _NUMBER_MAX for value in values)  # type: ignore[operator]


def _is_sane(value: object) -> bool:
    """Whether no number in it is beyond all measure; the types of samples are checked when they are read."""
    if isinstance(value, int | float):
        return -_NUMBER_MAX <= value <= _NUMBER_MAX
    if isinstance(value, tuple):
        return all(map(_is_sane, value))
    if is_dataclass(value):
        return all(_is_sane(getattr(value, field.name)) for field in fields(value))
    return True
