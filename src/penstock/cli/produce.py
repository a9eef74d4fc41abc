"""`penstock produce`: events into a pipeline's topic, at a set rate."""

from __future__ import annotations

import threading
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import (
    INTERRUPTED,
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
    app.command("produce", rich_help_panel="Pipelines")(produce_command)


def produce_command(
    spec: SpecArgument,
    data: DataOption = None,
    settings: SetOption = None,
    rate: Annotated[str, typer.Option(help='Events a second, e.g. 5000 or "20k/s".')] = "5,000/s",
    seconds: Annotated[float | None, typer.Option(help="Stop after this long; by default on Ctrl-C.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same events and flaws.")] = 7,
    flaws: Annotated[
        bool,
        typer.Option(help="Malformed, invalid, late and repeated events among them, or only good ones."),
    ] = True,
    processes: Annotated[
        int, typer.Option(min=1, help="So many share the rate: one makes 100,000 events a second or more.")
    ] = 1,
    close_sessions: Annotated[
        bool,
        typer.Option(
            help="At the end move the event clock on, so that all sessions or windows become final."
        ),
    ] = False,
    stats: Annotated[
        Path | None, typer.Option(help="Append statistics to this file each second, as JSON lines.")
    ] = None,
    json: JsonOption = None,
    with_parent: Annotated[
        bool, typer.Option(hidden=True, help="End when the starting process is gone.")
    ] = False,
) -> None:
    """Send generated events, on schedule, with flaws, and keep a record of all that was sent.

    The schedule is open loop: when Kafka cannot keep up the producer falls behind, says so, and catches up.

    Examples:
      penstock produce clickstream --rate 20k/s --seconds 60
      penstock produce clickstream --rate 250k/s --processes 2
      penstock produce transactions
    """
    stop = threading.Event()
    stop_on_signal(stop)
    if with_parent:
        stop_with_parent(stop)
    from penstock.cli.producing import parse_rate, produce_records
    from penstock.produce.shipped import plan_for

    with readable_errors():
        described = load_spec(spec, settings)
        target = parse_rate(rate)
        where = DataDir.at(data)
        bounds = ["--rate", str(target.eps / processes)] + (["--seconds", str(seconds)] if seconds else [])
        bounds += [] if flaws else ["--no-flaws"]
        bounds += [part for one in settings or () for part in ("--set", one)]
        plan = plan_for(described, seed)
        final = produce_records(
            described,
            where,
            target,
            seconds,
            plan if flaws else plan.flawless(),
            stop,
            close_sessions,
            stats,
            [
                [spec, "--data", str(where.root), "--seed", str(seed + number), *bounds]
                for number in range(processes if processes > 1 else 0)
            ],
        )
        write_json(json, {**asdict(final), "verdict": "pass" if final.failed == 0 else "fail"})
    if final.failed:
        raise typer.Exit(1)
    if stop.is_set() and seconds is not None:
        raise typer.Exit(INTERRUPTED)
