"""What an experiment found as one HTML file: bars with their spread, and the table."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import __version__
from penstock.bench.result import Column, Result, Row, Spread, Value, machine
from penstock.report.page import document
from penstock.report.words import prose, text

_CSS = """
.part > .said { margin: 0.2rem 0 0.6rem; }
.bars { display: grid; grid-template-columns: minmax(8rem, 20rem) 1fr minmax(5rem, auto); gap: 0.3rem 0.8rem;
  align-items: center; font-size: 0.9rem; max-width: 70rem; }
.bars svg { width: 100%; height: 1.3rem; overflow: visible; }
.bars .bar { fill: var(--accent); opacity: 0.75; }
.bars .spread { stroke: var(--ink); stroke-width: 1.5; }
.bars .number { text-align: right; }
"""


def page(result: Result) -> str:
    on = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in machine().items())
    found = "".join(f"<li>{prose(finding)}</li>" for finding in result.findings)
    body = (
        f'<section class="part"><h1>{text(result.bench)}</h1><p>{prose(result.about)}</p>'
        f'<p class="said">{text(on)}</p>'
        + (f"<ul>{found}</ul>" if found else "")
        + "</section>"
        + "".join(_bars(column, result) for column in result.columns if column.drawn)
        + _table(result)
    )
    footer = (
        f"Made by penstock {text(__version__)}. A bar is the median of all rounds; the line on it tells how"
        " far they were apart."
    )
    return document(f"penstock bench {result.bench}", "bench", body, footer, _CSS)


def _bars(column: Column, result: Result) -> str:
    rows = [row for row in result.rows if row.get(column.key) is not None]
    most = max((_high(row[column.key]) for row in rows), default=0.0)
    if not most:
        return ""
    bars = "".join(
        f"<span>{text(name_of(row, result.columns))}</span>{_bar(row[column.key], most, column)}"
        f'<span class="number">{text(column.text(row[column.key]))}</span>'
        for row in rows
    )
    return f'<section class="part"><h2>{text(column.heading)}</h2><div class="bars">{bars}</div></section>'


def _bar(value: Value, most: float, column: Column) -> str:
    middle = value.middle if isinstance(value, Spread) else float(value or 0)
    line = ""
    if isinstance(value, Spread):
        low, high = (f"{share / most:.2%}" for share in (value.low, value.high))
        line = f'<line class="spread" x1="{low}" x2="{high}" y1="50%" y2="50%"/>'
    title = text(column.spread(value) or column.text(value))
    return (
        f'<svg role="img"><title>{title}</title>'
        f'<rect class="bar" width="{middle / most:.2%}" height="100%"/>{line}</svg>'
    )


def _high(value: Value) -> float:
    return value.high if isinstance(value, Spread) else float(value or 0)


def name_of(row: Row, columns: Sequence[Column]) -> str:
    """What tells a row from the others: its words."""
    words = (row.get(column.key) for column in columns)
    return ", ".join(str(word) for word in words if isinstance(word, str))


def _table(result: Result) -> str:
    head = "".join(f"<th>{text(column.heading)}</th>" for column in result.columns)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td>{text(column.text(row.get(column.key)))}"
            + (f" <small>({spread})</small>" if (spread := column.spread(row.get(column.key))) else "")
            + "</td>"
            for column in result.columns
        )
        + "</tr>"
        for row in result.rows
    )
    return (
        '<section class="part"><h2>All figures</h2><div class="scroll" tabindex="0"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></section>"
    )
