"""The dead letters of a pipeline, where they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.deadletters.letter import Letter, Place, letter_of
from penstock.deadletters.reader import Extent, Reader
from penstock.errors import PenstockError, SpecError
from penstock.spec import KafkaSink, PipelineSpec
from penstock.spec.sinks import ASIDE


def letter_sink(spec: PipelineSpec, name: str | None = None) -> KafkaSink:
    """The sink that holds a pipeline's dead letters: the one of this name, or the only one."""
    found = [sink for sink in spec.sink if isinstance(sink, KafkaSink) and ASIDE & set(sink.rows)]
    if not found:
        example = '[[sink]] kind = "kafka", topic = "dead-letters", rows = ["rejected", "late"]'
        raise SpecError(spec.name, [f"no sink keeps dead letters; add one, e.g. {example}"])
    names = ", ".join(sink.name for sink in found)
    if name is None and len(found) > 1:
        raise SpecError(spec.name, [f"several sinks keep dead letters: name one with --sink ({names})"])
    chosen = [sink for sink in found if name in (None, sink.name)]
    if not chosen:
        raise SpecError("--sink", [f'"{name}": no sink of this name keeps dead letters (there are: {names})'])
    return chosen[0]


class LetterBox:
    """Reads the dead letters of one pipeline; its topic may be shared with others."""

    def __init__(self, reader: Reader, spec: PipelineSpec, sink: KafkaSink) -> None:
        self._reader = reader
        self._spec = spec
        self.topic = sink.topic

    def extent(self, since_ms: int | None = None) -> Extent:
        extent = self._reader.extent(self.topic, since_ms)
        if extent is None:
            raise PenstockError(
                f"topic {self.topic} does not exist: the pipeline has never run here",
                hint="It is created when the pipeline starts: penstock run SPEC",
            )
        return extent

    def letters(self, extent: Extent, on_read: Callable[[], object] = lambda: None) -> Iterator[Letter]:
        """The letters of these offsets; `on_read` hears of every record, another pipeline's too."""
        for message in self._reader.read(self.topic, extent):
            on_read()
            letter = letter_of(message)
            if letter and (letter.query, letter.source) == (self._spec.name, self._spec.source.topic):
                yield letter

    def at(self, place: Place) -> Letter:
        held = self.extent().get(place.partition)
        if held is None:
            raise PenstockError(f"topic {self.topic} has no partition {place.partition}")
        if place.offset in held:
            for letter in self.letters({place.partition: range(place.offset, place.offset + 1)}):
                return letter
        reaches = f"{held.start} to {held.stop - 1}" if held else "none"
        raise PenstockError(
            f"{place} of {self.topic} is no dead letter of {self._spec.name}",
            hint=f"Offsets of partition {place.partition}: {reaches}; some are markers of transactions."
            " The list shows where letters are.",
        )
