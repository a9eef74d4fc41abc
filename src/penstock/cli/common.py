"""What all commands share: options, how errors are shown, how a run is told to stop.

Commands import what does the work when they run: Spark, Arrow and the clients take seconds to load, and a
help text must not wait for them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from penstock.errors import PenstockError, ServiceError, SpecError
from penstock.paths import DataDir, shipped

if TYPE_CHECKING:
    from penstock.local.services import Addresses
    from penstock.spec import PipelineSpec

console = Console()
errors = Console(stderr=True)

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", help="Directory for everything that is kept; $PENSTOCK_DATA or .penstock by default."
    ),
]
JsonOption = Annotated[
    Path | None, typer.Option("--json", help="Also write the outcome to this file, as JSON.")
]
SpecArgument = Annotated[
    str, typer.Argument(help="A pipeline: a TOML file, or the name of a shipped one, such as clickstream.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Override a key of the spec, e.g. --set 'sessions.gap=10 seconds'. Repeatable."
    ),
]

CRASHED = 70
"""The exit status of a pipeline that died of something else than a decision: starting it again may help."""

INTERRUPTED = 130
"""The exit status of a command that was told to stop before its end, as shells have it."""


@contextmanager
def readable_errors(status: int = 1) -> Iterator[None]:
    """Print what a person can act on without a traceback, and exit with the status (2 for a wrong spec)."""
    try:
        yield
    except PenstockError as error:
        fail(error, status)


def fail(error: PenstockError, status: int = 1) -> NoReturn:
    errors.print("[red]error:[/red] ", end="")
    errors.print(error.message, markup=False, highlight=False, soft_wrap=True)
    if error.hint:
        errors.print(error.hint, markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(2 if isinstance(error, SpecError) else status)


def say(text: str) -> None:
    """One line to the person."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def load_spec(name: str, settings: Sequence[str] | None = None) -> PipelineSpec:
    """Load a spec by path or by the name of a shipped pipeline, with --set overrides."""
    from penstock.spec import load

    overrides = {}
    for setting in settings or ():
        key, separator, value = setting.partition("=")
        if not separator:
            raise SpecError("--set", [f'"{setting}": expected KEY=VALUE, e.g. sessions.gap="10 seconds"'])
        overrides[key.strip()] = value.strip()
    return load(spec_path(name), overrides=overrides)


def spec_path(name: str) -> Path:
    path = Path(name)
    if path.suffix == ".toml" or path.exists():
        return path
    ours = shipped("pipelines") / f"{name}.toml"
    if ours.exists():
        return ours
    known = ", ".join(sorted(found.stem for found in shipped("pipelines").glob("*.toml")))
    raise SpecError(name, [f"no such file, and no shipped pipeline of that name (shipped: {known})"])


def resolve_addresses(spec: PipelineSpec, data: DataDir, *, only: Collection[str] = ()) -> Addresses:
    """The outside addresses that the spec names, the embedded services' for the rest.

    All services of the spec must be there, or only those that are named.
    """
    from penstock.local.services import Addresses, Services

    asked = {name: getattr(spec.services, name) for name in ("kafka", "clickhouse", "postgres")}
    needed = set(only) or {"kafka", *(sink.kind for sink in spec.sink)}
    if not only and any(table.query for table in spec.enrich):
        needed.add("postgres")
    embedded = [name for name, address in asked.items() if address == "embedded" and name in needed]
    services = Services(data, only=embedded or ("kafka",))
    if embedded:
        down = [status.name for status in services.status() if status.state != "running"]
        if down:
            raise ServiceError(
                f"not running: {', '.join(down)}", hint="Start the embedded services with: penstock up"
            )
    ours = services.addresses()
    return Addresses(
        **{name: getattr(ours, name) if address == "embedded" else address for name, address in asked.items()}
    )


def write_json(path: Path | None, content: dict[str, Any]) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n")


def stop_on_signal(stop: threading.Event) -> None:
    """Ctrl-C and a polite kill ask for a stop; a second Ctrl-C insists."""

    def asked(number: int, _frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            sys.exit(INTERRUPTED)
        stop.set()

    signal.signal(signal.SIGINT, asked)
    signal.signal(signal.SIGTERM, asked)


def stop_with_parent(stop: threading.Event, *, then: Callable[[], None] | None = None) -> None:
    """Ask for a stop when the command that started this process is gone, however it went."""
    parent = os.getppid()

    def watch() -> None:
        while not stop.wait(0.5):
            if os.getppid() != parent:
                stop.set()
        if then is not None and os.getppid() != parent:
            then()

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
