"""What a checkpoint's state was written by, and what of a spec may change without a new one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Self

from penstock.engine.grouping import Layout
from penstock.errors import StateMismatch
from penstock.spec import PipelineSpec

_LAYOUTS_MAX = 120
"""State says by one byte which layout it was written in."""

_FORM = 2
"""How the kernel lays state out: by buckets of keys. Another one cannot be read."""


@dataclass(frozen=True)
class StateLayout:
    """The parts of a spec that state depends on."""

    fixed: dict[str, str]
    """What can never change, by its key in the spec."""
    layouts: list[Layout]
    """The measures, at each time that they were changed; the last are the present ones."""
    measures: dict[str, str]
    """The measures as the spec has them."""
    sinks: list[str]
    """Those that have had a batch."""
    writers: dict[str, int] = field(default_factory=dict)
    """How many slots each sink is written in; 1 where nothing is said."""
    form: int = _FORM

    @classmethod
    def of(cls, spec: PipelineSpec, layout: Layout) -> Self:
        fixed = {"engine": spec.engine, "source.topic": spec.source.topic}
        if spec.sessions is not None:
            fixed |= {"sessions.key": spec.sessions.key, "sessions.partitions": str(spec.sessions.partitions)}
        if spec.windows is not None:
            fixed |= {
                "windows.key": spec.windows.key,
                "windows.partitions": str(spec.windows.partitions),
                "windows.size": str(spec.windows.size),
                "windows.slide": str(spec.windows.step),
            }
        measures = {m.name: m.text for m in spec.grouping.measures} if spec.grouping else {}
        writers = {sink.name: sink.writers for sink in spec.sink}
        return cls(fixed, [layout], measures, list(writers), writers)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """None where nothing has been written yet."""
        if not path.exists():
            return None
        found = {"writers": {}, "form": 1, **json.loads(path.read_text())}
        if found.keys() != {field.name for field in fields(cls)} or found["form"] != _FORM:
            raise StateMismatch(
                f"the state of {path.parent} was written by another version of Penstock",
                hint="Give the pipeline another name: it then reads the topic anew, with a state of its own.",
            )
        return cls(**found)

    def write(self, path: Path) -> None:
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self), indent=1))
        fresh.replace(path)

    def changed_to(self, wanted: Self) -> tuple[Self, list[str]]:
        """The layout to go on with, and what a person should know; a StateMismatch where it cannot be."""
        self._check_writers(wanted)
        if problems := list(self._conflicts(wanted)):
            raise StateMismatch(
                "the state of this checkpoint does not fit the spec: " + "; ".join(problems),
                hint="Undo the change, give a changed measure another name, or give the pipeline another"
                " name: it then reads the topic anew, with a state of its own.",
            )
        [layout] = wanted.layouts
        layouts = self.layouts if self.layouts[-1] == layout else [*self.layouts, layout]
        writers = {**self.writers, **wanted.writers}
        merged = type(self)(wanted.fixed, layouts, wanted.measures, self.sinks, writers)
        return merged, list(self._news(wanted))

    def _check_writers(self, wanted: Self) -> None:
        """Each slot has a position of its own, and a key belongs to a slot by their number."""
        changed = [
            f"sink {name}: writers was {was}, is {now}"
            for name, now in wanted.writers.items()
            if name in self.sinks and (was := self.writers.get(name, 1)) != now
        ]
        if changed:
            raise StateMismatch(
                f"{'; '.join(changed)}: a batch that comes again would go to other writers than those that"
                " hold it, and be there twice",
                hint="Undo the change, or give the sink another name and another target: it then begins with"
                " the next batch.",
            )

    def _conflicts(self, wanted: Self) -> Iterator[str]:
        for key in self.fixed | wanted.fixed:
            was, now = self.fixed.get(key, "absent"), wanted.fixed.get(key, "absent")
            if was != now:
                yield f"{key} was {was}, is {now}"
        # A measure that was dropped and comes back may still be in the state of keys that slept.
        known = {name: (function, type_) for layout in self.layouts for name, function, type_ in layout}
        for name, function, type_ in wanted.layouts[0]:
            if name in known and known[name] != (function, type_):
                was_function, was_type = known[name]
                yield f"measure {name} was a {was_function} of {was_type}, is a {function} of {type_}"
        if len(self.layouts) >= _LAYOUTS_MAX and self.layouts[-1] != wanted.layouts[0]:
            yield f"its measures were changed {_LAYOUTS_MAX} times"

    def _news(self, wanted: Self) -> Iterator[str]:
        for name, text in wanted.measures.items():
            was = self.measures.get(name)
            if was is None:
                yield f"new measure {name}: what is open now has it from here on"
            elif was != text:
                yield f"measure {name} changed from {was} to {text}: what is open now holds both"
        for name in self.measures:
            if name not in wanted.measures:
                yield f"measure {name} is gone"

    def new_sinks(self, wanted: Self) -> list[str]:
        """Sinks that the checkpoint has never written: they begin with the next batch."""
        return [name for name in wanted.sinks if name not in self.sinks]
