"""A wrong description: every problem at once, each with its key, its value and the way out."""

from __future__ import annotations

import copy
import tomllib
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SpecError
from penstock.paths import shipped
from penstock.spec import Enrich, KafkaSink, PipelineSpec, Sessions, Source

CLICKSTREAM = tomllib.loads((shipped("pipelines") / "clickstream.toml").read_text())


def with_values(changes: dict[str, Any], base: dict[str, Any] = CLICKSTREAM) -> dict[str, Any]:
    """A pipeline with other values; a key is a path with dots, None takes the key out."""
    given = copy.deepcopy(base)
    for path, value in changes.items():
        here: Any = given
        *steps, last = path.split(".")
        for step in steps:
            here = here[int(step)] if isinstance(here, list) else here.setdefault(step, {})
        if value is None:
            del here[last]
        elif isinstance(here, list):
            here[int(last)] = value
        else:
            here[last] = value
    return given


def problems_of(changes: dict[str, Any], base: dict[str, Any] = CLICKSTREAM) -> list[str]:
    with pytest.raises(SpecError) as caught:
        PipelineSpec(**with_values(changes, base))
    return caught.value.problems


CASES: list[tuple[str, Any, str]] = [
    # one field
    (
        "sessions.gpa",
        "30 minutes",
        'sessions.gpa = "30 minutes": unknown key; did you mean "gap"?'
        " (known: combine, gap, idle, key, lateness, max_length, measures, out_of_order, partitions)",
    ),
    (
        "sink.1.topic",
        "x",
        'sink[1].topic = "x": unknown key (known: columns, guarantee, key, kind, name, rows, table, writers)',
    ),
    ("source.partitions", "eight", 'source.partitions = "eight": expected a whole number of at least 1'),
    ("source.partitions", 0, "source.partitions = 0: expected a whole number of at least 1"),
    (
        "sink.0.rows",
        "finals",
        'sink[0].rows = "finals": expected one of final, live, events, rejected, late, duplicate, refused;'
        ' did you mean "final"?',
    ),
    (
        "sink.3.rows",
        ["rejected", "lat"],
        'sink[3].rows[1] = "lat": expected one of final, live, events, rejected, late, duplicate, refused;'
        ' did you mean "late"?',
    ),
    (
        "sink.0.rows",
        ["final", "late"],
        'sink[0].rows = ["final", "late"]: late rows are set aside: give them a sink of their own',
    ),
    (
        "sink.1.rows",
        ["rejected", "late"],
        'sink[1].rows = ["rejected", "late"]: rejected and late rows go to Kafka only, '
        "as the bytes that came",
    ),
    ("sink.3.rows", ["late", "late"], 'sink[3].rows = ["late", "late"]: expected each kind of row once'),
    (
        "sink.0.kind",
        "kafak",
        'sink[0].kind = "kafak": expected one of kafka, clickhouse, postgres; did you mean "kafka"?',
    ),
    ("sink.0.kind", None, "sink[0].kind: required, but missing; it says which kind of sink this is"),
    ("sink.0.topic", None, 'sink[0].topic: required, but missing; e.g. "sessions"'),
    ("sink", [], "sink = []: expected at least one"),
    ("sink", {"kind": "kafka"}, "sink: expected a list"),
    ("source", "clicks", 'source = "clicks": expected a section (a TOML table)'),
    ("sessions.gap", 30, 'sessions.gap = 30: a duration without a unit; write e.g. "30 minutes"'),
    ("sessions.gap", "0 seconds", 'sessions.gap = "0 seconds": expected more than 0'),
    ("source.format", "avro", 'source.format = "avro": expected json'),
    (
        "source.topic",
        "my clicks",
        'source.topic = "my clicks": expected a Kafka topic name: at most 249 letters, digits, . _ or -',
    ),
    (
        "source.topic",
        "..",
        'source.topic = "..": expected a Kafka topic name: at most 249 letters, digits, . _ or -',
    ),
    ("cleanse.require", 3, "cleanse.require = 3: expected a list"),
    ("source.key", 3, "source.key = 3: expected text in quotes"),
    (
        "services.kafka",
        "localhost",
        'services.kafka = "localhost": expected "embedded" or "host:port", several with commas',
    ),
    # SQL
    (
        "cleanse.where",
        "price >= 0",
        'cleanse.where = "price >= 0": expected a section of name = "Spark SQL"',
    ),
    ("cleanse.where.dear", 3, "cleanse.where.dear = 3: expected text in quotes"),
    (
        "cleanse.where.too dear",
        "price > 9",
        'cleanse.where.too dear = "price > 9": expected a name of letters, digits and _'
        " that starts with a letter",
    ),
    (
        "cleanse.where.dear",
        "price >",
        'cleanse.where.dear = "price >": not Spark SQL: incomplete at ">" (line 1, column 7)',
    ),
    (
        "cleanse.where.dear",
        "event_typ = 'view'",
        'cleanse.where.dear = "event_typ = \'view\'": no such column "event_typ"; did you mean "event_type"?',
    ),
    (
        "cleanse.where.dear",
        "rand() < 0.5",
        'cleanse.where.dear = "rand() < 0.5": rand() is not a function of the event, so a replayed batch'
        " would give other rows",
    ),
    (
        "cleanse.where.dear",
        "sum(price) > 1",
        'cleanse.where.dear = "sum(price) > 1": SUM(price) spans many events;'
        " expected an expression over one event",
    ),
    (
        "cleanse.where.dear",
        "price > 1;",
        'cleanse.where.dear = "price > 1;": expected one Spark SQL expression,'
        " without SELECT, OVER, AS or semicolon",
    ),
    (
        "cleanse.where.dear",
        "price > 1 -- cheap",
        'cleanse.where.dear = "price > 1 -- cheap": expected an expression without comments;'
        " a TOML comment can stand beside it",
    ),
    (
        "source.schema",
        [{"name": "user_id"}],
        'source.schema: expected Spark DDL in quotes, e.g. "user_id string, ts long"',
    ),
    (
        "sessions.measures",
        "count(*)",
        'sessions.measures = "count(*)": expected a section of measures, e.g. events = "count(*)"',
    ),
    ("sessions.measures", {}, "sessions.measures: expected at least one"),
    (
        "source.schema",
        "user_id strng",
        'source.schema = "user_id strng": column user_id (line 1, column 9): no type "strng";'
        ' did you mean "string"?',
    ),
    (
        "source.schema",
        "user_id string, at decimal(40,2)",
        'source.schema = "user_id string, at decimal(40,2)": column at (line 1, column 28):'
        ' expected a number from 1 to 38, got "40"',
    ),
    (
        "source.schema",
        "user_id, ts long",
        'source.schema = "user_id, ts long": "user_id" (line 1, column 1): expected a name and a type,'
        ' e.g. "price double"',
    ),
    (
        "source.schema",
        "ts long, TS int",
        'source.schema = "ts long, TS int": column TS (line 1, column 10) is there twice'
        " (Spark ignores case)",
    ),
    (
        "sessions.measures.revenue",
        "sum(prise)",
        'sessions.measures.revenue = "sum(prise)": no such column "prise"; did you mean "price"?',
    ),
    (
        "sessions.measures.revenue",
        "summ(price)",
        'sessions.measures.revenue = "summ(price)": no aggregate "summ"; did you mean "sum"?'
        " (known: count, sum, min, max, first, last, distinct)",
    ),
    (
        "sessions.measures.revenue",
        "count(DISTINCT page)",
        'sessions.measures.revenue = "count(DISTINCT page)": count takes one argument, without DISTINCT;'
        " distinct(x) counts values",
    ),
    (
        "sessions.measures.revenue",
        "sum(page)",
        'sessions.measures.revenue = "sum(page)": sum needs a number, but page is string',
    ),
    (
        "sessions.measures.revenue",
        3,
        'sessions.measures.revenue = 3: expected an aggregate in quotes, e.g. "sum(price)"',
    ),
    (
        "sessions.measures._batch",
        "count(*)",
        'sessions.measures._batch = "count(*)": expected a name of letters, digits and _'
        " that starts with a letter",
    ),
    (
        "sessions.measures.session_id",
        "count(*)",
        'sessions.measures.session_id = "count(*)": session_id is a column of every row;'
        " give the measure another name",
    ),
    (
        "sessions.measures.user_id",
        "last(page)",
        'sessions.measures.user_id = "last(page)": user_id is a column of every row;'
        " give the measure another name",
    ),
    # between the parts
    ("source.key", "usr_id", 'source.key = "usr_id": no such column; did you mean "user_id"?'),
    ("source.event_time", "tss", 'source.event_time = "tss": no such column; did you mean "ts"?'),
    (
        "source.event_time",
        "page",
        'source.event_time = "page": expected a long (epoch milliseconds) or timestamp column,'
        " but it is string",
    ),
    (
        "source.created",
        "price",
        'source.created = "price": expected a long (epoch milliseconds) or timestamp column,'
        " but it is double",
    ),
    ("sessions.key", "usr_id", 'sessions.key = "usr_id": no such column; did you mean "user_id"?'),
    (
        "cleanse.require",
        ["event_id", "usr_id"],
        'cleanse.require[1] = "usr_id": no such column; did you mean "user_id"?',
    ),
    ("cleanse.require", "usr_id", 'cleanse.require = "usr_id": no such column; did you mean "user_id"?'),
    ("enrich.1.on", "productid", 'enrich[1].on = "productid": no such column; did you mean "product_id"?'),
    (
        "enrich.1.name",
        "users",
        'enrich[1].name = "users": "users" is already used by enrich[0].name; choose another',
    ),
    (
        "enrich.0.take",
        ["segment", "country", "page"],
        'enrich[0].take[2] = "page": "page" is already used by source.schema; choose another',
    ),
    ("sink.2.name", None, 'sink[2].name: "sessions" is already used by sink[0].name; choose another'),
    (
        "sink.3.topic",
        "sessions",
        'sink[3].topic = "sessions": "kafka sessions" is already used by sink[0].topic; choose another',
    ),
    (
        "sink.3.topic",
        "clicks",
        'sink[3].topic = "clicks": this is the source\'s topic: the pipeline would read its own output',
    ),
]


