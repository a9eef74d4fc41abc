"""`penstock explain`: the settings of Kafka, Spark and the stores, and why they are what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.common import JsonOption, console, readable_errors, say, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.tuning import Setting


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Pipelines")(explain)


def explain(
    name: Annotated[
        str | None,
        typer.Argument(metavar="SETTING", help="A setting, such as producer.linger.ms, or an area of them."),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Show the settings that Kafka, Spark, the JVMs and the stores are given: default, ours, why, its effect.

    Those that are about correctness are never turned off; others can be, for an experiment, by
    PENSTOCK_UNTUNED (docs/tuning.md).

    Examples:
      penstock explain
      penstock explain state
      penstock explain producer.linger.ms
    """
    from penstock.tuning import areas, find, settings

    with readable_errors(2):
        if name is None or name in areas():
            chosen = [one for one in settings() if name in (None, one.area.name)]
            _list(chosen)
        else:
            chosen = [find(name, also=areas())]
            _show(chosen[0])
        write_json(json, {"settings": [_as_json(one) for one in chosen]})


def _list(chosen: Sequence[Setting]) -> None:
    from rich.table import Table
    from rich.text import Text

    from penstock.tuning import UNTUNED, areas, untuned

    back = untuned()
    for area in areas().values():
        rows = [one for one in chosen if one.area is area]
        if not rows:
            continue
        table = Table(box=None, pad_edge=False, title_justify="left", expand=False)
        table.title = Text.assemble((area.name, "bold"), f": {area.what} ({area.system})")
        for heading in ("setting", "default", "ours", "measured"):
            table.add_column(heading, overflow="fold", no_wrap=heading == "setting")
        for one in rows:
            style = "bold" if one.correctness else "dim" if one.id in back else ""
            cells = (one.name, _last(one.usual), _last(one.given), "yes" if one.measured else "")
            table.add_row(*(Text(cell) for cell in cells), style=style)
        console.print(table)
        console.print()
    say("bold: about correctness, never turned off. Why one is what it is: penstock explain SETTING")
    if back:
        say(f"turned back by {UNTUNED}: {', '.join(sorted(back))}")


def _last(text: str) -> str:
    """A Java class without its package."""
    return text.rpartition(".")[2] if text.startswith("org.") else text


def _show(setting: Setting) -> None:
    from rich.table import Table
    from rich.text import Text

    from penstock.tuning import UNTUNED, untuned

    state = "about correctness: never turned off" if setting.correctness else f"{UNTUNED} can turn it back"
    if setting.id in untuned():
        state = f"turned back to the default by {UNTUNED}"
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for heading, text in (
        ("setting", setting.id),
        ("called", setting.key if setting.area.prefix else ""),
        ("of", f"{setting.area.what} ({setting.area.system})"),
        ("default", setting.usual),
        ("ours", setting.given),
        ("why", setting.why),
        ("effect", setting.effect),
        ("measured by", setting.measured),
        ("", state),
    ):
        if text:
            table.add_row(heading, Text(text))
    console.print(table)


def _as_json(setting: Setting) -> dict[str, Any]:
    from penstock.tuning import untuned

    return {
        "id": setting.id,
        "area": setting.area.name,
        "name": setting.key,
        "of": setting.area.what,
        "system": setting.area.system,
        "default": setting.default,
        "ours": setting.ours,
        "rule": setting.rule or None,
        "correctness": setting.correctness,
        "why": setting.why,
        "effect": setting.effect,
        "measured_by": setting.measured or None,
        "untuned": setting.id in untuned(),
    }
