"""`penstock lag`: how far behind a pipeline is, by partition, and where it is going."""

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
)
from penstock.paths import DataDir


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Pipelines")(lag)


def lag(
    spec: SpecArgument,
    data: DataOption = None,
    settings: SetOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Look every 2 seconds, until Ctrl-C.")] = False,
    json: JsonOption = None,
) -> None:
    """Show what a pipeline has not read yet: records and their age, by partition, the worst first.

    It works while the pipeline runs and when it does not: positions come from the pipeline's journal, the
    ends of the topic from Kafka if it answers. The exit status is 1 when a partition is stalled, stopped, or
    growing so fast that the topic will delete records within a day before they are read; 2 when nothing is
    known; else 0.

    Examples:
      penstock lag clickstream
      penstock lag my.toml --watch
      penstock lag clickstream --json lag.json
    """
    stop = threading.Event()
    if watch:
        stop_on_signal(stop)
    from penstock.cli.lagging import Lagging, show, watch_lag

    with readable_errors(2):
        looking = Lagging(load_spec(spec, settings), DataDir.at(data), json)
        if watch:
            report = watch_lag(looking, stop)
        else:
            report = looking.look()
            show(report)
    raise typer.Exit(0 if report.is_well else 1)
