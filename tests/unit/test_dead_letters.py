"""Dead letters without a broker: which are meant, how they are counted, shown and paged."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from penstock.cli.letters import chosen, chosen_places
from penstock.deadletters import replay as replaying
from penstock.deadletters.box import letter_sink
from penstock.deadletters.content import byte_named, caret, hex_dump, lines, snippet, visible
from penstock.deadletters.letter import Letter, Place
from penstock.deadletters.originals import Original, stretches
from penstock.deadletters.replay import message_of, pages
from penstock.deadletters.selection import OTHER, Selection, Summary, reason_group
from penstock.errors import SpecError
from penstock.paths import shipped
from penstock.spec import PipelineSpec, load

LETTER = Letter(
    topic="dead-letters",
    place=Place(3, 120),
    at_ms=1_000,
    kind="rejected",
    reason="malformed: expected ':', got '}', at byte 7",
    query="clickstream",
    source="clicks",
    origin=Place(5, 99),
    value=b'{"user"}',
    headers=(),
)


def clickstream(*letter_sinks: Mapping[str, object]) -> PipelineSpec:
    spec = load(shipped("pipelines") / "clickstream.toml", environ={})
    kept = [sink.model_dump() for sink in spec.sink if "rejected" not in sink.rows]
    return PipelineSpec(**{**spec.model_dump(by_alias=True), "sink": [*kept, *letter_sinks]})


def test_a_place_reads_back_as_it_is_written() -> None:
    assert Place.parse("3:120") == Place(3, 120)
    assert str(Place.parse("3:120")) == "3:120"


@pytest.mark.parametrize(
    "text", ["", "3", "3:", ":120", "3:-1", "a:b", "3:120:5", " 3:120", "3:120\n", "٣:1"]
)
def test_what_is_no_place_is_told_what_to_write(text: str) -> None:
    with pytest.raises(SpecError, match=r"expected a partition and an offset, e.g. 3:120"):
        Place.parse(text)


def test_places_and_filters_exclude_each_other() -> None:
    assert chosen_places(["1:2", "1:2", "0:1"], Selection()) == [Place(1, 2), Place(0, 1)]
    with pytest.raises(SpecError, match="either places or"):
        chosen_places(["1:2"], Selection(kind="late"))


def test_a_wrong_length_of_time_is_told_what_to_write() -> None:
    with pytest.raises(SpecError, match=r'--since.*\n.*"soon": expected a duration, e.g. "30 minutes"'):
        chosen(None, "", "soon")


@pytest.mark.parametrize(
    ("selection", "taken"),
    [
        (Selection(), True),
        (Selection(kind="rejected"), True),
        (Selection(kind="late"), False),
        (Selection(reason="EXPECTED ':'"), True),
        (Selection(reason="price"), False),
        (Selection(since_ms=1_000), True),
        (Selection(since_ms=1_001), False),
        (Selection(kind="rejected", reason="malformed", since_ms=2_000), False),
    ],
)
def test_a_selection_takes_what_fits_all_of_it(selection: Selection, taken: bool) -> None:
    assert selection.takes(LETTER) is taken


@pytest.mark.parametrize(
    ("reason", "group"),
    [
        ("malformed: ends too early, at byte 57", "malformed: ends too early, at byte N"),
        ("late: 61234 ms behind the clock, 32000 allowed", "late: N ms behind the clock, N allowed"),
        ("malformed: n: -1.5e300 does not fit int, at byte 3", "malformed: n: N does not fit int, at byte N"),
        ("malformed: tags['a b']: not UTF-8, at byte 1", "malformed: tags['…']: not UTF-8, at byte N"),
        ("required: col1 is missing", "required: col1 is missing"),
        ("malformed: expected '{', got 'G', at byte 0", "malformed: expected '{', got 'G', at byte N"),
    ],
)
def test_reasons_that_differ_by_a_records_own_values_are_counted_together(reason: str, group: str) -> None:
    assert reason_group(reason) == group


letters = st.builds(
    lambda at_ms, place, kind, byte: replace(
        LETTER, at_ms=at_ms, place=place, kind=kind, reason=f"{kind} at {byte}"
    ),
    st.integers(0, 50),
    st.builds(Place, st.integers(0, 3), st.integers(0, 1_000)),
    st.sampled_from(["rejected", "late"]),
    st.integers(0, 9),
)


@given(st.lists(letters, unique_by=lambda letter: letter.place), st.integers(0, 8))
def test_a_summary_counts_all_and_keeps_the_newest(found: list[Letter], limit: int) -> None:
    summary = Summary(newest_count=limit)
    for letter in found:
        summary.add(letter)
    assert summary.total == len(found)
    assert summary.first_ms == min((letter.at_ms for letter in found), default=None)
    assert summary.last_ms == max((letter.at_ms for letter in found), default=None)
    assert summary.groups == Counter((letter.kind, f"{letter.kind} at N") for letter in found)
    newest_first = sorted(found, key=lambda letter: (letter.at_ms, letter.place), reverse=True)
    assert summary.newest == newest_first[:limit]


def test_a_summary_of_endless_reasons_stays_small_and_counts_them_all() -> None:
    summary = Summary(newest_count=1)
    for number in range(5_000):
        summary.add(replace(LETTER, reason=f"x{number}y", place=Place(0, number)))
    assert len(summary.groups) < 300
    assert summary.groups["rejected", OTHER] > 4_000
    assert sum(summary.groups.values()) == 5_000


def test_two_letters_of_one_record_bear_one_mark() -> None:
    again = replace(LETTER, place=Place(0, 1), at_ms=5, reason="other")
    assert again.mark == LETTER.mark


@pytest.mark.parametrize(
    "other",
    [
        replace(LETTER, origin=Place(5, 100)),
        replace(LETTER, origin=Place(4, 99)),
        replace(LETTER, source="other"),
        replace(LETTER, value=b"the topic was made anew"),
    ],
)
def test_letters_of_different_records_bear_different_marks(other: Letter) -> None:
    assert other.mark != LETTER.mark


def test_the_caret_stands_under_the_byte_that_the_reason_names() -> None:
    at = byte_named(LETTER.reason)
    assert at == 7
    assert caret(LETTER.value, at) == ('{"user"}', "       ^")


def test_a_reason_without_a_byte_names_none() -> None:
    assert byte_named("late: 61234 ms behind the clock, 32000 allowed") is None
    assert byte_named("malformed: 'x, at byte 5' does not fit int") is None


def test_the_caret_of_a_record_that_ends_too_early_stands_after_its_end() -> None:
    assert caret(b'{"a":', 5) == ('{"a":', "     ^")
    assert caret(b"", 0) == ("", "^")
    assert caret(None, 0) == ("", "^")


def test_a_byte_that_is_no_text_is_shown_and_pointed_at() -> None:
    text, pointer = caret(b'{"a":"\xff"}', 6)
    assert text == '{"a":"�"}'
    assert pointer == "      ^"


def test_of_a_long_record_the_surroundings_of_the_byte_are_shown() -> None:
    value = b"a" * 1_000 + b"!" + b"b" * 1_000
    text, pointer = caret(value, 1_000)
    assert text[pointer.index("^")] == "!"
    assert len(text) < 100
    assert text.startswith("…a")
    assert text.endswith("b…")


@given(st.text(max_size=200), st.data())
def test_the_caret_is_under_its_character_whatever_stands_before_it(text: str, data: st.DataObject) -> None:
    value = text.encode()
    at = data.draw(st.integers(0, len(text)))
    shown, pointer = caret(value, len(text[:at].encode()))
    column = len(pointer) - 1
    # The rest of the line, from the caret's column on, begins with the character.
    rest = next(shown[cut:] for cut in range(len(shown) + 1) if cell_len(shown[:cut]) >= column)
    first = visible(text[at : at + 1])
    assert rest.lstrip("\u200d").startswith(first) or cell_len(first) == 0
    assert shown.isprintable()


def test_json_is_shown_over_several_lines() -> None:
    assert (
        lines(b'{"a":[1,"\xc3\xa9"]}')
        == json.dumps({"a": [1, "é"]}, indent=2, ensure_ascii=False).splitlines()
    )


def test_text_that_is_not_json_is_shown_as_it_is() -> None:
    assert lines(b"GET /events/7 HTTP/1.1") == ["GET /events/7 HTTP/1.1"]


def test_an_empty_record_and_one_without_a_value_are_told_apart() -> None:
    assert (lines(b""), lines(None)) == (["(empty)"], ["(no value)"])
    assert snippet(None) == "(no value)"


def test_brackets_nested_without_end_are_shown_as_text() -> None:
    value = b"[" * 200_000
    assert lines(value) == [value.decode()]


def test_bytes_that_are_no_text_are_shown_in_hex() -> None:
    assert lines(b"\x00\x01ab\xff")[0] == "00000000  00 01 61 62 ff" + " " * 35 + "..ab."


@given(st.binary(min_size=1, max_size=100))
def test_a_hex_dump_holds_every_byte(value: bytes) -> None:
    dumped = [re.fullmatch(r"([0-9a-f]{8})  (.{47})  .+", row) for row in hex_dump(value)]
    assert all(dumped)
    assert b"".join(bytes.fromhex(row[2]) for row in dumped if row) == value


@given(st.binary(max_size=400))
def test_nothing_that_a_terminal_obeys_is_ever_shown(value: bytes) -> None:
    shown = [snippet(value), *lines(value), *caret(value, len(value) // 2)]
    assert all(line.isprintable() for line in shown)


@given(st.lists(st.integers(0, 100_000), unique=True))
def test_stretches_hold_every_offset_and_skip_wide_gaps(offsets: list[int]) -> None:
    found = stretches(sorted(offsets))
    assert all(sum(offset in stretch for stretch in found) == 1 for offset in offsets)
    assert all(after.start - before.stop >= 2_000 for before, after in pairwise(found))
    assert all(stretch.start in offsets and stretch.stop - 1 in offsets for stretch in found)


def test_a_replayed_record_is_the_original_with_the_way_it_came_and_in_its_partition() -> None:
    original = Original(b"u1", (("trace", b"x"), ("penstock-replayed", b"dead-letters/0/1")))
    message = message_of(LETTER, original, range(8))
    assert (message["key"], message["value"], message["partition"]) == (b"u1", LETTER.value, 5)
    came = [value for name, value in message["headers"] if name == "penstock-replayed"]
    assert came == [b"dead-letters/0/1", b"dead-letters/3/120"]
    assert ("trace", b"x") in message["headers"]


def test_a_record_whose_original_is_gone_goes_to_its_partition_all_the_same() -> None:
    message = message_of(LETTER, None, range(8))
    assert (message["key"], message["partition"]) == (None, 5)
    assert "partition" not in message_of(LETTER, None, range(4))


def test_pages_are_bounded_in_number_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "_PAGE_RECORDS", 3)
    monkeypatch.setattr(replaying, "_PAGE_BYTES", 100)
    large = replace(LETTER, value=b"x" * 99)
    assert [len(page) for page in pages([LETTER] * 7)] == [3, 3, 1]
    assert [len(page) for page in pages([large] * 3)] == [2, 1]
    assert list(pages([])) == []


def test_the_sink_of_dead_letters_is_found_or_asked_for() -> None:
    one = {"kind": "kafka", "topic": "refused", "rows": ["rejected"]}
    other = {"kind": "kafka", "topic": "too-late", "rows": ["late"]}
    assert letter_sink(clickstream(one)).topic == "refused"
    assert letter_sink(clickstream(one, other), "too-late").topic == "too-late"
    with pytest.raises(SpecError, match=r"several sinks .* --sink \(refused, too-late\)"):
        letter_sink(clickstream(one, other))
    with pytest.raises(SpecError, match=r'"sessions": no sink of this name .* \(there are: refused\)'):
        letter_sink(clickstream(one), "sessions")
    with pytest.raises(SpecError, match="no sink keeps dead letters; add one"):
        letter_sink(clickstream())
