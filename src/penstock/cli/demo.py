"""`penstock demo`: everything at once, on this machine, audited at the end."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Annotated

import typer

from penstock.cli.common import (
    INTERRUPTED,
    DataOption,
    JsonOption,
    SetOption,
    load_spec,
    readable_errors,
    say,
    stop_on_signal,
    write_json,
)
from penstock.cli.services import BrokersOption
from penstock.errors import SpecError
from penstock.paths import DataDir, default_data_dir

_SHORT_SESSIONS = ("sessions.gap=10 seconds", "sessions.lateness=20 seconds")
_SHORT_WINDOWS = ("windows.size=10 seconds", "windows.lateness=20 seconds")


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Pipelines")(demo)


def demo(
    name: Annotated[str, typer.Argument(help="A shipped pipeline.")] = "clickstream",
    data: DataOption = None,
    settings: SetOption = None,
    seconds: Annotated[float, typer.Option(help="How long to produce.")] = 60.0,
    rate: Annotated[str, typer.Option(help='Events a second, e.g. 5000 or "20k/s".')] = "5,000/s",
    seed: Annotated[int, typer.Option(help="The same seed gives the same events and flaws.")] = 7,
    brokers: BrokersOption = 1,
    web: Annotated[bool, typer.Option(help="Show it in a browser, too.")] = True,
    json: JsonOption = None,
) -> None:
    """Start the services, run a pipeline, send it events, watch it, and audit what came out.

    Stopped or killed at any moment, the same command goes on from where it was. The exit status is the
    audit's verdict: 0 when nothing was lost or doubled and every result equals the oracle's.

    Examples:
      penstock demo
      penstock demo transactions
      penstock demo behaviour --rate 20k/s --seconds 90 --json out.json
    """
    stop = threading.Event()
    stop_on_signal(stop)
    from penstock.cli.demonstration import Demonstration, page_of
    from penstock.local.services import Services
    from penstock.toolchain import ensure_jars, ensure_java, ensure_kernel

    with readable_errors():
        shipped = load_spec(name, settings)
        shorter = _SHORT_SESSIONS if shipped.sessions else _SHORT_WINDOWS if shipped.windows else ()
        overrides = [*shorter, *(settings or [])]
        spec = load_spec(name, overrides)
        if spec.engine != "kernel":
            raise SpecError(name, [f'engine = "{spec.engine}": the audit needs rows that only kernel makes'])
        # Beside what `penstock run` keeps by default: the same pipeline runs there with another gap.
        where = DataDir.at(data or default_data_dir() / "demo")
        if spec.sessions:
            say(f"Sessions of this demo end after {spec.sessions.gap} without an event, to be seen to end.")
        if spec.windows:
            say(f"Windows of this demo are {spec.windows.size} long, to be seen to end.")
        say(f"Data and logs are in {where.root}")
        ensure_java(say)
        ensure_jars("kafka", say)
        ensure_kernel(ensure_jars("spark", say), say)
        needed = {"kafka", *(sink.kind for sink in spec.sink)}
        services = Services(where, brokers=brokers, tie_to_parent=True, say=say, only=needed)
        show = Demonstration(spec, where, services, name, overrides, rate, seconds, seed, stop)
        with page_of(spec, where) if web else nullcontext():
            try:
                report = show.run()
            finally:
                show.end()
        if report is None:
            say("stopped; the same command goes on from here")
            raise typer.Exit(INTERRUPTED)
        write_json(json, report)
    if web:
        say(f"To look at it again: penstock web --data {where.root}")
        say(f"To keep it as a file: penstock report {spec.name} --data {where.root}")
    if report["verdict"] != "pass":
        raise typer.Exit(1)
