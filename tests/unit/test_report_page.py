"""A report as a page: well formed whatever a journal holds, and with no secret in it."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.observe.board.alerts import LIMITS
from penstock.observe.journal import Note
from penstock.observe.run import journal_file, sample_file, spec_file
from penstock.report.axes import over_time, upright
from penstock.report.page import page
from penstock.report.reading import RunFiles
from penstock.report.report import DAY_MS, report
from penstock.report.strip import BINS, Strip
from penstock.report.when import moment_ms
from penstock.report.words import length, short, size, text
from penstock.spec import load, to_toml
from tests.runs import START_MS, Run, write
from tests.wellformed import check_page

CLICKSTREAM = Path(__file__).parents[2] / "pipelines" / "clickstream.toml"
NOW_MS = START_MS + 3_600_000
HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)> ' & ]]> <!--",
    "</title></style></pre></svg>",
    "\x00\x1b[31m\u202egnihtyna\ud800\ufffe",
    "{0} %s ${x} `rm -rf` NAME",
    "",
    "x" * 5_000,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "clickstream"
    write(run, Run(90).entries())
    spec_file(run).write_text(CLICKSTREAM.read_text())
    return run


@pytest.fixture(scope="module")
def lines(run: Path) -> list[dict[str, Any]]:
    """One line of each kind, and some more."""
    journal = [json.loads(line) for line in journal_file(run).read_text().splitlines()]
    samples = [json.loads(line) for line in sample_file(run).read_text().splitlines() if line]
    return journal[:12] + samples[:8] + [next(one for one in samples if one["what"] == "verdict")]


def shown(run: Path, **asked: Any) -> str:
    return page(report(RunFiles(run), NOW_MS, limits=LIMITS, **asked))


def test_a_run_is_shown_in_the_order_in_which_it_is_read(run: Path) -> None:
    seen = check_page(shown(run))
    parts = ["What ran", "Key figures", "Findings", "Over time", "Sinks", "Partitions", "Slowest batches",
             "Processes and brokers", "Events of the run", "How to get more"]  # fmt: skip
    places = [seen.index(f" {part} ") if part != "Sinks" else seen.rindex(f" {part} ") for part in parts[:4]]
    assert places == sorted(places)
    assert all(part in seen for part in parts)
    assert "exactly once" in seen
    assert "sessions by user_id, gap 30 minutes" in seen


def test_a_page_is_small_enough_for_a_ticket(run: Path) -> None:
    assert len(shown(run).encode()) < 400_000


def test_a_day_has_no_more_points_than_an_hour() -> None:
    strip = Strip(START_MS, START_MS + 7 * DAY_MS)
    for step in range(10_000):
        strip.put(START_MS + step * 60_480, {"lag": step % 7})
    column = strip.column("lag")
    assert column is not None
    assert strip.bins == len(column.high) == BINS
    assert set(column.low) == {0.0}
    assert set(column.high) == {6.0}


HOSTILE_VALUES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=30),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1, 0, 2**63, 10**400, True, None, [], {}, [[]]]),
    st.integers(-(10**18), 10**18),
    st.floats(),
)


def _put(value: Any, path: list[int], hostile: Any) -> Any:
    """The value with something else somewhere in it: each number of the path chooses a part."""
    if not path or not isinstance(value, dict | list) or not value:
        return hostile
    if isinstance(value, list):
        place = path[0] % len(value)
        return [_put(one, path[1:], hostile) if at == place else one for at, one in enumerate(value)]
    names = list(value)
    chosen = names[path[0] % len(names)]
    if path[0] % 7 == 6:
        return {**{name: one for name, one in value.items() if name != chosen}, str(hostile): value[chosen]}
    return {**value, chosen: _put(value[chosen], path[1:], hostile)}


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 30), st.lists(st.integers(0, 40), min_size=1, max_size=4), HOSTILE_VALUES),
        max_size=6,
    ),
    more=st.lists(HOSTILE_VALUES, max_size=3),
    cut=st.integers(0, 300),
    alive=st.sampled_from([None, True, False]),
)
@example(changes=[], more=[], cut=0, alive=None)
@example(changes=[(0, [2], hostile) for hostile in HOSTILE], more=[], cut=0, alive=False)
def test_whatever_a_journal_holds_the_page_is_well_formed(
    tmp_path: Path,
    lines: list[dict[str, Any]],
    changes: list[tuple[int, list[int], Any]],
    more: list[Any],
    cut: int,
    alive: bool | None,
) -> None:
    held = list(lines)
    for place, path, hostile in changes:
        held[place % len(held)] = _put(held[place % len(held)], path, hostile)
    written = [json.dumps(one) for one in [*held, *more]]
    for file, kinds in ((journal_file(tmp_path), ("batch", "lag", "note")), (sample_file(tmp_path), ())):
        chosen = [
            line
            for line, one in zip(written, [*held, *more], strict=True)
            if (isinstance(one, dict) and one.get("what") in kinds) == bool(kinds)
        ]
        kept = "\n".join(chosen) + "\n"
        file.write_text(kept[: len(kept) - cut])
    made = report(RunFiles(tmp_path), NOW_MS, alive=alive)
    check_page(page(made))
    json.dumps(made.to_json())


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_a_pipeline_wrote_is_shown_as_text(tmp_path: Path, hostile: str) -> None:
    write(tmp_path, [*Run(20).entries(), Note(START_MS + 21_000, f"batch failed, starting again: {hostile}")])
    seen = check_page(shown(tmp_path))
    assert "<script>" not in shown(tmp_path)
    if hostile.startswith("<script>"):
        assert hostile in seen


@pytest.mark.parametrize("held", [None, "", '{"what":"no'], ids=["no journal", "empty", "half a line"])
def test_an_empty_run_says_so(tmp_path: Path, held: str | None) -> None:
    run = tmp_path / "clickstream"
    run.mkdir()
    if held is not None:
        journal_file(run).write_text(held)
    seen = check_page(shown(run))
    assert "Nothing yet" in seen
    assert "penstock run clickstream" in seen


def test_secrets_appear_nowhere(tmp_path: Path) -> None:
    spec = load(CLICKSTREAM, environ={})
    told = to_toml(spec).replace(
        'clickhouse = "embedded"', 'clickhouse = "http://me:hunter2@db.example:8123"'
    )
    told = told.replace('postgres = "embedded"', 'postgres = "postgresql://me:hunter2@db.example:5432/x"')
    told = told.replace('kafka = "embedded"', 'kafka = "broker.example:9092"')
    assert "hunter2" in told
    notes = [
        "batch failed, starting again: postgresql://me:hunter2@db.example/x says no",
        "batch failed, starting again: no way in for me:hunter2@db.example:5432",
        "Kafka at broker.example:9092 away; waiting",
        "lookup users: refresh failed: password=hunter2",
        "hunter token: hunter2",
    ]
    entries = [Note(START_MS + 61_000 + place, text) for place, text in enumerate(notes)]
    write(tmp_path, [*Run(60).entries(), *entries])
    spec_file(tmp_path).write_text(told)
    made = report(RunFiles(tmp_path), NOW_MS)
    for kept in (page(made), json.dumps(made.to_json())):
        assert "hunter2" not in kept
        assert "example" not in kept
    assert "services" not in check_page(page(made))


@pytest.mark.parametrize(
    ("given_", "from_end_ms"),
    [
        ("2026-09-21T14:13:20", 0),
        ("2026-09-21 16:13:20+02:00", 0),
        ("14:13:20", 0),
        ("14:13", 20_000),
        ("14:14", 86_400_000 - 40_000),
        ("30 minutes", 1_800_000),
        ("1 hour", 3_600_000),
    ],
)
def test_a_moment_is_read_as_people_write_it(given_: str, from_end_ms: int) -> None:
    end_ms = 1_790_000_000_000
    assert moment_ms(given_, end_ms) == end_ms - from_end_ms


@pytest.mark.parametrize("wrong", ["soon", "25:00", "14:61", "2026-13-01", "", "-5"])
def test_what_is_no_moment_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        moment_ms(wrong, START_MS)


FLOORS = {"count": 1.0, "rate": 10.0, "time": 100.0, "bytes": 1024.0, "share": 1.0, "cores": 1.0}


@given(st.floats(0, 1e12), st.sampled_from(sorted(FLOORS)))
def test_ticks_reach_the_highest_and_are_few(high: float, unit: Any) -> None:
    if unit == "share":
        high = min(high, 50.0)
    top, ticks = upright(high, FLOORS[unit], unit)
    assert top >= high * (1 - 1e-9)
    assert 2 <= len(ticks) <= 6
    assert [ticks[0].at, ticks[-1].at] == [0.0, 1.0]
    assert len({tick.label for tick in ticks}) == len(ticks)
    assert all(len(tick.label) <= 10 for tick in ticks)


@given(st.integers(0, 4 * 10**12), st.integers(1_000, 400 * DAY_MS))
def test_moments_on_an_axis_are_few_and_inside(from_ms: int, span_ms: int) -> None:
    ticks = over_time(from_ms, from_ms + span_ms)
    assert len(ticks) <= 17
    assert sum(not tick.is_fine for tick in ticks) <= 6
    assert all(0 <= tick.at <= 1 for tick in ticks)


@given(st.one_of(st.none(), st.floats(), st.integers(-(2**60), 2**60)))
def test_any_number_has_a_short_form(value: float | None) -> None:
    for words in (short, length, size):
        assert 1 <= len(words(value)) <= 40


@given(st.text())
def test_text_holds_nothing_that_means_something(given_: str) -> None:
    assert not re.search(r"[<>\"'\x00-\x08]|&(?!(amp|lt|gt|quot|#x27);)", text(given_))


def penstock(*words: str) -> Result:
    return CliRunner().invoke(app, ["report", *words], env={"COLUMNS": "300"})


def test_the_command_tells_the_judgement_and_the_file(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = penstock(str(run), "--json", "out.json")
    assert outcome.exit_code == 0, outcome.output
    [file] = tmp_path.glob("penstock-report-clickstream-*.html")
    assert re.fullmatch(r"penstock-report-clickstream-\d{8}-\d{6}\.html", file.name)
    verdict = json.loads(Path("out.json").read_text())["judgement"]
    assert outcome.output.splitlines()[-2:] == [f"{verdict['headline']}: {verdict['reason']}", file.name]
    check_page(file.read_text())


def test_a_run_is_found_by_its_name_its_spec_and_its_journal(run: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "runs").mkdir(parents=True)
    (data / "runs" / "clickstream").symlink_to(run)
    alone = tmp_path / "friday-night.jsonl"
    alone.write_bytes(journal_file(run).read_bytes())
    for words in (
        ["clickstream", "--data", str(data)],
        [str(CLICKSTREAM), "--data", str(data)],
        [str(alone)],
    ):
        out = tmp_path / "out.html"
        outcome = penstock(*words, "--out", str(out))
        assert outcome.exit_code == 0, outcome.output
        assert "clickstream" in check_page(out.read_text())
        out.unlink()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-run"], "no run no-such-run"),
        (["RUN", "--from", "soon"], '"soon": expected a date and time'),
        (["RUN", "--from", "14:00", "--to", "13:00"], "is not before the end"),
        (["RUN", "--objective", "soon"], '"soon"'),
        (["RUN", "--out", "/nowhere/x.html"], "cannot write /nowhere/x.html"),
    ],
)  # fmt: skip
def test_the_command_says_what_is_wrong_and_leaves_nothing(
    words: list[str], said: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = penstock(*(str(run) if word == "RUN" else word for word in words))
    assert outcome.exit_code == 2
    assert said in outcome.output
    assert list(tmp_path.iterdir()) == []
