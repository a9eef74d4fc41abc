"""Dead letters put back: what is said before, asked, and told after."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

import typer

from penstock.cli.common import say, write_json
from penstock.cli.letters import Desk, progress
from penstock.deadletters.letter import Letter, Place
from penstock.deadletters.replay import Outcome, Replay
from penstock.deadletters.selection import Selection
from penstock.errors import PenstockError

ReadLetters = Callable[[Callable[[], object]], Iterable[Letter]]
"""Reads the chosen letters, the same ones each time; its argument hears of every record."""

_AGAIN = {
    "late": "A late event will be late again unless the lateness has grown since.",
    "duplicate": "A duplicate will be one again while its id is remembered.",
}


def replay_letters(
    desk: Desk,
    wanted: Selection | list[Place],
    *,
    dry_run: bool,
    yes: bool,
    stop: threading.Event,
    json: Path | None,
) -> Outcome:
    """Say what will be done, ask, and do it."""
    topic = desk.spec.source.topic
    read, records = _chosen(desk, wanted)
    preview = _announced(desk, read, records)
    left = preview.selected - preview.already_replayed
    if dry_run or not left:
        say("a dry run: nothing was sent" if left else "nothing to replay")
        write_json(json, asdict(preview))
        return preview
    if not yes:
        _confirm(left, topic)
    replay = Replay(desk.kafka, desk.box.topic, desk.marks, desk.reader)
    try:
        with progress("replaying", records) as advance:
            for _ in replay.run(read(lambda: advance(1))):
                if stop.is_set():
                    say("stopped; the same command replays the rest")
                    break
    finally:
        write_json(json, asdict(replay.outcome))
    _tell(replay.outcome, topic)
    return replay.outcome


def _chosen(desk: Desk, wanted: Selection | list[Place]) -> tuple[ReadLetters, int]:
    """The letters that are meant, and how many records have to be read to find them."""
    if isinstance(wanted, list):
        found = [desk.box.at(place) for place in wanted]
        return lambda _: found, len(found)
    extent = desk.box.extent(wanted.since_ms)
    records = sum(map(len, extent.values()))
    return lambda on_read: filter(wanted.takes, desk.box.letters(extent, on_read)), records


def _announced(desk: Desk, read: ReadLetters, records: int) -> Outcome:
    desk.marks.catch_up()
    kinds: Counter[str] = Counter()
    preview = Outcome()
    with progress("reading", records) as advance:
        for letter in read(lambda: advance(1)):
            preview.selected += 1
            if letter in desk.marks:
                preview.already_replayed += 1
            else:
                kinds[letter.kind] += 1
    listed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    already = f"{preview.already_replayed:,} replayed already"
    which = f"{preview.selected:,} dead letters of {desk.spec.name} in {desk.box.topic}"
    say(f"{which}: {already}, to replay: {listed or 'none'}")
    for kind in sorted(kinds.keys() & _AGAIN.keys()):
        say(_AGAIN[kind])
    return preview


def _confirm(count: int, topic: str) -> None:
    if not sys.stdin.isatty():
        raise PenstockError(
            "nobody can be asked: the input is not a terminal; nothing was sent",
            hint=f"Say --yes to send {count:,} records to {topic}, or --dry-run to see only.",
        )
    if not typer.confirm(f"Send {count:,} records to {topic}?"):
        raise PenstockError("nothing was sent")


def _tell(outcome: Outcome, topic: str) -> None:
    already = f", {outcome.already_replayed:,} had been replayed already" if outcome.already_replayed else ""
    say(f"{outcome.replayed:,} records replayed into {topic}{already}")
    if outcome.without_key:
        say(
            f"{outcome.without_key:,} of them without their key and headers: {topic} no longer holds the"
            " originals. They are in the partitions they came from."
        )
    if outcome.failed:
        say(f"{outcome.failed:,} were refused by {topic}:")
        for problem in outcome.problems:
            say(f"  {problem}")
