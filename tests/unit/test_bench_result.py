"""What an experiment found, for a terminal, a file and a page."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from penstock.bench.page import page
from penstock.bench.result import Column, Result, Spread
from penstock.cli.bench import show

RESULT = Result(
    "drain",
    "so many <clicks>",
    (
        Column("job", "job"),
        Column("guarantee", "guarantee"),
        Column("events_per_s", "events/s", drawn=True),
        Column("cpu_s_per_million", "CPU-s per million", 2),
    ),
    [
        {
            "job": "ours",
            "guarantee": "exactly_once",
            "events_per_s": Spread(200.0, 100.0, 300.0),
            "warm": True,
        },
        {"job": "<theirs>", "guarantee": "exactly_once", "events_per_s": 150.4, "cpu_s_per_million": 8.125},
    ],
    ["ours / theirs: 1.33"],
)


def test_a_spread_is_the_median_and_the_bounds() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert Spread.of([4.0]) == Spread(4.0, 4.0, 4.0)


@pytest.mark.parametrize(
    ("value", "text", "spread"),
    [
        (None, "", ""),
        (True, "yes", ""),
        ("word", "word", ""),
        (1234, "1,234.0", ""),
        (Spread(1234.56, 1000.0, 2000.0), "1,234.6", "1,000.0 to 2,000.0"),
        (Spread(5.0, 5.0, 5.0), "5.0", ""),
    ],
)
def test_a_value_is_shown_with_its_digits(value: object, text: str, spread: str) -> None:
    column = Column("it", "it", 1)
    assert column.text(value) == text  # type: ignore[arg-type]
    assert column.spread(value) == spread  # type: ignore[arg-type]


def test_json_has_medians_and_spreads_beside_them() -> None:
    told = json.loads(json.dumps(RESULT.to_json()))
    assert told["bench"] == "drain"
    assert told["machine"]["cores"] >= 1
    first, second = told["rows"]
    assert (first["events_per_s"], first["events_per_s_spread"], first["warm"]) == (
        200.0,
        [100.0, 300.0],
        True,
    )
    assert second["cpu_s_per_million"] == 8.125
    assert told["findings"] == ["ours / theirs: 1.33"]


def test_the_page_holds_all_figures_and_needs_nothing_else() -> None:
    texts: list[str] = []
    names: list[str] = []

    class Seen(HTMLParser):
        def handle_data(self, data: str) -> None:
            texts.append(data)

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            names.extend([tag, *(name for name, _ in attrs)])

    html = page(RESULT)
    Seen().feed(html)
    text = " ".join(texts)
    assert all(part in text for part in ("<theirs>", "so many <clicks>", "200", "100 to 300", "8.12", "1.33"))
    assert not {"src", "href", "script", "link"} & set(names)


def test_bars_are_as_long_as_their_share_of_the_longest() -> None:
    # The longest is what any round reached.
    html = page(RESULT)
    assert 'width="66.67%"' in html
    assert 'width="50.13%"' in html
    assert 'x1="33.33%" x2="100.00%"' in html


def test_files_are_written_where_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(RESULT, tmp_path / "new" / "it.json", tmp_path / "new" / "it.html")
    assert json.loads((tmp_path / "new" / "it.json").read_text())["bench"] == "drain"
    assert (tmp_path / "new" / "it.html").read_text() == page(RESULT)
    said = capsys.readouterr().out
    assert "ours / theirs: 1.33" in said
    assert "CPU-s per million" in said