@pytest.mark.parametrize(("path", "value", "problem"), CASES)
def test_a_problem_names_its_key_its_value_and_the_way_out(path: str, value: Any, problem: str) -> None:
    assert problem in problems_of({path: value})


def test_the_shipped_pipeline_has_no_problem() -> None:
    assert PipelineSpec(**CLICKSTREAM).name == "clickstream"


def test_one_wrong_key_is_one_problem() -> None:
    assert len(problems_of({"source.partitions": "eight"})) == 1
    assert len(problems_of({"cleanse.where.dear": "price >"})) == 1
    assert len(problems_of({"sink.0.rows": "finals"})) == 1


def test_all_problems_come_at_once_even_between_parts_that_have_problems_of_their_own() -> None:
    found = problems_of(
        {
            "source.partitions": "eight",
            "source.key": "usr_id",
            "sessions.gap": "soon",
            "sessions.measures.revenue": "sum(",
            "sessions.measures.top_price": "max(prise)",
            "enrich.0.path": None,
            "enrich.1.on": "productid",
            "sink.0.rows": "finals",
            "sink.1.kind": "clickhose",
            "sink.3.topic": "clicks",
        }
    )
    keys = {line.split(" = ")[0].split(":")[0] for line in found}
    assert keys == {
        "source.partitions",
        "source.key",
        "sessions.gap",
        "sessions.measures.revenue",
        "sessions.measures.top_price",
        "enrich[0]",
        "enrich[1].on",
        "sink[0].rows",
        "sink[1].kind",
        "sink[3].topic",
    }
    assert len(found) == len(keys)


