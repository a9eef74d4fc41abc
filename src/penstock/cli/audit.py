"""`penstock audit`: is anything lost, is anything doubled."""

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
from penstock.errors import SpecError
from penstock.paths import DataDir


def add_to(app: typer.Typer) -> None:
    app.command("audit", rich_help_panel="Pipelines")(audit_command)


def audit_command(
    spec: SpecArgument,
    data: DataOption = None,
    settings: SetOption = None,
    every: Annotated[
        str | None, typer.Option(help='Go on until Ctrl-C, and look this often, e.g. "30 seconds".')
    ] = None,
    from_batch: Annotated[
        int,
        typer.Option(min=0, help="Do not look for rows of earlier batches: they were deleted on purpose."),
    ] = 0,
    metrics: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="With --every: serve metrics on this port of 127.0.0.1."),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Count what a pipeline lost or doubled, while it runs or afterwards.

    Three comparisons: the offsets of the batches with each other (no hole, no overlap), the rows that each
    batch's receipt tells of with the rows that the sinks hold, and, where `penstock produce` has kept a
    record of what it sent, every single result with what it must be.

    It reads committed records a page at a time, and with --every only what is new; it rests so long between
    two looks that it is busy for 3 % of the time at most. The exit status is 0 when nothing is lost or
    doubled.

    Examples:
      penstock audit clickstream
      penstock audit my.toml --every '30 seconds' --metrics 9108
    """
    stop = threading.Event()
    stop_on_signal(stop)
    from penstock.cli.auditing import audit_pipeline

    with readable_errors():
        described = load_spec(spec, settings)
        if metrics is not None and every is None:
            raise SpecError("--metrics", ["needs --every: an audit that is over serves nothing"])
        passed = audit_pipeline(described, DataDir.at(data), stop, every, from_batch, metrics, json)
    if not passed:
        raise typer.Exit(1)
