"""`penstock report`: a run on one page."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.common import DataOption, JsonOption, console, readable_errors, say, spec_path, write_json
from penstock.cli.web import objective_ms
from penstock.errors import PenstockError, SpecError
from penstock.paths import default_data_dir

if TYPE_CHECKING:
    from penstock.report.reading import RunFiles


def add_to(app: typer.Typer) -> None:
    app.command("report", rich_help_panel="Pipelines")(report_command)


def report_command(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="What ran: a pipeline of the data directory by its name or TOML file, a directory of"
            " runs/, or a"
            " journal.jsonl.",
        ),
    ],
    data: DataOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write; penstock-report-NAME-TIME.html in this directory by default."),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="T",
            help='Begin here: "2026-11-16T14:02", "14:02", or "30 minutes" before the end. UTC. A day'
            " before the end"
            " by default.",
        ),
    ] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="T", help="End here; the same forms.")] = None,
    objective: Annotated[
        str, typer.Option(help='What p99 should stay under, from event to visible, or "none".')
    ] = "2 seconds",
    json: JsonOption = None,
) -> None:
    """Write what happened in a run as one HTML file, to attach to a ticket, to read on a phone, to print.

    It says in a sentence how the run was, then what ran, the key figures, what was wrong and when and what to
    do next, plots over time, and tables. It reads what the pipeline wrote down and asks nobody, while the
    pipeline runs or afterwards, also of one that crashed. Addresses and secrets are not in it.

    Examples:
      penstock report clickstream
      penstock report .penstock/demo/runs/clickstream --out friday.html
      penstock report clickstream --from 14:02 --to 14:30
    """
    from penstock.observe.board.alerts import Limits
    from penstock.report.page import page
    from penstock.report.reading import RunFiles
    from penstock.report.report import report

    with readable_errors(2):
        limits = Limits(p99_ms=objective_ms(objective))
        files = RunFiles(_found(run, data or default_data_dir()))
        now_ms = time.time_ns() // 1_000_000
        end_ms = bounds.last_ms if (bounds := files.bounds()) else now_ms
        from_ms, to_ms = _moment("--from", from_, end_ms), _moment("--to", to, end_ms)
        if from_ms is not None and from_ms >= (end_ms if to_ms is None else to_ms):
            raise SpecError("--from", [f'"{from_}" is not before the end'])
        with _progress() as told:
            made = report(
                files, now_ms, alive=_lives(files), from_ms=from_ms, to_ms=to_ms, limits=limits, told=told
            )
        file = out or Path(
            f"penstock-report-{_file_name(files.name)}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.html"
        )
        _write(file, page(made))
        write_json(json, made.to_json())
        say(f"{made.judgement.headline}: {made.judgement.reason}")
        say(str(file))


def _found(run: str, data: Path) -> Path:
    """The run's directory, or its journal."""
    from penstock.observe.run import journal_file
    from penstock.spec import load

    path = Path(run)
    if path.suffix == ".toml":
        run = load(spec_path(run)).name
    elif path.is_file() or journal_file(path).is_file():
        return path
    named = data / "runs" / run
    if named.is_dir() and Path(run).name == run:
        return named
    if path.is_dir():
        return path
    known = ", ".join(sorted(one.name for one in (data / "runs").glob("*") if one.is_dir()))
    raise PenstockError(
        f"no run {run}: neither a directory of runs/, nor a journal, nor a pipeline that ran in {data}",
        hint=f"Ran there: {known}."
        if known
        else "Nothing has run there; name its data directory with --data.",
    )


def _lives(files: RunFiles) -> bool | None:
    """Whether the pipeline's process lives; None where its checkpoint is not here."""
    from penstock.observe.run import is_held

    root = files.journal.absolute().parent.parent.parent
    return None if files.is_alone else is_held(root / "checkpoints" / files.name / ".lock")


def _moment(option: str, text: str | None, end_ms: int) -> int | None:
    from penstock.report.when import moment_ms

    if text is None:
        return None
    try:
        return moment_ms(text, end_ms)
    except ValueError as error:
        raise SpecError(option, [f'"{text}": {error}']) from error


@contextmanager
def _progress() -> Iterator[Callable[[float], None]]:
    """A bar for a person: a day with a batch each second takes 100 s of a core."""
    from rich.progress import Progress

    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading the run", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name)[:80] or "run"


def _write(file: Path, content: str) -> None:
    try:
        file.write_text(content, encoding="utf-8")
    except OSError as error:
        raise PenstockError(
            f"cannot write {file}: {error.strerror}", hint="Name another place with --out FILE."
        ) from error
