"""`penstock check`: what a start would meet, before it."""

from __future__ import annotations

import typer

from penstock.cli.common import (
    DataOption,
    JsonOption,
    SetOption,
    SpecArgument,
    load_spec,
    readable_errors,
    resolve_addresses,
    write_json,
)
from penstock.paths import DataDir

_FOUND_ERRORS = 1
_COULD_NOT_LOOK = 2


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Pipelines")(check)


def check(
    spec: SpecArgument, data: DataOption = None, settings: SetOption = None, json: JsonOption = None
) -> None:
    """Look at the services, the checkpoint and the spec, and say what would go wrong. Nothing is changed.

    Exit status: 0 no errors; 1 errors, each with what mends it; 2 something could not be looked at.
    `penstock run` applies the same rules before it starts.

    Examples:
      penstock check clickstream
      penstock check my.toml --set 'source.partitions=16' --json findings.json
    """
    with readable_errors(_COULD_NOT_LOOK):
        described = load_spec(spec, settings)
        where = DataDir.at(data)
        addresses = resolve_addresses(described, where)
        from penstock.cli.checking import as_json, show
        from penstock.cli.running import journal_path
        from penstock.engine.outputs import Endpoints
        from penstock.preflight import Start, could_look, judge, look

        endpoints = Endpoints(addresses.kafka, addresses.clickhouse, addresses.postgres)
        facts = look(described, where, endpoints, journal_path(where, described), Start())
    findings = judge(facts)
    failed = any(finding.severity == "error" for finding in findings)
    status = _COULD_NOT_LOOK if not could_look(facts) else _FOUND_ERRORS if failed else 0
    show(described.name, findings)
    write_json(json, as_json(described.name, findings, status))
    raise typer.Exit(status)
