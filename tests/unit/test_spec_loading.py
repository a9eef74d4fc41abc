"""Reading, overriding and writing a description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock.spec
from penstock.errors import SpecError
from penstock.paths import shipped
from penstock.spec import Column, Duration, Measure, PipelineSpec, load, reference, to_toml

CLICKSTREAM = shipped("pipelines") / "clickstream.toml"


def clickstream(
    environ: dict[str, str] | None = None, overrides: dict[str, str] | None = None
) -> PipelineSpec:
    return load(CLICKSTREAM, environ=environ or {}, overrides=overrides)


def test_the_shipped_pipeline_is_read() -> None:
    spec = clickstream()
    assert spec.source.columns[2] == Column("seq", "bigint")
    assert spec.source.ddl.startswith("event_id string, producer string, seq bigint")
    assert spec.source.max_batch == 200_000
    assert spec.sessions.gap == Duration.parse("30 minutes")
    assert spec.sessions.measures[0] == Measure("events", "count", None)
    assert spec.sessions.measures[3] == Measure("first_page", "first", "page")
    assert [sink.name for sink in spec.sink] == [
        "sessions",
        "sessions_live",
        "sessions_table",
        "dead-letters",
    ]
    assert spec.sink[3].rows == ("rejected", "late")
    assert spec.sink[2].guarantee == "exactly_once"


def test_the_environment_beats_the_file_and_an_override_beats_both() -> None:
    environ = {"PENSTOCK_SESSIONS__GAP": "10 seconds", "PENSTOCK_SERVICES__KAFKA": "broker:9092"}
    spec = clickstream(environ, {"sessions.gap": "5 seconds"})
    assert clickstream(environ).sessions.gap.ms == 10_000
    assert spec.sessions.gap.ms == 5_000
    assert spec.services.kafka == "broker:9092"


@pytest.mark.parametrize(
    "key", ["sink.dead-letters.rows", "sink.3.rows", "sink[3].rows", "sink.dead_letters.rows"]
)
def test_an_item_of_a_list_is_overridden_by_name_or_index(key: str) -> None:
    assert clickstream(overrides={key: "late"}).sink[3].rows == ("late",)


def test_an_item_of_a_list_is_overridden_from_the_environment() -> None:
    spec = clickstream({"PENSTOCK_SINK__DEAD_LETTERS__ROWS": "late", "PENSTOCK_ENRICH__0__PATH": "u.parquet"})
    assert spec.sink[3].rows == ("late",)
    assert spec.enrich[0].path == "u.parquet"


def test_text_from_outside_becomes_numbers_and_lists() -> None:
    spec = clickstream({"PENSTOCK_SOURCE__PARTITIONS": "2", "PENSTOCK_CLEANSE__REQUIRE": "ts, user_id"})
    assert spec.source.partitions == 2
    assert spec.cleanse.require == ("ts", "user_id")


def test_variables_that_are_no_part_of_a_description_are_left_alone() -> None:
    assert clickstream({"PENSTOCK_DATA": "/x", "PENSTOCK_IVY_SETTINGS": "/y", "HOME": "/"}) == clickstream()


@pytest.mark.parametrize(
    ("environ", "overrides", "problem"),
    [
        (
            {"PENSTOCK_SESSIONS__GAP": "soon"},
            {},
            'sessions.gap = "soon": expected a duration, e.g. "30 minutes" (units:'
            " ms, second, minute, hour, day) (from PENSTOCK_SESSIONS__GAP)",
        ),
        (
            {"PENSTOCK_ENGIN": "plain"},
            {},
            'engin = "plain": unknown key; did you mean "engine"? (known: cleanse, engine, enrich, name,'
            " services, sessions, sink, source, trigger) (from PENSTOCK_ENGIN)",
        ),
        (
            {"PENSTOCK_CLEANSE__REQUIRE": "ts, usr_id"},
            {},
            'cleanse.require[1] = "usr_id": no such column; did you mean "user_id"?'
            " (from PENSTOCK_CLEANSE__REQUIRE)",
        ),
        (
            {},
            {"enrich.user.path": "x"},
            "enrich: no item 'user'; did you mean \"users\"? (there are 2: users, catalogue)"
            " (from the override enrich.user.path)",
        ),
        (
            {},
            {"sessions.gap.ms": "5"},
            "sessions.gap = \"30 minutes\": has no key 'ms' to set (from the override sessions.gap.ms)",
        ),
    ],
)
def test_a_wrong_value_from_outside_says_where_it_came_from(
    environ: dict[str, str], overrides: dict[str, str], problem: str
) -> None:
    with pytest.raises(SpecError) as caught:
        clickstream(environ, overrides)
    assert caught.value.problems == [problem]


def test_a_missing_file_is_told_with_the_nearest_one() -> None:
    with pytest.raises(SpecError, match=r'no such file; did you mean "clickstream.toml"\?'):
        load(CLICKSTREAM.with_name("clickstraem.toml"), environ={})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'name = "x"\ntopic = \n', r"not TOML: .*line 2, column 9"),
        (b"name = 1\nname = 2\n", r"not TOML: .*line 2"),
        (b"\xff", r"not TOML: byte 0 is not UTF-8"),
    ],
)
def test_a_file_that_is_not_toml_is_told_with_the_place(tmp_path: Path, content: bytes, problem: str) -> None:
    file = tmp_path / "p.toml"
    file.write_bytes(content)
    with pytest.raises(SpecError, match=problem):
        load(file, environ={})


def test_a_description_is_the_same_after_writing_and_reading(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(to_toml(clickstream()))
    assert load(file, environ={}) == clickstream()


@given(
    path=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    word=st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="'\\")),
    gap=st.integers(min_value=1, max_value=10**12),
    rows=st.sampled_from([["final", "live"], ["rejected", "late"]]).flatmap(
        lambda kinds: st.lists(st.sampled_from(kinds), min_size=1, unique=True)
    ),
    kept=st.lists(st.integers(0, 8), min_size=1, unique=True),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_description_is_the_same_after_writing_and_reading(
    tmp_path: Path, path: str, word: str, gap: int, rows: list[str], kept: list[int]
) -> None:
    base = clickstream()
    given_: dict[str, Any] = base.model_dump(by_alias=True)
    given_["enrich"][0]["path"] = path
    given_["cleanse"]["where"] = f"page <> '{word}'"
    given_["sessions"]["gap"] = Duration(gap)
    given_["sessions"]["measures"] = tuple(base.sessions.measures[index] for index in kept)
    given_["sink"][0]["rows"] = rows
    spec = PipelineSpec(**given_)
    file = tmp_path / "p.toml"
    file.write_bytes(to_toml(spec).encode())
    again = load(file, environ={})
    assert again == spec


def test_only_the_columns_that_are_read_are_used() -> None:
    spec = clickstream()
    assert spec.used_columns() == [
        "event_id", "user_id", "event_type", "product_id", "page", "price", "ts", "created_ms"
    ]  # fmt: skip
    given_ = spec.model_dump(by_alias=True)
    given_ |= {
        "cleanse": {},
        "enrich": [],
        "sessions": {"key": "producer", "gap": "1 s", "measures": {"n": "count(*)"}},
    }
    del given_["source"]["created"]
    assert PipelineSpec(**given_).used_columns() == ["producer", "user_id", "ts"]


def test_the_reference_tells_every_key_with_its_default_and_an_example() -> None:
    text = reference()
    assert "gap (duration; required)\n    A session ends after this long without an event.\n" in text
    assert "rows (list of final | live | rejected | late; default: final)" in text
    assert "max_batch (whole number; default: 200,000)" in text
    for header in (
        "[source]",
        "[cleanse]",
        "[[enrich]]",
        "[sessions]",
        '[[sink]] kind = "kafka"',
        "[services]",
    ):
        assert f"\n## {header}\n" in text
    blocks = [block for block in text.split("\n\n") if "    e.g. " in block or "; required)" in block]
    assert all(block.count("\n    ") >= 2 and "    e.g. " in block for block in blocks)
    assert len(blocks) >= 35


def test_a_description_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        clickstream().sessions.key = "page"


def test_the_public_names_are_few() -> None:
    sections = {
        "Source",
        "Cleanse",
        "Enrich",
        "Sessions",
        "Sink",
        "KafkaSink",
        "ClickHouseSink",
        "ServiceAddresses",
    }
    values = {"Column", "Measure", "Count", "Duration", "Rate", "Size"}
    assert set(penstock.spec.__all__) == {"PipelineSpec", "load", "reference", "to_toml"} | sections | values
