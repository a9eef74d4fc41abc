"""Reading, overriding and writing a description."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import penstock.spec
from penstock.errors import SpecError
from penstock.paths import shipped
from penstock.spec import Column, Duration, Measure, PipelineSpec, Sessions, Tier, load, reference, to_toml
from tests.unit.test_spec_checks import EVENTS, WINDOWS

CLICKSTREAM = shipped("pipelines") / "clickstream.toml"


def clickstream(
    environ: dict[str, str] | None = None, overrides: dict[str, str] | None = None
) -> PipelineSpec:
    return load(CLICKSTREAM, environ=environ or {}, overrides=overrides)


def sessions(spec: PipelineSpec) -> Sessions:
    assert spec.sessions is not None
    return spec.sessions


def test_the_shipped_pipeline_is_read() -> None:
    spec = clickstream()
    assert spec.source.columns[2] == Column("seq", "bigint")
    assert spec.source.ddl.startswith("event_id string, producer string, seq bigint")
    assert spec.source.max_batch == 200_000
    assert sessions(spec).gap == Duration.parse("30 minutes")
    assert sessions(spec).measures[0] == Measure("events", "count", None)
    assert sessions(spec).measures[3] == Measure("first_page", "first", "page")
    assert spec.grouping is spec.sessions
    assert spec.cleanse.where["price_not_negative"] == "price IS NULL OR price >= 0"
    assert [sink.name for sink in spec.sink] == [
        "sessions",
        "sessions_live",
        "sessions_table",
        "dead-letters",
    ]
    assert spec.sink[3].rows == ("rejected", "late", "refused")
    assert spec.sink[2].guarantee == "exactly_once"


def test_the_environment_beats_the_file_and_an_override_beats_both() -> None:
    environ = {"PENSTOCK_SESSIONS__GAP": "10 seconds", "PENSTOCK_SERVICES__KAFKA": "broker:9092"}
    spec = clickstream(environ, {"sessions.gap": "5 seconds"})
    assert sessions(clickstream(environ)).gap.ms == 10_000
    assert sessions(spec).gap.ms == 5_000
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


def test_a_section_that_the_file_lacks_is_made_from_outside() -> None:
    environ = {"PENSTOCK_CLEANSE__WHERE__CHEAP": "price < 9", "PENSTOCK_CLEANSE__DEDUPE__ON": "event_id"}
    overrides = {"cleanse.dedupe.within": "1 minute", "enrich.users.default.segment": "unknown"}
    spec = clickstream(environ, overrides)
    assert list(spec.cleanse.where) == ["known_type", "price_not_negative", "cheap"]
    assert spec.cleanse.dedupe is not None
    assert (spec.cleanse.dedupe.on, spec.cleanse.dedupe.within.ms) == ("event_id", 60_000)
    assert spec.enrich[0].default == {"segment": "unknown"}


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
            " services, sessions, sink, source, trigger, windows) (from PENSTOCK_ENGIN)",
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


@pytest.mark.parametrize(
    "spec",
    [clickstream(), PipelineSpec(**WINDOWS), PipelineSpec(**EVENTS)],
    ids=["sessions", "windows", "events"],
)
def test_a_description_is_the_same_after_writing_and_reading(tmp_path: Path, spec: PipelineSpec) -> None:
    file = tmp_path / "p.toml"
    file.write_text(to_toml(spec))
    assert load(file, environ={}) == spec


def test_only_the_sections_that_a_description_has_are_written() -> None:
    assert "[sessions" not in to_toml(PipelineSpec(**WINDOWS))
    assert not {"[sessions]", "[windows]", "[cleanse.dedupe]"} & set(
        to_toml(PipelineSpec(**EVENTS)).splitlines()
    )
    assert "\n[cleanse.dedupe]\n" in to_toml(PipelineSpec(**WINDOWS))
    assert "\n[enrich.default]\n" in to_toml(PipelineSpec(**WINDOWS))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(
    taken=st.dictionaries(
        TEXT.filter(
            lambda name: name.lower() not in ("id", "account", "amount", "note", "batch", "kind", "ts")
        ),
        TEXT
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.booleans(),
        min_size=1,
        max_size=4,
    ),
    size=st.integers(1, 10**6),
    windows_each=st.integers(1, 50),
    within=st.integers(1, 10**12),
    query=TEXT,
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_windows_lookup_and_dedupe_are_the_same_after_writing_and_reading(
    tmp_path: Path,
    taken: dict[str, str | int | float | bool],
    size: int,
    windows_each: int,
    within: int,
    query: str,
) -> None:
    assume(len({name.lower() for name in taken}) == len(taken))
    given_ = PipelineSpec(**WINDOWS).model_dump(by_alias=True)
    given_["cleanse"]["set"] = {}
    given_["cleanse"]["dedupe"]["within"] = Duration(within)
    given_["enrich"][0].update({"query": query, "take": list(taken), "default": taken})
    given_["windows"] |= {"size": Duration(size * windows_each), "slide": Duration(size)}
    given_["windows"]["measures"] = {"paid": "sum(amount)"}
    given_["sink"][1]["columns"] = ["id", *taken]
    spec = PipelineSpec(**given_)
    file = tmp_path / "p.toml"
    file.write_bytes(to_toml(spec).encode())
    again = load(file, environ={})
    assert again == spec
    # True == 1 == 1.0 in Python, but not in a column.
    assert [type(value) for value in again.enrich[0].default.values()] == [type(v) for v in taken.values()]


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
    given_["cleanse"]["where"] = {"not_the_word": f"page <> '{word}'"}
    given_["sessions"]["gap"] = Duration(gap)
    given_["sessions"]["measures"] = tuple(sessions(base).measures[index] for index in kept)
    given_["sink"][0]["rows"] = rows
    spec = PipelineSpec(**given_)
    file = tmp_path / "p.toml"
    file.write_bytes(to_toml(spec).encode())
    again = load(file, environ={})
    assert again == spec


def test_only_the_columns_that_are_read_are_used() -> None:
    spec = clickstream()
    read = {"event_id", "user_id", "event_type", "product_id", "page", "price", "ts", "created_ms"}
    assert spec.used_columns("groups") == read | {"segment", "country", "category"}
    given_ = spec.model_dump(by_alias=True)
    given_ |= {
        "cleanse": {},
        "enrich": [],
        "sessions": {"key": "producer", "gap": "1 s", "measures": {"n": "count(*)"}},
    }
    del given_["source"]["created"]
    assert PipelineSpec(**given_).used_columns("groups") == {"producer", "user_id", "ts"}


def test_the_events_tier_reads_what_its_sinks_take_and_what_an_event_is_judged_by() -> None:
    spec = PipelineSpec(**WINDOWS)
    judged = {"account", "ts", "amount"}  # key, time and where
    assert spec.used_columns("events") == judged | {"id", "country"}
    assert spec.used_columns("groups") == judged | {"id", "owner"}
    all_columns = spec.sink[1].model_copy(update={"columns": ()})
    every = spec.model_copy(update={"sink": (all_columns,)})
    assert every.used_columns("events") == set(every.columns())


def test_what_cleanse_makes_is_read_with_what_it_is_made_of() -> None:
    given_ = PipelineSpec(**WINDOWS).model_dump(by_alias=True)
    assert not {"currency", "Note"} & PipelineSpec(**given_).used_columns("groups")  # nobody asked for it
    given_["windows"]["key"] = "currency"
    assert {"currency", "Note"} <= PipelineSpec(**given_).used_columns("groups")


@pytest.mark.parametrize("tier", ["groups", "events"])
def test_a_tier_reads_the_key_without_which_an_event_is_rejected(tier: Tier) -> None:
    given_ = clickstream().model_dump(by_alias=True)
    given_["sessions"]["key"] = "producer"
    given_["sink"][0].update({"rows": ("events",), "key": "event_id", "columns": ("event_id",)})
    assert "producer" in PipelineSpec(**given_).used_columns(tier)


def test_the_reference_tells_every_key_with_its_default_and_an_example() -> None:
    text = reference()
    assert "gap (duration; required)\n    A session ends after this long without an event.\n" in text
    assert (
        "rows (list of final | live | events | rejected | late | duplicate | refused; default: final)" in text
    )
    assert "where (section of name = Spark SQL; optional)" in text
    assert "default (section of name = value; optional)" in text
    assert "measures (section of name = aggregate; required)" in text
    assert "slide (duration; optional)" in text
    assert '    e.g. where.price_not_negative = "price IS NULL OR price >= 0"\n' in text
    assert "max_batch (whole number; default: 200,000)" in text
    for header in (
        "[source]",
        "[cleanse]",
        "[cleanse.dedupe]",
        "[[enrich]]",
        "[sessions]",
        "[windows]",
        '[[sink]] kind = "kafka"',
        '[[sink]] kind = "clickhouse"',
        '[[sink]] kind = "postgres"',
        "[services]",
    ):
        assert f"\n## {header}\n" in text
    blocks = [block for block in text.split("\n\n") if "    e.g. " in block or "; required)" in block]
    assert all(block.count("\n    ") >= 2 and "    e.g. " in block for block in blocks)
    assert len(blocks) >= 70


def test_in_the_reference_what_a_section_requires_comes_first() -> None:
    for section in reference().split("\n## "):
        required = ["; required)" in line for line in section.splitlines() if re.match(r"\w+ \(", line)]
        assert required == sorted(required, reverse=True)


def test_a_description_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        sessions(clickstream()).key = "page"


def test_the_public_names_are_few() -> None:
    sections = {
        "Source",
        "Cleanse",
        "Dedupe",
        "Enrich",
        "Grouping",
        "Sessions",
        "Windows",
        "Sink",
        "KafkaSink",
        "ClickHouseSink",
        "PostgresSink",
        "ServiceAddresses",
    }
    values = {"Column", "Measure", "Count", "Duration", "Rate", "Size"}
    whole = {"PipelineSpec", "Tier", "load", "reference", "to_toml"}
    assert set(penstock.spec.__all__) == whole | sections | values
