"""`penstock up`, `down` and `status`: the embedded services."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from penstock.cli.common import DataOption, JsonOption, console, readable_errors, say, write_json
from penstock.paths import DataDir

BrokersOption = Annotated[int, typer.Option("--brokers", help="1, or 3 with replication 3 and min ISR 2.")]


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Services")(up)
    app.command(rich_help_panel="Services")(down)
    app.command(rich_help_panel="Services")(status)


def up(data: DataOption = None, brokers: BrokersOption = 1) -> None:
    """Start a real Kafka, ClickHouse and PostgreSQL on this machine, on 127.0.0.1.

    What runs already is left alone. They run until [bold]penstock down[/bold].

    Example: penstock up --brokers 3
    """
    from penstock.local.services import Services

    with readable_errors():
        addresses = Services(DataDir.at(data), brokers=brokers, say=say).start()
        for name, address in asdict(addresses).items():
            say(f"{name:<11} {address}")


def down(data: DataOption = None) -> None:
    """Stop the embedded services. Their data stay.

    Example: penstock down
    """
    from penstock.local.services import Services

    with readable_errors():
        services = Services(DataDir.at(data), say=say)
        running = [status.name for status in services.status() if status.state == "running"]
        services.stop()
        say(f"stopped {', '.join(running)}" if running else "nothing was running")


def status(data: DataOption = None, json: JsonOption = None) -> None:
    """Show the embedded services; exit with 1 unless all of them run.

    Example: penstock status --json services.json
    """
    from penstock.local.services import Services

    with readable_errors():
        found = Services(DataDir.at(data)).status()
        table = Table(box=None, pad_edge=False)
        for heading in ("service", "state", "pid", "address", "up for", "data", "log"):
            table.add_column(heading, overflow="fold")
        for one in found:
            colour = {"running": "green", "crashed": "red"}.get(one.state, "dim")
            since = str(datetime.now(UTC) - one.since).split(".")[0] if one.since else ""
            size = f"{one.data_bytes / 1e6:,.0f} MB"
            table.add_row(
                one.name,
                f"[{colour}]{one.state}[/]",
                str(one.pid or ""),
                one.address,
                since,
                size,
                str(one.log),
            )
        console.print(table)
        rows = [
            {**asdict(one), "since": one.since.isoformat() if one.since else None, "log": str(one.log)}
            for one in found
        ]
        write_json(json, {"services": rows})
    if any(one.state != "running" for one in found):
        raise typer.Exit(1)
