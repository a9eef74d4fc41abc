"""Sessions as the kernel makes them: which rows come out, when, and that each input row is told of once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.integration.conftest import NewStream
from tests.integration.streams import T0, click, kept_keys, kinds, of_kind

pytestmark = pytest.mark.integration
Rows = list[dict[str, Any]]

# The pipeline under test: gap 10 s, out of order 3 s, lateness 20 s.
CLOCK = 3_000
"""An event at t puts the clock at t - CLOCK, from the next batch on."""


def test_a_session_lives_then_is_final_when_the_clock_passes_its_gap(new_stream: NewStream) -> None:
    first, second, third = new_stream().run(
        [[click("u1", 0), click("u1", 4_000)], [click("u2", 14_000 + CLOCK)], []]
    )[:3]
    assert [(r["kind"], r["session_id"], r["events"]) for r in first] == [("live", f"u1@{T0}", 2)]
    assert kinds(second) == ["live"]
    [final] = of_kind(third, "final")
    assert (final["session_id"], final["end_ms"], final["events"], final["version"]) == (
        f"u1@{T0}",
        T0 + 4_000,
        2,
        2,
    )


def test_two_events_exactly_a_gap_apart_are_one_session_and_a_millisecond_more_makes_two(
    new_stream: NewStream,
) -> None:
    [rows] = new_stream().run([[click("u1", 0), click("u1", 10_000), click("u2", 0), click("u2", 10_001)]])[
        :1
    ]
    assert sorted((r["key"], r["events"]) for r in rows) == [("u1", 2), ("u2", 1), ("u2", 1)]


def test_an_event_between_two_sessions_merges_them_and_retracts_the_absorbed_one(
    new_stream: NewStream,
) -> None:
    first, second = new_stream().run([[click("u1", 0), click("u1", 15_000)], [click("u1", 8_000)]])[:2]
    assert kinds(first) == ["live", "live"]
    [live] = of_kind(second, "live")
    [retracted] = of_kind(second, "retracted")
    assert (live["session_id"], live["events"], live["new_events"]) == (f"u1@{T0}", 3, 1)
    assert (retracted["session_id"], retracted["reason"]) == (f"u1@{T0 + 15_000}", f"merged into u1@{T0}")
    assert retracted["version"] > of_kind(first, "live")[1]["version"]


def test_an_earlier_event_moves_the_start_and_the_old_identity_is_retracted(new_stream: NewStream) -> None:
    _, second = new_stream().run([[click("u1", 5_000)], [click("u1", 4_000)]])[:2]
    assert {(r["kind"], r["session_id"]) for r in second} == {
        ("live", f"u1@{T0 + 4_000}"),
        ("retracted", f"u1@{T0 + 5_000}"),
    }


def test_a_late_event_inside_lateness_corrects_the_session(new_stream: NewStream) -> None:
    batches = new_stream().run(
        [
            [click("u1", 0)],
            [click("u2", 20_000)],
            [click("u2", 21_000)],
            [click("u1", 2_000), click("u2", 22_000)],
        ]
    )
    assert of_kind(batches[2], "final")[0]["events"] == 1
    [corrected] = of_kind(batches[3], "corrected")
    assert (corrected["session_id"], corrected["events"], corrected["is_final"]) == (f"u1@{T0}", 2, True)


def test_an_event_that_reopens_a_final_session_gives_a_corrected_row_when_it_closes_again(
    new_stream: NewStream,
) -> None:
    clock = [[click("u2", at)] for at in (14_000, 14_001, 40_000, 41_000)]
    batches = new_stream().run([[click("u1", 0)], *clock[:2], [click("u1", 9_000)], *clock[2:]])
    assert of_kind(batches[2], "final")[0]["session_id"] == f"u1@{T0}"
    assert kinds(batches[3]) == ["live"]
    corrected = [row for batch in batches for row in of_kind(batch, "corrected")]
    assert [(r["session_id"], r["events"], r["end_ms"]) for r in corrected] == [(f"u1@{T0}", 2, T0 + 9_000)]


def test_an_event_beyond_lateness_leaves_by_the_side_door_and_says_how_late_it_is(
    new_stream: NewStream,
) -> None:
    batches = new_stream().run([[click("u1", 60_000)], [click("u1", 0)]])
    [late] = of_kind(batches[1], "late")
    assert (late["ts"], late["partition"], late["offset"]) == (T0, 0, 1)
    assert late["reason"] == "late: 57000 ms behind the clock, 30000 allowed"


def test_an_old_event_that_reaches_a_kept_session_is_not_late(new_stream: NewStream) -> None:
    clock = [[click("u2", at)] for at in (34_000, 34_001)]
    batches = new_stream().run([[click("u1", 0), click("u1", 9_000)], *clock, [click("u1", -5_000)]])
    assert not [row for batch in batches for row in of_kind(batch, "late")]
    assert of_kind(batches[3], "corrected")[0]["events"] == 3


def test_a_rejected_record_keeps_its_bytes_and_never_moves_the_clock(new_stream: NewStream) -> None:
    far = click("u1", 200_000, event_type="unknown")
    batches = new_stream().run([[click("u1", 0)], [far, b"{", None, b""], [click("u1", 5_000)]])
    rejected = of_kind(batches[1], "rejected")
    assert sorted((r["offset"], r["raw"]) for r in rejected) == [(1, far), (2, b"{"), (3, None), (4, b"")]
    assert of_kind(batches[2], "live")[0]["events"] == 2


def test_a_timestamp_from_the_future_is_rejected_and_closes_nothing(new_stream: NewStream) -> None:
    hour_and_more = 3_600_000 + 300_001  # the broker's clock stands an hour after T0, 5 minutes are allowed
    batches = new_stream().run([[click("u1", 0)], [click("u2", hour_and_more)], [click("u1", 1_000)]])
    assert of_kind(batches[1], "rejected")[0]["reason"].startswith("future: ts is 300001 ms ahead")
    assert of_kind(batches[2], "live")[0]["events"] == 2


def test_measures_pass_over_nulls_and_go_by_event_time_not_arrival(new_stream: NewStream) -> None:
    purchase = {"event_type": "purchase", "price": 5.5}
    [rows] = new_stream().run(
        [[click("u1", 2_000), click("u1", 1_000, **purchase), click("u1", 0, page=None)]]
    )[:1]
    [live] = rows
    assert (live["first_page"], live["last_page"], live["revenue"], live["top_price"]) == (
        "/1000",
        "/2000",
        5.5,
        5.5,
    )


def test_a_restart_goes_on_with_the_sessions_that_were_open(new_stream: NewStream) -> None:
    stream = new_stream()
    stream.run([[click("u1", 0)]])
    [rows] = stream.run([[click("u1", 5_000)]])[:1]
    assert (rows[0]["events"], rows[0]["version"]) == (2, 2)


@pytest.mark.parametrize("seed", range(3))
def test_the_kernel_agrees_with_its_twin_and_tells_of_every_record_once(
    new_stream: NewStream, seed: int
) -> None:
    """Random clicks, disorder within bounds, random batches: final sessions equal session_window's."""
    chance = random.Random(seed)
    events: list[bytes] = []
    now = 0
    for _ in range(400):
        now += chance.choice((50, 300, 1_500))
        user = f"u{chance.randrange(25)}"
        at = max(0, now - chance.choice((0, 0, 0, chance.randrange(3_000))))
        fields = (
            {"event_type": "purchase", "price": chance.randrange(1, 9_999) / 100}
            if chance.random() < 0.2
            else {}
        )
        events.append(click(user, at, page=f"/{len(events)}", **fields))
    no_utf8 = click("u1", now, page="/x").replace(b"/x", b"/\xff\xc0")
    bad = [b"not json", no_utf8, click(None, now), click("u1", now, event_type="?")]
    chance.shuffle(bad)
    events += bad
    batches: list[list[bytes]] = []
    while events:
        size = chance.randrange(1, 120)
        batches.append(events[:size])
        events = events[size:]
    batches.append([click("clock", now + 20_000)])

    kernel = new_stream("kernel").run(batches)
    plain = new_stream("plain").run(batches)
    told = [row for batch in kernel for row in batch]
    assert sum(row["new_events"] for row in told) + len(of_kind(told, "rejected")) == sum(map(len, batches))
    assert _finals(kernel) == _finals(plain)
    assert len(_finals(kernel)) > 25


