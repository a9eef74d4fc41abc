"""`penstock run`: a pipeline in the foreground."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from penstock.cli.common import (
    DataOption,
    JsonOption,
    SetOption,
    SpecArgument,
    load_spec,
    readable_errors,
    stop_on_signal,
    stop_with_parent,
    write_json,
)
from penstock.paths import DataDir


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Pipelines")(run)


def run(
    spec: SpecArgument,
    data: DataOption = None,
    settings: SetOption = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after this long; by default on Ctrl-C.")] = None,
    json: JsonOption = None,
    create_topics: Annotated[
        bool, typer.Option(help="Create the source topic when it is not there.")
    ] = False,
    adopt: Annotated[
        list[str] | None,
        typer.Option(help="Take what this sink holds as right, although it lost its position."),
    ] = None,
    accept_loss: Annotated[
        bool, typer.Option(help="Go on without records that were deleted before they were read.")
    ] = False,
    after: Annotated[
        str,
        typer.Option(
            metavar="PIPELINE",
            help="With a new name: begin behind the last batch of this pipeline, without its state.",
        ),
    ] = "",
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*]",
    metrics: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="PORT",
            help="Serve metrics for Prometheus on this port of 127.0.0.1; 0 takes a free one.",
        ),
    ] = None,
    with_parent: Annotated[
        bool, typer.Option(hidden=True, help="End when the starting process is gone.")
    ] = False,
) -> None:
    """Run a pipeline until Ctrl-C, and go on from its checkpoint the next time.

    Examples:
      penstock run clickstream
      penstock run my.toml --set 'sessions.gap=10 minutes' --seconds 60 --json out.json
      penstock run clickstream --set name=clickstream-2 --after clickstream
      penstock run clickstream --metrics 9109
    """
    stop = threading.Event()
    stop_on_signal(stop)
    if with_parent:
        stop_with_parent(stop)
    from penstock.cli.running import report, run_pipeline
    from penstock.preflight import Start

    with readable_errors():
        described = load_spec(spec, settings)
        where = DataDir.at(data)
        start = Start(master, tuple(adopt or ()), create_topics, accept_loss, after)
        recorder = run_pipeline(described, where, stop, seconds, start, metrics)
        write_json(json, report(recorder))
