"""The formats that are compared carry the same clicks."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.bench import formats
from penstock.bench.formats import FIELDS, OPTIONAL, Click, codecs, drawn, in_python, spread
from penstock.errors import PenstockError
from penstock.paths import shipped
from penstock.spec import load

_KINDS = {
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.none() | st.floats(allow_nan=False, allow_infinity=False),
}
CLICKS = st.fixed_dictionaries({name: _KINDS[kind] for name, kind in FIELDS.items()})
CODECS = {codec.format: codec for codec in codecs()}


@pytest.mark.parametrize("name", CODECS)
@settings(max_examples=40, deadline=None)
@given(click=CLICKS)
def test_a_click_comes_back_as_it_was(name: str, click: Click) -> None:
    codec = CODECS[name]
    assert codec.decode(codec.encode(click)) == click


@settings(max_examples=40, deadline=None)
@given(click=CLICKS)
def test_avro_is_framed_as_a_registry_has_it_and_the_cache_changes_no_byte(click: Click) -> None:
    value = CODECS["avro"].encode(click)
    assert value[:5] == bytes([0, 0, 0, 0, formats._SCHEMA_ID])
    assert value == CODECS["avro, no schema cache"].encode(click)


def test_a_record_of_another_framing_is_refused() -> None:
    click = drawn(1)[0]
    with pytest.raises(ValueError, match="expected 0"):
        CODECS["avro"].decode(b"\x01" + CODECS["avro"].encode(click)[1:])


def test_the_fields_are_those_of_the_shipped_schema_and_some_clicks_have_no_price() -> None:
    source = load(shipped("pipelines") / "clickstream.toml", environ={}).source
    assert {column.name: column.type.replace("bigint", "long") for column in source.columns} == dict(FIELDS)
    found = drawn(200)
    assert len(found) == 200
    assert {type(click[OPTIONAL]) for click in found} == {type(None), float}
    assert all(list(click) == list(FIELDS) for click in found)


def test_each_format_has_a_row_and_binary_ones_take_less_room_than_json() -> None:
    sample = drawn(20)
    rows = {row.format: row for row in in_python(list(CODECS.values()), sample, 40, 3)}
    assert list(rows) == list(CODECS)
    assert {row.where for row in rows.values()} == {"python"}
    assert rows["json"].bytes == sum(len(json.dumps(one, separators=(",", ":"))) for one in sample) / 20
    assert rows["protobuf"].bytes < rows["msgpack"].bytes < rows["json"].bytes
    assert all(row.decode_us >= 0 and row.spread >= 0 for row in rows.values())


def test_the_first_round_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    # Encoding, then decoding, in three rounds.
    taken_us = iter([900.0, 800.0, 2.0, 10.0, 4.0, 12.0])
    monkeypatch.setattr(formats, "_each_us", lambda *_: next(taken_us))
    [row] = in_python([formats.JSON], drawn(2), 5, 3)
    assert (row.encode_us, row.decode_us) == (3.0, 11.0)
    assert row.spread == spread([2.0, 4.0]) == pytest.approx(2 / 3)


def test_a_library_that_is_missing_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(PenstockError, match="msgpack is not installed"):
        codecs()
