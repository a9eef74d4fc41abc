"""What must stay inside: passwords, and ports."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import quote

import psutil

from penstock.engine.pipeline import READY
from penstock.faults import kills, told
from penstock.faults.scenario import Unmet
from penstock.faults.trial import Trial

_PASSWORD = "never tell/this"  # noqa: S105  (made to be looked for)
_ENDS_WITHIN_S = 60.0
_LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def secrets(trial: Trial) -> None:
    """Give the pipeline a password and much to complain of: nothing that it tells has it, no port is open."""
    host = trial.host
    trial.await_some_batches()
    host.program.stop()
    right = _address(trial, quote(_PASSWORD, safe=""))
    for wrong in (f"{right}-of-nobody", _address(trial, _PASSWORD), right.replace("://", ":")):
        program = host.start("--set", f"services.postgres={wrong}")
        if not program.await_end(_ENDS_WITHIN_S):
            raise Unmet("a pipeline with a wrong address runs")
        told.keep_commands(host, f"services.postgres={wrong}")
    host.arguments = [*host.arguments, "--set", f"services.postgres={right}"]
    host.start("--json", str(host.root / "report.json"), "--metrics", "0")
    trial.await_note(host, READY)
    told.keep_metrics(host)
    if others := open_to_others():
        raise Unmet(f"open to others: {', '.join(others)}")
    kills.postgres(trial)
    if absent := told.missing(told.keep_commands(host)):
        raise Unmet(f"not written: {', '.join(absent)}")
    told.keep_page(host, {"kafka": trial.at.kafka, "postgres": right})


def nothing_told(trial: Trial) -> list[str]:
    """No file of the trial may have the password in it."""
    found = told.telling(trial.root, _PASSWORD)
    return [f"the password stands in {file.relative_to(trial.root)}" for file in found]


def open_to_others() -> list[str]:
    """Where processes that we started listen for other machines."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            for socket in process.net_connections("inet"):
                if socket.status == psutil.CONN_LISTEN and socket.laddr.ip not in _LOOPBACK:
                    found.append(f"{process.name()} at {socket.laddr.ip}:{socket.laddr.port}")
    return found


def _address(trial: Trial, password: str) -> str:
    return trial.at.postgres.replace("postgres@", f"postgres:{password}@")