def test_several_problems_of_one_schema_are_all_told() -> None:
    (problem,) = (line for line in problems_of({"source.schema": "a strng, b, c lung"}) if "schema" in line)
    assert all(part in problem for part in ('no type "strng"', '"b" (line 1, column 10)', 'no type "lung"'))


def test_a_password_is_not_repeated_in_a_problem() -> None:
    for address in (
        "ftp://joe:s3cret@host:1",
        "postgres:/joe:s3/c@ret@host",
        "postgresql://joe:s3 cret@host",
    ):
        (problem,) = problems_of({"services.clickhouse": address})
        assert "s3" not in problem
        assert "ret@" not in problem


def test_a_section_written_in_python_raises_the_same_error() -> None:
    with pytest.raises(SpecError) as caught:
        Source(topic="clicks", schema="a strng", key="a", event_time="ts", partitons=3)  # type: ignore[arg-type, call-arg]
    assert caught.value.problems == [
        'schema = "a strng": column a (line 1, column 3): no type "strng"; did you mean "string"?',
        'partitons = 3: unknown key; did you mean "partitions"? (known: created, epoch, event_time, format,'
        " key, max_batch, max_wait, min_batch, partitions, schema, starting, topic)",
    ]


def test_sections_written_in_python_are_checked_against_one_another() -> None:
    with pytest.raises(SpecError) as caught:
        PipelineSpec(
            name="p",
            source=Source.model_validate(CLICKSTREAM["source"]),
            enrich=[Enrich(name="users", path="u.parquet", on="usr_id", take=("segment",))],
            sessions=Sessions.model_validate({**CLICKSTREAM["sessions"], "measures": {"n": "last(segmnt)"}}),
            sink=[KafkaSink(topic="clicks")],
        )
    assert caught.value.problems == [
        'enrich[0].on = "usr_id": no such column; did you mean "user_id"?',
        'sessions.measures.n: no such column "segmnt"; did you mean "segment"?',
        'sink[0].topic = "clicks": this is the source\'s topic: the pipeline would read its own output',
    ]