def _finals(batches: list[Rows]) -> dict[str, tuple[Any, ...]]:
    names = (
        "end_ms",
        "events",
        "purchases",
        "revenue",
        "first_page",
        "last_page",
        "segment",
        "country",
        "top_price",
    )
    rows = [row for batch in batches for row in of_kind(batch, "final")]
    return {row["session_id"]: tuple(_rounded(row[name]) for name in names) for row in rows}


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def test_all_state_is_gone_when_all_sessions_are(new_stream: NewStream) -> None:
    stream = new_stream()
    stream.run([[click(f"u{i}", 0) for i in range(50)], [click("clock", 100_000)], [click("clock", 200_000)]])
    assert kept_keys(stream.spark, stream.data.checkpoints / stream.spec.name) == ["clock"]


def test_a_session_that_ends_as_the_lateness_of_others_does_is_not_forgotten(
    new_stream: NewStream,
) -> None:
    """Its next time falls among theirs, which are taken at the very moment that it is noted."""
    others = [click(f"u{i}", 600) for i in range(300)]
    clock = [[click("clock", at + CLOCK)] for at in (10_700, 30_700, 100_000, 200_000)]
    stream = new_stream()
    batches = stream.run([[*others, click("waiting", 800)], *clock])
    assert {row["key"] for row in of_kind(batches[3], "final")} == {"clock", "waiting"}
    assert kept_keys(stream.spark, stream.data.checkpoints / stream.spec.name) == ["clock"]
