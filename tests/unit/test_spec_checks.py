"""What the parts of a description must agree on, beside what the clickstream has."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from penstock.spec import PipelineSpec
from tests.unit.test_spec_problems import problems_of, with_values

WINDOWS = tomllib.loads("""
name = "payments"
[source]
topic = "payments"
schema = "id string, account string, amount double, Note string, batch long, kind string, ts long"
key = "account"
event_time = "ts"
[cleanse]
set = {currency = "upper(Note)"}
where = {paid = "amount > 0"}
dedupe = {on = "id", within = "10 minutes"}
[[enrich]]
name = "accounts"
query = "SELECT account, owner, country FROM accounts"
on = "account"
take = ["owner", "country"]
default = {country = "unknown"}
[windows]
key = "account"
size = "1 minute"
slide = "10 seconds"
measures = {paid = "sum(amount)", owners = "distinct(owner)"}
[[sink]]
kind = "postgres"
table = "bank.payments"
[[sink]]
kind = "kafka"
topic = "enriched"
rows = "events"
key = "id"
columns = ["id", "amount", "country"]
guarantee = "at_least_once"
latency = "realtime"
[[sink]]
kind = "kafka"
topic = "aside"
rows = ["rejected", "duplicate"]
""")
EVENTS = {
    key: value
    for key, value in with_values({"cleanse.dedupe": None, "sink.2.rows": ["rejected"]}, WINDOWS).items()
    if key != "windows"
} | {"sink": [WINDOWS["sink"][1]]}

CASES: list[tuple[Any, ...]] = [
    # cleanse
    (
        "cleanse.set.total",
        "amuont + 1",
        'cleanse.set.total = "amuont + 1": no such column "amuont"; did you mean "amount"?',
    ),
    (
        "cleanse.set.total",
        "length(currency)",  # made by its neighbour: set reads what came
        'cleanse.set.total = "length(currency)": no such column "currency"'
        " (known: id, account, amount, Note, batch, kind, ts)",
    ),
    (
        "cleanse.set.note",
        "trim(Note)",
        'cleanse.set.note = "trim(Note)": is "Note" in another spelling; Spark ignores case',
    ),
    (
        "cleanse.dedupe.on",
        "idd",
        'cleanse.dedupe.on = "idd": no such column; did you mean "id"?',
    ),
    ("cleanse.dedupe.within", None, 'cleanse.dedupe.within: required, but missing; e.g. "10 minutes"'),
    ("cleanse.dedupe.within", "0 s", 'cleanse.dedupe.within = "0 s": expected more than 0'),
    ("windows.combine", "maybe", 'windows.combine = "maybe": expected true or false'),
    (
        "windows.combine",
        True,
        "windows.combine = true: not with [cleanse.dedupe], for which each event must be known by itself",
    ),
    (
        "cleanse.dedupe",
        "id",
        'cleanse.dedupe = "id": expected a section (a TOML table)',
    ),
    ("cleanse.past", "0 days", 'cleanse.past = "0 days": expected more than 0'),
    # enrich
    ("enrich.0.query", None, "enrich[0]: expected either a path or a query"),
    ("enrich.0.path", "accounts.csv", "enrich[0]: expected either a path or a query"),
    ("enrich.0.query", "", 'enrich[0].query = "": expected some text'),
    (
        "enrich.0.default.county",
        "unknown",
        'enrich[0].default.county = "unknown": no such column "county"; did you mean "country"?',
    ),
    (
        "enrich.0.default.country",
        ["unknown"],
        'enrich[0].default.country = ["unknown"]: expected text, a finite number, true or false',
    ),
    (
        "enrich.0.default.country",
        float("nan"),
        "enrich[0].default.country = nan: expected text, a finite number, true or false",
    ),
    (
        "enrich.0.take",
        ["owner", "country", "Currency", "note"],
        'enrich[0].take[2] = "Currency": "currency" is already used by cleanse.set.currency; choose another',
        'enrich[0].take[3] = "note": "note" is already used by source.schema; choose another',
    ),
    ("enrich.0.refresh", 5, 'enrich[0].refresh = 5: a duration without a unit; write e.g. "30 minutes"'),
    # windows
    (
        "windows.size",
        "25 seconds",
        'windows.slide = "10 seconds": the size, 25 seconds, is not a multiple of it',
    ),
    (
        "windows.slide",
        "2 minutes",
        'windows.slide = "2 minutes": the size, 1 minute, is not a multiple of it',
    ),
    ("windows.slide", "0 seconds", 'windows.slide = "0 seconds": expected more than 0'),
    ("windows.size", None, 'windows.size: required, but missing; e.g. "1 minute"'),
    (
        "windows.gap",
        "1 minute",
        'windows.gap = "1 minute": unknown key'
        " (known: combine, idle, key, lateness, measures, out_of_order, partitions, size, slide)",
    ),
    ("windows.key", "acount", 'windows.key = "acount": no such column; did you mean "account"?'),
    (
        "windows.key",
        "kind",
        'windows.key = "kind": is a column of every row; make one of another name in cleanse.set,'
        " and use that",
    ),
    (
        "sessions",
        {"key": "account", "gap": "1 minute", "measures": {"n": "count(*)"}},
        "windows: a pipeline has [sessions] or [windows], not both; make it two pipelines",
    ),
    # measures
    (
        "windows.measures.paid",
        "sum(amuont)",
        'windows.measures.paid = "sum(amuont)": no such column "amuont"; did you mean "amount"?',
    ),
    (
        "windows.measures.paid",
        "sum(account)",
        'windows.measures.paid = "sum(account)": sum needs a number, but account is string',
    ),
    (
        "windows.measures.window_id",
        "count(*)",
        'windows.measures.window_id = "count(*)": window_id is a column of every row;'
        " give the measure another name",
    ),
    (
        "windows.measures.ts",
        "max(ts)",
        'windows.measures.ts = "max(ts)": ts is a column of every row; give the measure another name',
    ),
    (
        "windows.measures.owners_exact",
        "count(*)",
        'windows.measures.owners = "distinct(owner)": makes the column owners_exact too,'
        " which is another measure's name",
    ),
    (
        "windows.measures.owners",
        "distinct(ownr)",
        'windows.measures.owners = "distinct(ownr)": no such column "ownr"; did you mean "owner"?',
    ),
    (
        "windows.measures.owners",
        "distinct()",
        'windows.measures.owners = "distinct()": expected a Spark SQL expression',
    ),
    # sinks
    (
        "sink.0.table",
        "a.b.c",
        'sink[0].table = "a.b.c": expected a table, or "schema.table"',
    ),
    ("sink.0.max_rows", 0, "sink[0].max_rows = 0: expected a whole number of at least 1"),
    (
        "sink.0.rows",
        "late",
        'sink[0].rows = "late": late rows go to Kafka only, as the bytes that came',
    ),
    (
        "sink.1.rows",
        ["events", "final"],
        'sink[1].rows = ["events", "final"]: events rows have columns of their own:'
        " give them a sink of their own",
    ),
    (
        "sink.1.rows",
        ["events", "rejected"],
        'sink[1].rows = ["events", "rejected"]: rejected rows are set aside: give them a sink of their own',
    ),
    (
        "cleanse.dedupe",
        None,
        'sink[2].rows = ["rejected", "duplicate"]: there are no duplicate rows without [cleanse.dedupe]',
    ),
    ("sink.1.key", None, "sink[1].key: required for rows = events: the column that names an event"),
    ("sink.1.key", "idd", 'sink[1].key = "idd": no such column; did you mean "id"?'),
    ("sink.1.key", "owner", 'sink[1].key = "owner": no such column (known: id, amount, country)'),
    (
        "sink.1.columns",
        ["id", "amuont"],
        'sink[1].columns[1] = "amuont": no such column; did you mean "amount"?',
    ),
    (
        "sink.1.guarantee",
        "exactly_once",
        'sink[1].guarantee = "exactly_once": a realtime sink is at_least_once:'
        " readers tell a repeated event by its key",
    ),
    (
        "sink.1.latency",
        "fast",
        'sink[1].latency = "fast": expected one of batch, realtime',
    ),
    ("sink.0.key", "id", 'sink[0].key = "id": is for rows = events only'),
    ("sink.0.columns", ["id"], 'sink[0].columns = ["id"]: is for rows = events only'),
    (
        "sink.1.writers",
        2,
        "sink[1].writers = 2: a realtime sink is written by the tasks that read the source",
    ),
    ("sink.0.writers", 2, "sink[0].writers = 2: more than 1 is for rows = events only: the others are few"),
    ("sink.2.writers", 2, "sink[2].writers = 2: more than 1 is for rows = events only: the others are few"),
    ("sink.0.writers", 0, "sink[0].writers = 0: expected a whole number of at least 1"),
    ("sink.0.writers", "5k", 'sink[0].writers = "5k": expected at most 256'),
    ("sink.2.latency", "realtime", 'sink[2].latency = "realtime": realtime is for rows = events only'),
]


@pytest.mark.parametrize(("path", "value", "problems"), [(path, value, p) for path, value, *p in CASES])
def test_a_problem_names_its_key_its_value_and_the_way_out(
    path: str, value: Any, problems: list[str]
) -> None:
    assert problems_of({path: value}, WINDOWS) == problems


def test_the_pipelines_that_the_cases_change_have_no_problem() -> None:
    windows, events = PipelineSpec(**WINDOWS), PipelineSpec(**EVENTS)
    assert windows.grouping is windows.windows is not None
    assert events.grouping is None


@pytest.mark.parametrize("kind", ["final", "live", "late"])
def test_rows_of_sessions_need_sessions_or_windows(kind: str) -> None:
    sink = {"kind": "kafka", "topic": "out", "rows": kind}
    assert problems_of({"sink": [sink]}, EVENTS) == [
        f'sink[0].rows = "{kind}": there are no {kind} rows without [sessions] or [windows]'
    ]


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize(
    ("kind", "target"), [("kafka", "topic"), ("clickhouse", "table"), ("postgres", "table")]
)
def test_rows_of_events_can_have_several_writers_in_every_store(
    kind: str, target: str, guarantee: str
) -> None:
    events = {"rows": "events", "key": "id", "columns": ["id"], "guarantee": guarantee, "writers": "4"}
    spec = PipelineSpec(**{**EVENTS, "sink": [{"kind": kind, target: "t", **events}]})
    assert spec.sink[0].writers == 4


def test_ids_are_remembered_in_the_state_of_sessions_or_windows_only() -> None:
    assert problems_of({"cleanse.dedupe": WINDOWS["cleanse"]["dedupe"]}, EVENTS) == [
        "cleanse.dedupe: needs [sessions] or [windows], whose state remembers the ids;"
        " without, a sink with a key takes a repeated event only once"
    ]


def test_an_event_has_no_column_that_every_row_has() -> None:
    """Unless it is sent as it is: a realtime sink adds nothing to it."""
    way_out = '"batch" is a column of every row; make one of another name in cleanse.set, and use that'
    batched = {"sink.1.latency": "batch", "sink.1.columns": ["id", "batch"]}
    assert problems_of(batched, WINDOWS) == [f'sink[1].columns = ["id", "batch"]: {way_out}']
    all_columns = {"sink.1.latency": "batch", "sink.1.columns": None}
    assert problems_of(all_columns, WINDOWS) == [f"sink[1].columns: {way_out}"]
    assert PipelineSpec(**with_values({"sink.1.columns": ["id", "batch"]}, WINDOWS))


def test_what_cleanse_makes_is_a_column_for_all_that_come_after_it() -> None:
    made = {
        "cleanse.set.at": "ts * 1000",
        "cleanse.require": ["currency"],
        "cleanse.where.euro": "currency = 'EUR'",
        "source.event_time": "at",
        "windows.key": "currency",
        "windows.measures.last_currency": "last(lower(currency))",
        "sink.1.columns": ["id", "currency"],
    }
    assert PipelineSpec(**with_values(made, WINDOWS)).clean_columns()[-2:] == ["currency", "at"]


def test_a_wrong_field_is_not_taken_for_its_default() -> None:
    """The defaults would make problems that are none: no final rows, no path, no sessions."""
    assert len(problems_of({"sink.0.rows": "evnts"}, EVENTS)) == 1  # and its key is for events only
    assert len(problems_of({"sink.1.rows": "evnts"}, WINDOWS)) == 1
    assert len(problems_of({"enrich.0.query": 3}, WINDOWS)) == 1  # nor has it a path
    assert len(problems_of({"windows": "1 minute"}, WINDOWS)) == 1
    assert len(problems_of({"cleanse.dedupe": 3}, WINDOWS)) == 1
    assert len(problems_of({"sink.1.latency": 3, "sink.1.guarantee": "exactly_once"}, WINDOWS)) == 1


def test_all_problems_come_at_once_even_between_parts_that_have_problems_of_their_own() -> None:
    found = problems_of(
        {
            "source.epoch": "minutes",
            "cleanse.set.total": "amuont",
            "cleanse.where.paid": "amuont > 0",
            "cleanse.dedupe.on": "idd",
            "enrich.0.path": "accounts.csv",
            "enrich.0.default.county": "unknown",
            "windows.idle": "soon",
            "windows.slide": "7 seconds",
            "windows.measures.paid": "sum(account)",
            "sink.0.max_rows": "many",
            "sink.0.key": "id",
            "sink.1.key": None,
            "sink.1.guarantee": "exactly_once",
            "sink.2.rows": ["final", "duplicate"],
        },
        WINDOWS,
    )
    assert sorted(line.split(" = ")[0].split(":")[0] for line in found) == [
        "cleanse.dedupe.on",
        "cleanse.set.total",
        "cleanse.where.paid",
        "enrich[0]",
        "enrich[0].default.county",
        "sink[0].key",
        "sink[0].max_rows",
        "sink[1].guarantee",
        "sink[1].key",
        "sink[2].rows",
        "source.epoch",
        "windows.idle",
        "windows.measures.paid",
        "windows.slide",
    ]
