"""`penstock plan`: how large everything must be for a load, with every step of the arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from penstock.cli.common import JsonOption, console, readable_errors, say, write_json
from penstock.errors import SpecError

if TYPE_CHECKING:
    from penstock.sizing import Figures, Plan

_T = TypeVar("_T")


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Pipelines")(plan)


def plan(
    rate: Annotated[str, typer.Option(help='Events a second, e.g. 200,000 or "20k/s".')],
    size: Annotated[str, typer.Option(help='A record, in bytes or e.g. "2 KiB".')] = "230",
    state: Annotated[
        str | None, typer.Option(help="Sessions or windows open at once; none unless given.")
    ] = None,
    lookup: Annotated[str | None, typer.Option(help="Rows of reference data; none unless given.")] = None,
    p99: Annotated[
        str, typer.Option(help="The objective: from an event's creation to its row in a sink.")
    ] = "5 seconds",
    replication: Annotated[int, typer.Option(min=1, help="Replicas of a record.")] = 3,
    brokers: Annotated[
        int | None, typer.Option(min=1, help="Brokers; as many as replicas unless given.")
    ] = None,
    retention: Annotated[str, typer.Option(help="How long the topic keeps records.")] = "1 day",
    outage: Annotated[str, typer.Option(help="How long the pipeline may be away.")] = "1 hour",
    producers: Annotated[int, typer.Option(min=1, help="Producers that share the rate.")] = 1,
    readers: Annotated[int, typer.Option(min=1, help="Groups that read the topic, this one too.")] = 1,
    executor_cores: Annotated[int, typer.Option(min=1, help="Cores of an executor.")] = 4,
    partition_rate: Annotated[
        str | None, typer.Option(help="What one partition takes, e.g. 50k/s; worked out unless given.")
    ] = None,
    cpu: Annotated[
        float | None, typer.Option(help="CPU-seconds per million events, all told, instead of the figures.")
    ] = None,
    batch_time: Annotated[
        str | None, typer.Option(help="What a batch takes however small, instead of the figure.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Work out partitions, cores, batches, memory, producers and brokers for a load, and show every step.

    Nothing is planned to be busier than 70 %. The figures are those that experiments left on this machine;
    where there are none, shipped ones of another machine, and that is said (docs/plan.md). The exit status
    is 1 when records would be lost.

    Examples:
      penstock plan --rate 200,000 --size 230 --state 1,000,000
      penstock plan --rate 20k/s --state 200,000 --p99 '3 seconds' --replication 1 --json plan.json
    """
    from penstock.sizing import Wanted, figures
    from penstock.sizing import plan as make
    from penstock.spec.units import Duration, Rate, parse_count

    def duration_s(text: str) -> float:
        return Duration.parse(text).seconds

    with readable_errors(2):
        eps = _read("--rate", rate, Rate.parse).eps
        wanted = Wanted(
            rate_eps=eps,
            size_bytes=_read("--size", size, _bytes),
            alive=_read("--state", state, parse_count) if state else 0,
            lookup_rows=_read("--lookup", lookup, parse_count) if lookup else 0,
            p99_s=_read("--p99", p99, duration_s),
            replication=replication,
            brokers=replication if brokers is None else brokers,
            retention_s=_read("--retention", retention, duration_s),
            outage_s=_read("--outage", outage, duration_s),
            producers=producers,
            readers=readers,
            executor_cores=executor_cores,
            partition_eps=_read("--partition-rate", partition_rate, Rate.parse).eps
            if partition_rate
            else None,
        )
        known = figures(
            event_us=None if cpu is None else _read("--cpu", cpu, _above_0),
            key_us=None if cpu is None else 0.0,
            record_bytes=None if cpu is None else wanted.size_bytes,
            batch_s=_read("--batch-time", batch_time, duration_s) if batch_time else None,
        )
        made = make(wanted, known)
    _show(made, known)
    write_json(json, _as_json(made, wanted, known))
    raise typer.Exit(1 if made.problems else 0)


def _read(option: str, given: Any, parse: Callable[[Any], _T]) -> _T:
    try:
        return parse(given)
    except ValueError as error:
        raise SpecError(option, [f'"{given}": {error}']) from None


def _bytes(text: str) -> float:
    from penstock.spec.units import Size, parse_count

    return float(parse_count(text)) if text.replace(",", "").strip().isdigit() else Size.parse(text).bytes


def _above_0(number: float) -> float:
    if not 0 < number < float("inf"):
        raise ValueError("expected a number above 0")
    return number


def _show(made: Plan, known: Figures) -> None:
    from rich.table import Table
    from rich.text import Text

    from penstock.sizing.sheet import amount

    for subject, steps in made.steps.items():
        table = Table(box=None, pad_edge=False, show_header=False, title_justify="left")
        table.title = Text(subject, style="bold")
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True, style="bold")
        table.add_column(overflow="fold")
        for step in steps:
            numbers = f"\n= {step.numbers}" if step.numbers else ""
            table.add_row(step.name, step.text, Text(step.formula).append(numbers, style="dim"))
        console.print(table)
        console.print()
    table = Table(box=None, pad_edge=False, show_header=False, title_justify="left")
    table.title = Text("the figures that it rests on", style="bold")
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for figure in vars(known).values():
        source = figure.source if figure.here else f"another machine: {figure.source}"
        table.add_row(figure.what, amount(figure.value, figure.unit), Text(source, style="dim"))
    console.print(table)
    if not all(figure.here for figure in vars(known).values()):
        say("\nThose of another machine are a guess for this one; `make bench` measures some of them here.")
    settings = " ".join(f"--set '{key}={set_to}'" for key, set_to in made.settings.items())
    say(f"\npenstock run SPEC {settings}")
    for problem in made.problems:
        console.print(Text(f"problem: {problem}", style="red"))


def _as_json(made: Plan, wanted: Any, known: Figures) -> dict[str, Any]:
    return {
        "wanted": asdict(wanted),
        "figures": asdict(known),
        "steps": {subject: [asdict(step) for step in steps] for subject, steps in made.steps.items()},
        "settings": dict(made.settings),
        "problems": list(made.problems),
    }
