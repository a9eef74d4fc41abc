"""`penstock web`: pipelines in a browser."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.common import DataOption, load_spec, readable_errors, resolve_addresses, say
from penstock.errors import PenstockError, SpecError
from penstock.paths import DataDir

if TYPE_CHECKING:
    from penstock.observe.board.alerts import Limits
    from penstock.spec import PipelineSpec
    from penstock.web.app import Site

TOKEN_VARIABLE = "PENSTOCK_WEB_TOKEN"  # noqa: S105  (the name, not the token)


def add_to(app: typer.Typer) -> None:
    app.command("web", rich_help_panel="Pipelines")(web_command)


def web_command(
    pipelines: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PIPELINE",
            help="Pipelines: TOML files or names. All that ever ran in the data directory by default.",
        ),
    ] = None,
    data: DataOption = None,
    replay: Annotated[
        Path | None,
        typer.Option(help="Play a recorded run: a directory of runs/, or a journal.jsonl."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Where to listen; the first free one from 8400 on by default."),
    ] = None,
    objective: Annotated[
        str, typer.Option(help='What p99 should stay under, from event to visible, or "none".')
    ] = "2 seconds",
    host: Annotated[
        str,
        typer.Option(
            help="Which address to listen on. Another than this machine's own needs TLS and a token."
        ),
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option(help="A name by which browsers reach it, with --host. Repeatable."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The certificate, with its chain (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"A file with the token that a browser must give; or ${TOKEN_VARIABLE}."),
    ] = None,
) -> None:
    """Show pipelines in a browser: how fresh, how far behind, where pressure starts, what is lost.

    It reads what pipelines write down, changes nothing, and asks nobody else. It may be started and stopped
    at any time, on its own.

    Examples:
      penstock web --open
      penstock web pipelines/clickstream.toml my.toml
      penstock web --replay .penstock/runs/clickstream
    """
    from penstock.observe.board.alerts import Limits
    from penstock.web.app import Site, application
    from penstock.web.recording import Recording
    from penstock.web.server import Place, serve

    with readable_errors():
        place = Place(host, port, tls_cert, tls_key, _token(token_file), tuple(name or ()))
        place.check()
        limits = Limits(p99_ms=objective_ms(objective))
        described = {spec.name: spec for spec in map(load_spec, pipelines or ())}
        if replay is not None:
            run = replay if replay.is_dir() else replay.parent
            known = next(iter(described.values()), None) or _kept(run)
            site = Site(Recording.read(replay, known, limits))
        else:
            site = site_of(DataDir.at(data), described, limits)
        listener = place.bind()

        def ready(url: str) -> None:
            say(f"the page is at {url}  (Ctrl-C ends it)")
            if open_:
                typer.launch(url)

        serve(application(site, place.names, place.token), place, listener, ready)


def site_of(where: DataDir, described: Mapping[str, PipelineSpec], limits: Limits) -> Site:
    """The pipelines that are described, or all that ever ran there, as they run."""
    from penstock.web.app import Site
    from penstock.web.watched import Watch

    def describe(name: str) -> PipelineSpec | None:
        return described.get(name) or _kept(where.runs / name)

    watch = Watch(where, tuple(described), describe, limits)
    return Site(watch, lambda spec: resolve_addresses(spec, where, only=("kafka",)).kafka)


def _token(file: Path | None) -> str | None:
    # Taken out of the environment: variables that begin so are settings of a spec, and children need it not.
    given = os.environ.pop(TOKEN_VARIABLE, "")
    if file is None:
        return given.strip() or None
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise PenstockError(f"the token file {file} cannot be read: {error}") from error


def objective_ms(text: str) -> int | None:
    """What --objective says."""
    from penstock.spec import Duration

    if text == "none":
        return None
    try:
        return Duration.parse(text).ms
    except ValueError as error:
        raise SpecError("--objective", [f'"{text}": {error}']) from error


def _kept(run: Path) -> PipelineSpec | None:
    """What ran there, as it was described; None where that is not known, or means nothing any more."""
    from penstock.observe.run import spec_file
    from penstock.spec import load

    try:
        return load(spec_file(run), environ={})
    except SpecError:
        return None
