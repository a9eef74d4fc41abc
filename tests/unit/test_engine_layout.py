"""What of a spec may change on a checkpoint, and what may not."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.layout import StateLayout
from penstock.errors import StateMismatch
from penstock.paths import shipped
from penstock.spec import PipelineSpec, load
from tests.unit.test_spec_checks import EVENTS, WINDOWS

CLICKSTREAM = load(shipped("pipelines") / "clickstream.toml", environ={}).model_dump(
    mode="json", by_alias=True, exclude_none=True
)
AS_TYPED = {"count": "bigint", "sum": "double", "distinct": "string"}


def state_of(base: dict[str, Any], **changes: Any) -> StateLayout:
    """The layout of a pipeline with other values; a key has __ for the dots, None takes it out."""
    given_ = copy.deepcopy(base)
    for path, value in changes.items():
        here = given_
        *steps, last = path.split("__")
        for step in steps:
            here = here.setdefault(step, {})
        if value is None:
            del here[last]
        else:
            here[last] = value
    spec = PipelineSpec(**given_)
    measures = spec.grouping.measures if spec.grouping else ()
    return StateLayout.of(spec, [[m.name, m.function, AS_TYPED.get(m.function, "string")] for m in measures])


@pytest.mark.parametrize(
    ("base", "changes", "told"),
    [
        (CLICKSTREAM, {"engine": "plain"}, "engine was kernel, is plain"),
        (CLICKSTREAM, {"source__topic": "taps"}, "source.topic was clicks, is taps"),
        (CLICKSTREAM, {"sessions__key": "product_id"}, "sessions.key was user_id, is product_id"),
        (CLICKSTREAM, {"sessions__partitions": 8}, "sessions.partitions was 4, is 8"),
        (
            CLICKSTREAM,
            {"sessions__measures__top_price": "sum(price)"},
            "measure top_price was a max of string, is a sum of double",
        ),
        (WINDOWS, {"windows__key": "id"}, "windows.key was account, is id"),
        (WINDOWS, {"windows__partitions": 8}, "windows.partitions was 4, is 8"),
        (
            WINDOWS,
            {"windows__size": "2 minutes"},
            "windows.size was 1 minute, is 2 minutes",
        ),
        (WINDOWS, {"windows__slide": "20 seconds"}, "windows.slide was 10 seconds, is 20 seconds"),
        (WINDOWS, {"windows__slide": None}, "windows.slide was 10 seconds, is 1 minute"),
        (EVENTS, {"source__topic": "taps"}, "source.topic was payments, is taps"),
    ],
)
def test_what_state_depends_on_is_refused_with_what_changed_and_nothing_else(
    base: dict[str, Any], changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(StateMismatch) as caught:
        state_of(base).changed_to(state_of(base, **changes))
    assert caught.value.message == f"the state of this checkpoint does not fit the spec: {told}"
    assert "another name" in caught.value.hint


def test_all_that_does_not_fit_is_told_at_once() -> None:
    wanted = state_of(CLICKSTREAM, sessions__key="product_id", sessions__partitions=8, engine="plain")
    with pytest.raises(StateMismatch) as caught:
        state_of(CLICKSTREAM).changed_to(wanted)
    assert caught.value.message.count(" was ") == 3


def test_sessions_cannot_become_windows_on_one_checkpoint() -> None:
    windows = {"key": "user_id", "size": "1 minute", "measures": CLICKSTREAM["sessions"]["measures"]}
    wanted = state_of(CLICKSTREAM, sessions=None, windows=windows)
    with pytest.raises(StateMismatch, match=r"sessions\.key was user_id, is absent") as caught:
        state_of(CLICKSTREAM).changed_to(wanted)
    assert "windows.size was absent, is 1 minute" in caught.value.message


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        (CLICKSTREAM, {"sessions__gap": "10 seconds"}),
        (CLICKSTREAM, {"sessions__lateness": "1 second"}),
        (CLICKSTREAM, {"sessions__out_of_order": "1 second"}),
        (CLICKSTREAM, {"sessions__idle": "1 second"}),
        (CLICKSTREAM, {"sessions__max_length": "1 day"}),
        (CLICKSTREAM, {"cleanse__where__cheap": "price < 9"}),
        (CLICKSTREAM, {"cleanse__dedupe": {"on": "event_id", "within": "1 minute"}}),
        (CLICKSTREAM, {"enrich": CLICKSTREAM["enrich"][::-1]}),
        (CLICKSTREAM, {"source__max_batch": 10}),
        (CLICKSTREAM, {"trigger": "1 second"}),
        (WINDOWS, {"windows__lateness": "1 second"}),
        (WINDOWS, {"cleanse__dedupe__within": "1 hour"}),
        (EVENTS, {"cleanse__where": {}}),
    ],
)
def test_what_state_does_not_depend_on_may_change(base: dict[str, Any], changes: dict[str, Any]) -> None:
    have, wanted = state_of(base), state_of(base, **changes)
    assert have.changed_to(wanted) == (have, [])


def test_a_window_that_slides_by_its_size_is_the_one_that_does_not_slide() -> None:
    have = state_of(WINDOWS, windows__slide=None)
    assert have.changed_to(state_of(WINDOWS, windows__slide="1 minute")) == (have, [])


def test_a_person_is_told_what_a_change_of_measures_means() -> None:
    wanted = state_of(
        CLICKSTREAM,
        sessions__measures__pages="distinct(page)",
        sessions__measures__first_page=None,
        sessions__measures__last_page="last(lower(page))",
    )
    have = state_of(CLICKSTREAM)
    layout, news = have.changed_to(wanted)
    assert news == [
        "measure last_page changed from last(page) to last(lower(page)): what is open now holds both",
        "new measure pages: what is open now has it from here on",
        "measure first_page is gone",
    ]
    assert layout.layouts == [have.layouts[0], wanted.layouts[0]]
    assert layout.measures == wanted.measures


def test_measures_in_another_order_are_another_layout() -> None:
    """State holds them by their place."""
    measures = CLICKSTREAM["sessions"]["measures"]
    turned = state_of(CLICKSTREAM, sessions__measures=dict(reversed(measures.items())))
    layout, news = state_of(CLICKSTREAM).changed_to(turned)
    assert layout.layouts == [state_of(CLICKSTREAM).layouts[0], turned.layouts[0]]
    assert news == []


def test_a_measure_that_comes_back_must_be_what_it_was() -> None:
    """Keys that slept may still have it in their state."""
    have = state_of(CLICKSTREAM)
    without, _ = have.changed_to(state_of(CLICKSTREAM, sessions__measures__top_price=None))
    back, _ = without.changed_to(have)
    assert len(back.layouts) == 3
    other = state_of(CLICKSTREAM, sessions__measures__top_price="sum(price)")
    with pytest.raises(StateMismatch, match="measure top_price was a max of string, is a sum of double"):
        without.changed_to(other)


def test_measures_can_be_changed_as_often_as_one_byte_can_count() -> None:
    one = state_of(CLICKSTREAM)
    other = state_of(CLICKSTREAM, sessions__measures__top_price=None)
    layout, changes = one, 0
    while len(layout.layouts) < 120:
        layout, _ = layout.changed_to([other, one][changes % 2])
        changes += 1
    assert changes == 119
    present, next_ = [one, other] if layout.layouts[-1] == one.layouts[0] else [other, one]
    assert layout.changed_to(present)[0] == layout
    with pytest.raises(StateMismatch, match="its measures were changed 120 times"):
        layout.changed_to(next_)


@pytest.mark.parametrize("base", [CLICKSTREAM, WINDOWS, EVENTS], ids=["sessions", "windows", "events"])
def test_a_layout_comes_back_from_its_file(tmp_path: Path, base: dict[str, Any]) -> None:
    file = tmp_path / "state-layout.json"
    assert StateLayout.read(file) is None
    state_of(base).write(file)
    assert StateLayout.read(file) == state_of(base)
    assert [path.name for path in tmp_path.iterdir()] == ["state-layout.json"]


def test_new_sinks_are_those_that_have_never_had_a_batch() -> None:
    have = replace(state_of(CLICKSTREAM), sinks=["sessions", "gone"])
    assert have.new_sinks(state_of(CLICKSTREAM)) == ["sessions_live", "sessions_table", "dead-letters"]
    assert have.changed_to(state_of(CLICKSTREAM))[0].sinks == ["sessions", "gone"]


def slotted(**writers: int) -> StateLayout:
    """The layout of a pipeline with such sinks of events, and one that the driver writes."""
    sink = {"kind": "postgres", "rows": "events", "key": "id", "columns": ["id"]}
    sinks = [{**sink, "table": name, "writers": count} for name, count in writers.items()]
    return state_of(EVENTS, sink=[*EVENTS["sink"], *sinks])


@pytest.mark.parametrize(("was", "now"), [(1, 4), (4, 1), (2, 4)])
def test_a_sink_keeps_its_number_of_writers(was: int, now: int) -> None:
    with pytest.raises(StateMismatch) as caught:
        slotted(payments=was).changed_to(slotted(payments=now))
    assert f"sink payments: writers was {was}, is {now}" in caught.value.message
    assert "be there twice" in caught.value.message
    assert "another name" in caught.value.hint


def test_a_sink_that_is_new_or_comes_back_has_the_writers_that_it_is_given() -> None:
    state, _ = slotted().changed_to(slotted(payments=4))
    assert state.writers["payments"] == 4
    state = replace(state, sinks=["enriched", "payments"])
    gone, _ = state.changed_to(slotted())
    with pytest.raises(StateMismatch):
        gone.changed_to(slotted(payments=2))  # no batch was written without it
    back, _ = replace(gone, sinks=["enriched"]).changed_to(slotted(payments=2))
    assert back.writers["payments"] == 2


def test_a_layout_from_before_there_were_writers_has_one_for_each_sink(tmp_path: Path) -> None:
    file = tmp_path / "state-layout.json"
    slotted(payments=1).write(file)
    written = json.loads(file.read_text())
    del written["writers"]
    file.write_text(json.dumps(written))
    found = StateLayout.read(file)
    assert found is not None
    assert found.changed_to(slotted(payments=1))[1] == []
    with pytest.raises(StateMismatch, match="writers was 1, is 4"):
        found.changed_to(slotted(payments=4))


NAMES = st.sampled_from(["a", "b", "c", "d"])
MEASURES = st.dictionaries(NAMES, st.sampled_from(["sum", "max"]), min_size=1)


@settings(deadline=None)
@given(st.lists(MEASURES, min_size=2, max_size=8))
def test_however_measures_change_state_of_any_age_can_be_read(versions: list[dict[str, str]]) -> None:
    """Each layout keeps its place, the last is the present one, and a name means the same in all of them."""

    def layout(measures: dict[str, str]) -> StateLayout:
        texts = {name: f"{function}(x)" for name, function in measures.items()}
        return StateLayout({}, [[[name, f, "double"] for name, f in measures.items()]], texts, [])

    state = layout(versions[0])
    for version in versions[1:]:
        before, wanted = state.layouts, layout(version)
        ever = {(name, function) for past in before for name, function, _ in past}
        fits = all((name, function) in ever or name not in dict(ever) for name, function in version.items())
        if not fits:
            with pytest.raises(StateMismatch):
                state.changed_to(wanted)
            continue
        state, news = state.changed_to(wanted)
        assert state.layouts[: len(before)] == before
        assert state.layouts[-1] == wanted.layouts[0]
        assert len(state.layouts) - len(before) == (before[-1] != wanted.layouts[0])
        assert state.measures == wanted.measures
        assert bool(news) <= (before[-1] != wanted.layouts[0])
    meanings = {(name, function) for past in state.layouts for name, function, _ in past}
    assert len(meanings) == len({name for name, _ in meanings})
