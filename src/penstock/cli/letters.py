"""Dead letters for a person: opened, listed, shown."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from penstock.cli.common import console, errors, resolve_addresses, say, write_json
from penstock.deadletters.box import LetterBox, letter_sink
from penstock.deadletters.content import byte_named, caret, lines, snippet, visible
from penstock.deadletters.letter import Letter, Place
from penstock.deadletters.marks import Marks
from penstock.deadletters.originals import Originals
from penstock.deadletters.reader import Reader
from penstock.deadletters.selection import Selection, Summary
from penstock.errors import SpecError
from penstock.paths import DataDir
from penstock.spec import Duration, PipelineSpec

_LINE_EVERY_S = 2.0
_BAR_EVERY_S = 0.1
_GROUPS_SHOWN = 20


@dataclass(frozen=True)
class Desk:
    """The dead letters of a pipeline, and what was replayed of them, opened for reading."""

    spec: PipelineSpec
    kafka: str
    box: LetterBox
    marks: Marks
    reader: Reader
    """For lookups while letters are read."""


@contextmanager
def open_desk(spec: PipelineSpec, data: DataDir, sink: str | None) -> Iterator[Desk]:
    chosen_sink = letter_sink(spec, sink)
    kafka = resolve_addresses(spec, data, only=("kafka",)).kafka
    with Reader(kafka) as letters, Reader(kafka) as lookups:
        marks = Marks(lookups, chosen_sink.topic)
        yield Desk(spec, kafka, LetterBox(letters, spec, chosen_sink), marks, lookups)


def chosen(kind: str | None, reason: str, since: str | None) -> Selection:
    if since is None:
        return Selection(kind, reason)
    try:
        length = Duration.parse(since)
    except ValueError as error:
        raise SpecError("--since", [f'"{since}": {error}']) from error
    return Selection(kind, reason, time.time_ns() // 1_000_000 - length.ms)


def chosen_places(texts: Sequence[str], selection: Selection) -> list[Place]:
    if texts and selection != Selection():
        raise SpecError("PARTITION:OFFSET", ["expected either places or --kind, --reason and --since"])
    return [Place.parse(text) for text in dict.fromkeys(texts)]


def list_letters(desk: Desk, selection: Selection, limit: int, json: Path | None) -> None:
    summary = _summary(desk, selection, limit)
    desk.marks.catch_up()
    newest = [_described(letter, desk.marks) for letter in summary.newest]
    groups = [{"kind": k, "reason": r, "count": n} for (k, r), n in summary.groups.most_common()]
    report = {
        "topic": desk.box.topic,
        "total": summary.total,
        "first_ms": summary.first_ms,
        "last_ms": summary.last_ms,
        "groups": groups,
        "newest": newest,
    }
    write_json(json, report)
    if summary.first_ms is None or summary.last_ms is None:
        if selection == Selection():
            say(f"no dead letters of {desk.spec.name} in {desk.box.topic}")
        else:
            say(f"no such dead letters of {desk.spec.name} in {desk.box.topic}; without filters it lists all")
        return
    span = f"from {local_time(summary.first_ms)} to {local_time(summary.last_ms)}"
    say(f"{summary.total:,} dead letters of {desk.spec.name} in {desk.box.topic}, {span}")
    say("")
    _print_groups(summary)
    if summary.newest:
        say("")
        _print_letters(summary.newest, desk.marks)


def _summary(desk: Desk, selection: Selection, limit: int) -> Summary:
    extent = desk.box.extent(selection.since_ms)
    summary = Summary(newest_count=limit)
    with progress("reading", sum(map(len, extent.values()))) as advance:
        for letter in desk.box.letters(extent, lambda: advance(1)):
            if selection.takes(letter):
                summary.add(letter)
    return summary


def _print_groups(summary: Summary) -> None:
    table = Table("count", "kind", "reason", box=None, pad_edge=False)
    table.columns[0].justify = "right"
    groups = summary.groups.most_common()
    for (kind, reason), count in groups[:_GROUPS_SHOWN]:
        table.add_row(f"{count:,}", kind, Text(visible(reason)))
    if rest := groups[_GROUPS_SHOWN:]:
        table.add_row(f"{sum(count for _, count in rest):,}", "", f"({len(rest)} more reasons: see --json)")
    console.print(table)


def _print_letters(letters: Sequence[Letter], marks: Marks) -> None:
    """Two lines each, as wide as they are: a reason that is cut off is worth nothing at night."""
    say(f"the newest {len(letters)}, by place (partition:offset)")
    for letter in letters:
        replayed = ", replayed" if letter in marks else ""
        came = f"{letter.kind}  from {letter.source} {letter.origin}{replayed}"
        say(f"{letter.place!s:<10} {local_time(letter.at_ms)}  {came}  {visible(letter.reason)}")
        say(f"{'':<10} {snippet(letter.value, max(console.width - 12, 40))}")


def _described(letter: Letter, marks: Marks) -> dict[str, Any]:
    return {
        "place": str(letter.place),
        "at_ms": letter.at_ms,
        "kind": letter.kind,
        "reason": letter.reason,
        "source": letter.source,
        "origin": str(letter.origin),
        "replayed_ms": marks.replayed_ms(letter),
        "value_base64": _base64(letter.value),
    }


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def show_letter(desk: Desk, place: Place, json: Path | None) -> None:
    letter = desk.box.at(place)
    desk.marks.catch_up()
    original = Originals(desk.reader, letter.source).of([letter]).get(letter.origin)
    rounds = original.rounds if original else ()
    write_json(
        json,
        {
            **_described(letter, desk.marks),
            "headers": [[name, (value or b"").decode(errors="replace")] for name, value in letter.headers],
            "original_there": original is not None,
            "key_base64": _base64(original.key) if original else None,
            "came_round": list(rounds),
        },
    )
    replayed_ms = desk.marks.replayed_ms(letter)
    gone = f"unknown: {letter.source} no longer holds the record"
    told = {
        "letter": f"{place} of {letter.topic}",
        "set aside": local_time(letter.at_ms),
        "kind": letter.kind,
        "reason": letter.reason,
        "came from": f"{letter.source} {letter.origin}",
        "key": snippet(original.key) if original else gone,
        "came round": (f"{len(rounds)} times: {', '.join(rounds)}" if rounds else "no") if original else gone,
        "replayed": local_time(replayed_ms) if replayed_ms is not None else "no",
    }
    for name, value in told.items():
        say(f"{name:<11} {visible(value)}")
    say("headers")
    for header, content in letter.headers:
        say(f"  {visible(header)} = {snippet(content, 200)}")
    say(f"value, {len(letter.value or b''):,} bytes")
    for line in lines(letter.value):
        say(f"  {line}")
    if (at := byte_named(letter.reason)) is not None:
        say(f"at byte {at}")
        for line in caret(letter.value, at):
            say(f"  {line}")


def local_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat(" ", "seconds")


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, a line every two seconds elsewhere; nothing for what is over sooner."""
    began = shown = time.monotonic()
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, console=errors, transient=True)
    task, done = bar.add_task(what, total=total), 0

    def advance(count: int) -> None:
        nonlocal done, shown
        done += count
        now = time.monotonic()
        if now - shown < (_BAR_EVERY_S if bar.live.is_started else _LINE_EVERY_S):
            return
        shown = now
        if errors.is_terminal:
            bar.start()
            bar.update(task, completed=done)
        else:
            errors.print(f"{what}: {done:,} of {total:,}, {now - began:.0f} s", highlight=False)

    try:
        yield advance
    finally:
        bar.stop()
