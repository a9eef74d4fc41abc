"""`penstock faults`: parts killed, frozen, doubled and rolled back on purpose, and what came of it."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from penstock.cli.common import JsonOption, console, readable_errors, say, write_json
from penstock.errors import SpecError

if TYPE_CHECKING:
    from penstock.faults import MutationResult, Result

_TERMINATED = 143


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Pipelines")(faults)


def faults(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Scenarios; all unless given.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each fault is done, at other moments.")] = 1,
    seed: Annotated[int, typer.Option(help="The same seed chooses the same moments.")] = 7,
    json: JsonOption = None,
    list_: Annotated[bool, typer.Option("--list", help="Say what there is, and do nothing.")] = False,
    mutate: Annotated[
        bool,
        typer.Option("--mutate", help="Take safeguards out of the pipeline, and see that it is noticed."),
    ] = False,
) -> None:
    """Do faults to a running pipeline, and check that nothing was lost, doubled or taken back.

    Every scenario runs a shipped pipeline on services of its own, with a producer that goes on sending, and
    readers that look on all the time. The exit status is 0 when all passed. Data of one that failed is kept.

    Examples:
      penstock faults --list
      penstock faults driver-killed-before-commit --rounds 50 --seed 3 --json faults.json
      penstock faults --mutate
    """
    from penstock.faults import MUTATIONS, SCENARIOS, play, to_json, try_mutation

    with readable_errors():
        if list_:
            for scenario in SCENARIOS.values():
                say(f"{scenario.name:<28} {scenario.says}")
            return
        if unknown := [name for name in names or [] if name not in SCENARIOS]:
            known = ", ".join(SCENARIOS)
            raise SpecError(
                "penstock faults", [f'no scenario "{name}" (there are: {known})' for name in unknown]
            )
        _prepare()
        if mutate:
            outcomes = [try_mutation(mutation, seed=seed, say=say) for mutation in MUTATIONS]
            _show_mutations(outcomes)
            content: dict[str, Any] = {
                **to_json(seed, []),
                "mutations": [outcome.to_json() for outcome in outcomes],
            }
            passed = all(outcome.caught for outcome in outcomes)
        else:
            results = [
                play(SCENARIOS[name], rounds=rounds, seed=seed, say=say) for name in names or SCENARIOS
            ]
            _show(results)
            content = to_json(seed, results)
            passed = not any(result.failures for result in results)
        write_json(json, {**content, "verdict": "pass" if passed else "fail"})
    if not passed:
        raise typer.Exit(1)


def _prepare() -> None:
    from penstock.toolchain import ensure_jars, ensure_java, ensure_kernel

    # A polite kill must unwind, so that nothing that was started stays.
    signal.signal(signal.SIGTERM, _terminated)
    ensure_java(say)
    ensure_jars("kafka", say)
    ensure_kernel(ensure_jars("spark", say), say)


def _terminated(_number: int, _frame: FrameType | None) -> None:
    sys.exit(_TERMINATED)


def _show(results: list[Result]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("scenario")
    for heading in ("rounds", "met its moment", "recovery, median", "longest"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for result in results:
        told = result.to_json()
        times = [f"{time:.1f} s" if time is not None else "" for time in told["recovery_s"].values()]
        verdict = "[red]fail[/]" if result.failures else "[green]pass[/]"
        if result.skipped:
            verdict = f"[yellow]not tried[/]: {result.skipped}"
        hits = "" if result.hits is None else str(result.hits)
        table.add_row(result.name, str(result.rounds), hits, *times, verdict)
    console.print(table)


def _show_mutations(outcomes: list[MutationResult]) -> None:
    for outcome in outcomes:
        verdict = "[green]caught[/]" if outcome.caught else "[red]NOT caught[/]"
        console.print(f"{outcome.mutation.patch:<16} {verdict} by {outcome.mutation.scenario}")
