"""A long run, played again: from any moment the same, in memory that does not grow with it."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.observe import samplefile
from penstock.observe.board.alerts import Limits
from penstock.observe.run import journal_file
from penstock.web import recording as recordings
from penstock.web import stream
from penstock.web.message import snapshot
from penstock.web.recording import STOPS_MAX, Playback, Recording
from tests.runs import START_MS, Run, write

SECONDS = 200


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose samples have filled a file."""
    run = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samplefile, "BYTES_MAX", 60_000)
        write(run, Run(SECONDS).entries())
    assert samplefile.older(run / "samples.jsonl").exists()
    return run


@pytest.fixture(scope="module")
def played(run: Path) -> Iterator[Recording]:
    """With stops each ten seconds, all of which have been passed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recordings, "_STOP_MIN_MS", 10_000)
        recording = Recording.read(run, None, Limits())
        Playback(recording, START_MS).read(recording.end_ms)
        yield recording


def shown(recording: Recording, at_ms: int) -> Any:
    return snapshot(Playback(recording, at_ms).picture(at_ms))


@settings(max_examples=12, deadline=None)
@given(st.integers(0, SECONDS * 1000))
def test_what_is_shown_from_a_stop_on_is_what_is_shown_from_the_beginning(
    played: Recording, run: Path, after_ms: int
) -> None:
    anew = Recording.read(run, None, Limits())
    assert shown(played, START_MS + after_ms) == shown(anew, START_MS + after_ms)


def test_a_jump_reads_no_more_than_the_way_from_the_last_stop(played: Recording) -> None:
    places = [stop.place for stop in played.stops.values()]
    assert len(places) == len(set(places)) > SECONDS / 10 / 2
    assert max(place.journal for place in places) > 0.9 * played.journal.stat().st_size
    assert {place.samples.in_older for place in places} == {True, False}


def test_however_long_a_run_is_its_stops_are_few(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "_STOP_MIN_MS", 1)
    recording = Recording.read(run, None, Limits())
    for _ in range(2):
        Playback(recording, START_MS).read(recording.end_ms)
    assert STOPS_MAX / 2 < len(recording.stops) <= STOPS_MAX


def test_a_batch_that_was_played_leaves_nothing_behind(run: Path) -> None:
    recording = Recording.read(run, None, Limits())
    playback = Playback(recording, START_MS)
    tracemalloc.start()
    held = []
    for second in (70, 130, 190):
        playback.read(START_MS + second * 1000)
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    # A histogram as it is read takes 150 KB, and there were some sixty each time.
    assert max(held) - min(held) < 2_000_000


def test_what_means_nothing_is_passed_over(run: Path, tmp_path: Path) -> None:
    lines = journal_file(run).read_bytes().splitlines(keepends=True)
    lines.insert(40, b'{"what":"batch","at_ms":1}\n')
    alone = tmp_path / "sent-by-somebody.jsonl"
    alone.write_bytes(b"".join(lines))
    whole, torn = (Recording.read(path, None, Limits()) for path in (journal_file(run), alone))
    totals = [Playback(one, one.end_ms).picture(one.end_ms).glance.totals for one in (whole, torn)]
    assert totals[0].records > 0
    assert totals[0] == totals[1]


def test_a_run_without_batches_is_named_by_its_directory(tmp_path: Path) -> None:
    run = tmp_path / "payments"
    write(run, Run(5).entries())
    assert Recording.read(run, None, Limits()).name == "payments"


async def told(recording: Recording, at_ms: int, speed: int, until: int = 0) -> list[tuple[str, Any]]:
    """The messages of a stream up to the first picture of a moment."""
    found: list[tuple[str, Any]] = []
    async for message in stream.replayed(recording, at_ms, speed, asyncio.Event()):
        kind, _, content = message.decode().partition("\ndata: ")
        if content:
            found.append((kind.removeprefix("event: "), json.loads(content)))
            if "glance" in found[-1][1] and found[-1][1]["glance"]["now_ms"] >= until:
                break
    return found


def test_while_it_reads_up_to_a_moment_the_page_sees_how_far_it_has_come(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_EVERY_S", 0.01)
    recording = Recording.read(run, None, Limits())
    *before, cards, arrived, picture = asyncio.run(told(recording, recording.end_ms, 60))
    assert {kind for kind, _ in before} == {"replay"}
    reached = [place["at_ms"] for _, place in (*before, arrived)]
    assert reached == sorted(reached)
    assert reached[-1] == recording.end_ms
    assert (cards[0], picture[0]) == ("cards", "snapshot")


def test_a_page_that_stays_gets_the_whole_again_before_it_has_gaps(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_WHOLE_EVERY_MS", 60_000)
    monkeypatch.setattr(stream, "_EVERY_S", 0.02)
    recording = Recording.read(run, None, Limits())
    messages = asyncio.run(told(recording, START_MS + 30_000, 60, until=recording.end_ms))
    whole = [content["glance"]["now_ms"] for kind, content in messages if kind == "snapshot"]
    assert (
        len({at_ms // 60_000 for at_ms in whole})
        == len(whole)
        == 1 + (recording.end_ms // 60_000) - ((START_MS + 30_000) // 60_000)
    )
    assert [kind for kind, _ in messages].count("delta") > len(whole)
