"""`penstock bench`: experiments, one after the other, and what they found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from penstock.cli.common import JsonOption, console, readable_errors, say, write_json

if TYPE_CHECKING:
    from penstock.bench.result import Column, Result, Row

bench = typer.Typer(no_args_is_help=True)

RoundsOption = Annotated[int, typer.Option(min=1, help="Counted rounds, behind one that warms up.")]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", help="Also write the outcome to this file, as a page with plots.")
]
_WIDE = 10
"""More columns than this do not fit on a terminal side by side."""

EventsOption = Annotated[str, typer.Option(help="How many there are in the topic.")]


def add_to(app: typer.Typer) -> None:
    app.add_typer(bench, name="bench", rich_help_panel="Pipelines")


@bench.callback()
def about() -> None:
    """Measure what this machine does, and what each choice costs.

    Every experiment has services and data of its own, waits until no other runs, warms up, and takes its
    variants in turns. Compare ratios and CPU seconds: a machine that does other things changes the rest.

    Examples:
      penstock bench drain
      penstock bench baseline --rounds 1
      penstock bench stages --events 1,000,000 --json stages.json --html stages.html
    """


@bench.command()
def drain(
    events: EventsOption = "3,000,000",
    rounds: RoundsOption = 3,
    job: Annotated[list[str] | None, typer.Option(help="Of these only: tuned, plain. Repeatable.")] = None,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """How fast a full topic is worked off: tuned and plain, exactly once and at least once."""
    from penstock.bench import drain as work

    with readable_errors():
        jobs = [name for name in work.JOBS if not job or name.split()[-1] in job]
        show(work.measure(_number(events), rounds, say, jobs), json, html)


@bench.command()
def stages(
    events: EventsOption = "2,000,000",
    rounds: RoundsOption = 2,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """What each stage and each sink does by itself, what limits it, and what that makes of the whole."""
    from penstock.bench import stages as work

    with readable_errors():
        show(work.measure(_number(events), rounds, say), json, html)


@bench.command()
def growth(
    events: EventsOption = "1,000,000",
    rounds: RoundsOption = 2,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """What an event costs as sessions alive, batches, partitions and reference data grow."""
    from penstock.bench import growth as work

    with readable_errors():
        show(work.measure(_number(events), rounds, say), json, html)


@bench.command()
def guarantees(
    events: EventsOption = "600,000",
    rounds: RoundsOption = 3,
    rate: Annotated[str, typer.Option(help="Events a second, for the latency.")] = "3,000",
    seconds: Annotated[float, typer.Option(help="How long to measure the latency.")] = 30,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """What exactly once costs against at least once, and what an interval between batches does to both."""
    from penstock.bench import guarantees as work

    with readable_errors():
        show(work.measure(_number(events), rounds, _number(rate), seconds, say), json, html)


@bench.command()
def baseline(
    payments: Annotated[str, typer.Option(help="How many there are in the topic of payments.")] = "200,000",
    clicks: Annotated[str, typer.Option(help="How many there are in the topic of clicks.")] = "1,500,000",
    rounds: Annotated[int, typer.Option(min=1, help="Each run is a process of its own.")] = 2,
    rate: Annotated[
        str | None,
        typer.Option(
            help="Payments a second, for the latency; by default 70 % of what defaults can do here."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long to measure the latency.")] = 30,
    recovery: Annotated[float, typer.Option(help="How long to wait for lag to be back after a surge.")] = 90,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """Defaults everywhere against the whole strategy: throughput, CPU, memory, latency, a surge."""
    from penstock.bench import baseline as work
    from penstock.bench.variants import PAYMENTS, SESSIONS

    with readable_errors():
        events = {PAYMENTS: _number(payments), SESSIONS: _number(clicks)}
        load = work.Load(_number(rate) if rate else None, seconds, recovery)
        show(work.measure(events, rounds, load, say), json, html)


def show(result: Result, json: Path | None, html: Path | None) -> None:
    """A table on the terminal, and files where they are asked for."""
    table = _table(result) if len(result.columns) <= _WIDE else _lying(result)
    console.print()
    console.print(table)
    for finding in result.findings:
        say(finding)
    write_json(json, result.to_json())
    if html is not None:
        from penstock.bench.page import page

        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(page(result), encoding="utf-8")


def _table(result: Result) -> Table:
    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(result.columns):
        is_word = any(isinstance(row.get(column.key), str) for row in result.rows)
        table.add_column(column.heading, justify="left" if is_word or place == 0 else "right")
    for row in result.rows:
        table.add_row(*(_cell(column, row) for column in result.columns))
    return table


def _lying(result: Result) -> Table:
    """The same with a line for each column, where there are too many for a terminal."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for place in range(1 + len(result.rows)):
        table.add_column(justify="right" if place else "left")
    for column in result.columns:
        table.add_row(column.heading, *(_cell(column, row) for row in result.rows))
    return table


def _cell(column: Column, row: Row) -> str:
    value = row.get(column.key)
    spread = column.spread(value)
    return column.text(value) + (f" [dim]({spread})[/]" if spread else "")


def _number(text: str) -> int:
    from penstock.errors import SpecError
    from penstock.spec.units import parse_count

    try:
        return int(parse_count(text))
    except ValueError as error:
        raise SpecError("penstock bench", [str(error)]) from error
