"""`penstock bench`: experiments, one after the other, and what they found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
        known = {name.split()[-1]: name for name in work.JOBS}
        jobs = [_one_of(name, known) for name in job or known]
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
def peers(
    events: EventsOption = "3,000,000",
    rounds: RoundsOption = 2,
    peer: Annotated[
        list[str] | None,
        typer.Option(help="Of these only: flink heap, flink rocksdb, kafka streams, pyflink. Repeatable."),
    ] = None,
    at_least_once: Annotated[bool, typer.Option(help="Instead of exactly once.")] = False,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """The same job by Flink, Kafka Streams and PyFlink beside ours, all results checked to be equal.

    They are fetched and compiled on first use: some 400 MB.
    """
    from penstock.bench import side_by_side as work

    with readable_errors():
        known = {name: name for name in work.known()}
        names = [_one_of(name, known) for name in peer or known]
        guarantee: Literal["exactly_once", "at_least_once"] = (
            "at_least_once" if at_least_once else "exactly_once"
        )
        show(work.measure(_number(events), rounds, say, names, guarantee), json, html)


RateOption = Annotated[str, typer.Option(help="Events a second.")]
SecondsOption = Annotated[float, typer.Option(min=1, help="How long to measure.")]
WarmUpOption = Annotated[float, typer.Option(min=0, help="Seconds before that.")]


@bench.command()
def latency(
    rate: Annotated[list[str] | None, typer.Option(help="Events a second. Repeatable.")] = None,
    seconds: SecondsOption = 120,
    warm_up: WarmUpOption = 90,
    tier: Annotated[
        list[str] | None,
        typer.Option(
            help="Of these only: events, exactly, sessions. Or flink, flink-exactly to compare. Repeatable."
        ),
    ] = None,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """How long an event takes until it can be read, at set rates, in either tier."""
    from penstock.bench import latency as work

    with readable_errors():
        rates = [_number(one) for one in rate or ["20,000"]]
        asked = {"events": "events", "exactly": "events, exactly once", "sessions": "sessions, live"}
        peers = dict(zip(("flink", "flink-exactly"), work.PEERS, strict=True))
        tiers = [_one_of(name, asked | peers) for name in tier or asked]
        show(work.measure(rates, seconds, warm_up, say, tiers), json, html)


@bench.command()
def doubling(
    rate: RateOption = "10,000",
    seconds: SecondsOption = 45,
    warm_up: WarmUpOption = 90,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """What twice the rate does to latency, with defaults and with our settings, and where the time goes."""
    from penstock.bench import doubling as work

    with readable_errors():
        show(work.measure(_number(rate), seconds, warm_up, say), json, html)


@bench.command()
def formats(
    records: Annotated[str, typer.Option(help="How many of each format.")] = "200,000",
    rounds: RoundsOption = 4,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """What a click costs in JSON, MessagePack, Avro and Protobuf: to write, to read, in bytes."""
    from penstock.bench import formats as work

    with readable_errors():
        show(work.measure(_number(records), rounds, say), json, html)


@bench.command()
def skew(
    events: EventsOption = "2,000,000",
    hot: Annotated[float, typer.Option(min=0, max=1, help="The share of the hot key.")] = 0.8,
    rounds: RoundsOption = 3,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """What one key with most of the events does to throughput."""
    from penstock.bench import skew as work

    with readable_errors():
        show(work.measure(_number(events), rounds, hot, say), json, html)


@bench.command()
def lookup(
    users: Annotated[str, typer.Option(help="How many rows of reference data.")] = "1,000,000",
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """What reference data costs in memory, beside Spark's own broadcast."""
    from penstock.bench import lookup as work

    with readable_errors():
        show(work.measure(_number(users), say), json, html)


@bench.command()
def writers(
    store: Annotated[str, typer.Option(help="kafka, clickhouse or postgres.")] = "postgres",
    several: Annotated[
        list[int] | None, typer.Option("--writers", min=1, help="How many side by side. Repeatable.")
    ] = None,
    events: EventsOption = "200,000",
    batch: Annotated[str, typer.Option(help="Rows in a batch.")] = "20,000",
    rounds: RoundsOption = 1,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """How fast single events leave: written by the driver, and by several tasks."""
    from penstock.bench import writers as work

    with readable_errors():
        asked = _one_of(store, {name: name for name in work.STORES})
        numbers = several or [1, 2, 4]
        show(work.measure(asked, _number(events), _number(batch), numbers, rounds, say), json, html)


@bench.command()
def accuracy(
    rate: RateOption = "2,000",
    seconds: SecondsOption = 40,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """How right lag in time and end-to-end latency are, against the records' and a reader's clock."""
    from penstock.bench import accuracy as work

    with readable_errors():
        show(work.measure(_number(rate), seconds, say), json, html)


@bench.command()
def watching(
    events: EventsOption = "1,000,000",
    rounds: RoundsOption = 3,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """What it costs to be observed, and audited as well."""
    from penstock.bench import watched as work

    with readable_errors():
        show(work.measure(_number(events), rounds, say), json, html)


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


@bench.command()
def settings(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="As `penstock explain` has them; * stands for anything. By default all, area by area."
        ),
    ] = None,
    events: EventsOption = "1,000,000",
    rate: RateOption = "5,000",
    seconds: SecondsOption = 30,
    rounds: Annotated[int, typer.Option(min=1, help="Each run is a process of its own.")] = 1,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """What single settings of ours do: the clickstream without each of them, and as it is.

    A run takes more than a minute. What chance alone may well have done is not told of.

    Examples:
      penstock bench settings
      penstock bench settings source.kafka.max.poll.records 'state.*' --rounds 3
    """
    from penstock.bench import settings as work

    with readable_errors():
        wanted = work.Work(_number(events), _number(rate), seconds)
        show(work.measure(names or work.by_area(), wanted, rounds, say), json, html)


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


def _one_of(name: str, known: Mapping[str, str]) -> str:
    from penstock.errors import SpecError

    if name not in known:
        raise SpecError("penstock bench", [f'"{name}" is none of {", ".join(known)}'])
    return known[name]


def _table(result: Result) -> Table:
    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(result.columns):
        is_word = any(isinstance(row.get(column.key), str) for row in result.rows)
        justify: Literal["left", "right"] = "left" if is_word or place == 0 else "right"
        table.add_column(column.heading, justify=justify, overflow="fold")
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