JUNK = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["kafka", "user_id", "a,b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("kind"), inner, max_size=3)
    ),
    max_leaves=5,
)
SECTIONS = ("source", "cleanse", "sessions", "services")
PLACES = [
    *CLICKSTREAM,
    *(f"{section}.{key}" for section in SECTIONS for key in CLICKSTREAM[section]),
    *("enrich.0", "enrich.0.name", "enrich.0.path", "enrich.0.on", "enrich.0.take"),
    *("enrich.0.query", "enrich.0.default", "enrich.0.default.segment", "enrich.0.refresh"),
    *("sink.0", "sink.0.name", "sink.0.kind", "sink.0.topic", "sink.0.rows"),
    *("sink.0.key", "sink.0.columns", "sink.0.latency", "sink.0.guarantee"),
    *("cleanse.set", "cleanse.set.page", "cleanse.where.known_type", "cleanse.past"),
    *("cleanse.dedupe", "cleanse.dedupe.on", "cleanse.dedupe.within"),
    *("windows", "windows.key", "windows.size", "windows.slide", "windows.measures"),
    *("sessions.measures.revenue", "sessions.idle", "sessions.max_length"),
]


@given(st.dictionaries(st.sampled_from(PLACES), JUNK, min_size=1, max_size=4))
@settings(deadline=None)
def test_junk_anywhere_is_a_spec_error_and_nothing_else(changes: dict[str, Any]) -> None:
    # Inner places first, so that junk in an outer one does not take them away.
    inner_first = dict(sorted(changes.items(), key=lambda change: -change[0].count(".")))
    with suppress(SpecError):
        PipelineSpec(**with_values(inner_first))
