"""What must stay inside: passwords, and ports."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from urllib.parse import quote

import psutil

from penstock.engine.pipeline import READY
from penstock.faults import kills
from penstock.faults.scenario import Unmet
from penstock.faults.trial import Trial

_PASSWORD = "never tell/this"  # noqa: S105  (made to be looked for)
_ENDS_WITHIN_S = 60.0
_LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def secrets(trial: Trial) -> None:
    """Give the pipeline a password and much to complain of: nothing that is kept has it, no port is open."""
    host = trial.host
    trial.await_some_batches()
    host.program.stop()
    right = _address(trial, quote(_PASSWORD, safe=""))
    for wrong in (f"{right}-of-nobody", _address(trial, _PASSWORD), right.replace("://", ":")):
        program = host.start("--set", f"services.postgres={wrong}")
        if not program.await_end(_ENDS_WITHIN_S):
            raise Unmet("a pipeline with a wrong address runs")
        _check(trial, wrong)
    host.arguments = [*host.arguments, "--set", f"services.postgres={right}"]
    host.start("--json", str(host.root / "report.json"))
    trial.await_note(host, READY)
    _check(trial, right)
    if others := open_to_others():
        raise Unmet(f"open to others: {', '.join(others)}")
    kills.postgres(trial)


def nothing_told(trial: Trial) -> list[str]:
    """No file of the trial may have the password in it."""
    secret = {_PASSWORD.encode(), quote(_PASSWORD, safe="").encode()}
    telling = [
        file
        for file in trial.root.rglob("*")
        if file.is_file() and any(s in file.read_bytes() for s in secret)
    ]
    return [f"the password stands in {file.relative_to(trial.root)}" for file in telling]


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


def _check(trial: Trial, address: str) -> None:
    """`penstock check` with an address, for what it says and keeps."""
    host = trial.host
    options = ["--data", str(host.root), "--json", str(host.root / "check.json")]
    given = [*host.arguments, "--set", f"services.postgres={address}"]
    command = [sys.executable, "-m", "penstock.cli", "check", *given, *options]
    with (host.data.logs / "check.log").open("ab") as log:
        subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
