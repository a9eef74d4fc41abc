"""`penstock spec`: the reference of what a pipeline's description may say."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.common import SetOption, load_spec, readable_errors, say


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Pipelines")(spec)


def spec(
    name: Annotated[
        str | None, typer.Argument(help="Check this pipeline and print it with every default.")
    ] = None,
    settings: SetOption = None,
) -> None:
    """Print the reference of all keys, or one pipeline as it is understood.

    Examples: penstock spec; penstock spec clickstream --set 'sessions.gap=10 seconds'
    """
    from penstock.spec import reference, to_toml

    with readable_errors():
        say(to_toml(load_spec(name, settings)) if name else reference())
