"""`penstock dead-letters`: the records that a pipeline set aside, listed, shown, and put back."""

from __future__ import annotations

import threading
from typing import Annotated, Literal

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
)
from penstock.paths import DataDir

Kind = Literal["rejected", "late", "duplicate", "refused"]
SinkOption = Annotated[
    str | None, typer.Option("--sink", help="Which sink, where the pipeline has several of dead letters.")
]
KindOption = Annotated[Kind | None, typer.Option("--kind", help="Only those of this kind.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Only those whose reason contains this text.")]
SinceOption = Annotated[
    str | None, typer.Option("--since", help='Only those of the last e.g. "10 minutes" or "2 hours".')
]
_PLACE = "Where it is: partition and offset, e.g. 3:120, as the list shows it."

group = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="dead-letters", rich_help_panel="Pipelines")


@group.callback()
def _group() -> None:
    """See the records that a pipeline set aside, and put them back once the cause is mended.

    Examples:
      penstock dead-letters list clickstream --since '1 hour'
      penstock dead-letters show clickstream 3:120
      penstock dead-letters replay clickstream --reason 'price_not_negative' --dry-run
    """


@group.command("list")
def list_command(
    spec: SpecArgument,
    data: DataOption = None,
    settings: SetOption = None,
    sink: SinkOption = None,
    kind: KindOption = None,
    reason: ReasonOption = "",
    since: SinceOption = None,
    limit: Annotated[int, typer.Option(min=0, help="How many of the newest to show.")] = 20,
    json: JsonOption = None,
) -> None:
    """Count dead letters by kind and reason, and show the newest.

    Numbers in reasons are counted as one: "at byte 12" and "at byte 40" are "at byte N".

    Examples:
      penstock dead-letters list clickstream
      penstock dead-letters list clickstream --kind rejected --since '10 minutes' --json letters.json
    """
    from penstock.cli.letters import chosen, list_letters, open_desk

    with readable_errors():
        selection = chosen(kind, reason, since)
        with open_desk(load_spec(spec, settings), DataDir.at(data), sink) as desk:
            list_letters(desk, selection, limit, json)


@group.command()
def show(
    spec: SpecArgument,
    place: Annotated[str, typer.Argument(metavar="PARTITION:OFFSET", help=_PLACE)],
    data: DataOption = None,
    settings: SetOption = None,
    sink: SinkOption = None,
    json: JsonOption = None,
) -> None:
    """Show one dead letter whole: why, where it came from, its headers and its bytes.

    Example: penstock dead-letters show clickstream 3:120
    """
    from penstock.cli.letters import open_desk, show_letter
    from penstock.deadletters.letter import Place

    with readable_errors():
        wanted = Place.parse(place)
        with open_desk(load_spec(spec, settings), DataDir.at(data), sink) as desk:
            show_letter(desk, wanted, json)


@group.command()
def replay(
    spec: SpecArgument,
    places: Annotated[
        list[str] | None, typer.Argument(metavar="PARTITION:OFFSET", help="These; by default all.")
    ] = None,
    data: DataOption = None,
    settings: SetOption = None,
    sink: SinkOption = None,
    kind: KindOption = None,
    reason: ReasonOption = "",
    since: SinceOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: JsonOption = None,
) -> None:
    """Send the records of dead letters to the source's topic again, as they came, each once.

    It is good for records that will be taken now: the spec was mended (a condition, a column's type), or a
    time that was in the future has come. The bytes are those that came: what is malformed stays so until the
    schema takes it. A [bold]late[/bold] event will be late again unless the lateness has grown since, and a
    [bold]duplicate[/bold] will be one again while its id is remembered.

    A record that was replayed is marked in the same transaction, in the topic TOPIC-replayed. It is never
    replayed twice: not when this command is killed and run again, not when two run at the same time.

    Examples:
      penstock dead-letters replay clickstream --reason price_not_negative --since '2 hours' --dry-run
      penstock dead-letters replay clickstream 3:120 5:7 --yes --json replayed.json
    """
    stop = threading.Event()
    stop_on_signal(stop)
    from penstock.cli.letters import chosen, chosen_places, open_desk
    from penstock.cli.replaying import replay_letters

    with readable_errors():
        selection = chosen(kind, reason, since)
        wanted = chosen_places(places or (), selection)
        with open_desk(load_spec(spec, settings), DataDir.at(data), sink) as desk:
            outcome = replay_letters(
                desk, wanted or selection, dry_run=dry_run, yes=yes, stop=stop, json=json
            )
    if outcome.failed:
        raise typer.Exit(1)
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)
