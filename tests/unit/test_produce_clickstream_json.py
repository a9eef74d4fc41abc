import json
from typing import Any

import numpy as np
import pytest

from penstock.produce.chunk import FATE_OF_FLAW, Fate, Flaw
from penstock.produce.clickstream import EVENT_TYPES, ClickChunk, ClickEncoder, Clicks, ClickstreamPlan
from penstock.produce.wire import Message

PLAN = ClickstreamPlan(users=1_000, products=100, malformed=0.1, invalid=0.1)
NOW_MS = 1_800_000_000_000


@pytest.fixture(scope="module")
def chunk() -> ClickChunk:
    return Clicks(PLAN, "p1", 1_000).chunk(5_000, NOW_MS)


@pytest.fixture(scope="module")
def messages(chunk: ClickChunk) -> list[Message]:
    return ClickEncoder(PLAN, "p1").encode(chunk)


def accepted(event: Any) -> bool:
    """The cleansing of pipelines/clickstream.toml."""
    return (
        event.get("user_id") is not None
        and event["event_type"] in EVENT_TYPES
        and (event.get("price") is None or event["price"] >= 0)
    )


def decoded(value: bytes) -> Any:
    """The event, or None where a decoder must not accept it."""
    try:
        event = json.loads(value)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("ts"), int) else None


def test_a_good_record_says_what_its_columns_say(chunk: ClickChunk, messages: list[Message]) -> None:
    pages = PLAN.pages().to_pylist()
    for row in np.flatnonzero(chunk.flaw == Flaw.NONE).tolist():
        event, seq = json.loads(messages[row]["value"]), int(chunk.seq[row])
        kind, product = int(chunk.kind[row]), int(chunk.product[row])
        cents = int(chunk.price_cents[row])
        assert accepted(event)
        assert messages[row]["key"] == event["user_id"].encode() == b"u%07d" % chunk.user[row]
        assert (event["event_id"], event["producer"], event["seq"]) == (f"p1-{seq}", "p1", seq)
        assert event["event_type"] == EVENT_TYPES[kind]
        assert (event["product_id"], event["page"]) == (f"p{product:05d}", pages[kind * 100 + product])
        assert event.get("price") == (cents / 100 if cents else None)
        assert (event["ts"], event["created_ms"]) == (int(chunk.ts_ms[row]), NOW_MS)


def test_an_absent_price_is_sometimes_null_and_sometimes_left_out(messages: list[Message]) -> None:
    events = [event for message in messages if (event := decoded(message["value"]))]
    unpriced = [event for event in events if event.get("price") is None]
    assert {"price" in event for event in unpriced} == {True, False}


def test_records_have_fields_that_no_schema_names(chunk: ClickChunk, messages: list[Message]) -> None:
    event = json.loads(messages[int(np.flatnonzero(chunk.flaw == Flaw.NONE)[0])]["value"])
    assert {"referrer", "device"} <= event.keys()


def test_a_malformed_record_cannot_be_decoded(chunk: ClickChunk, messages: list[Message]) -> None:
    rows = np.flatnonzero(FATE_OF_FLAW[chunk.flaw] == Fate.MALFORMED).tolist()
    assert len(rows) > 100
    assert [row for row in rows if decoded(messages[row]["value"]) is not None] == []


def test_an_invalid_record_decodes_and_fails_cleansing(chunk: ClickChunk, messages: list[Message]) -> None:
    rows = np.flatnonzero(FATE_OF_FLAW[chunk.flaw] == Fate.INVALID).tolist()
    assert len(rows) > 100
    assert [row for row in rows if accepted(decoded(messages[row]["value"]))] == []


def test_a_record_is_about_230_bytes(chunk: ClickChunk, messages: list[Message]) -> None:
    sizes = [len(messages[row]["value"]) for row in np.flatnonzero(chunk.flaw == Flaw.NONE).tolist()]
    assert 200 < np.mean(sizes) < 260


def test_the_clock_is_a_valid_view_by_a_user_of_its_own() -> None:
    [message] = PLAN.encoder("p9").encode(PLAN.clock_chunk(ts_ms=NOW_MS + 5, created_ms=NOW_MS))
    event = decoded(message["value"])
    assert accepted(event)
    assert (message["key"], event["user_id"], event["event_type"]) == (b"clock", "clock", "view")
    assert (event["ts"], event["created_ms"], event["event_id"]) == (NOW_MS + 5, NOW_MS, "p9-0")
