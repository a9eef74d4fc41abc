"""The `penstock` command: one file a group of commands."""

from __future__ import annotations

import os

import typer

from penstock import __version__
from penstock.cli import (
    audit,
    bench,
    check,
    dead_letters,
    demo,
    explain,
    faults,
    lag,
    plan,
    prepare,
    produce,
    report,
    run,
    services,
    spec,
    web,
)
from penstock.cli.common import errors, readable_errors

app = typer.Typer(
    name="penstock",
    help="Real-time pipelines from Kafka through Spark, in Python: fresh, exactly once, and never a mystery.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
services.add_to(app)
prepare.add_to(app)
check.add_to(app)
run.add_to(app)
produce.add_to(app)
demo.add_to(app)
audit.add_to(app)
lag.add_to(app)
spec.add_to(app)
explain.add_to(app)
plan.add_to(app)
dead_letters.add_to(app)
faults.add_to(app)
web.add_to(app)
report.add_to(app)
bench.add_to(app)


@app.callback(invoke_without_command=True)
def _main(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit
    if os.environ.get("PENSTOCK_UNTUNED"):
        from penstock.tuning import UNTUNED, untuned

        with readable_errors(2):
            back = untuned()
        errors.print(f"{UNTUNED}: {len(back)} settings are at their systems' own values", highlight=False)


__all__ = ["app"]
