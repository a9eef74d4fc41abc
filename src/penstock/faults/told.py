"""What a pipeline tells those who ask, put into files: commands, metrics, the page with its stream."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote, quote_plus
from urllib.request import urlopen

from penstock.faults.host import Host
from penstock.faults.program import until
from penstock.faults.scenario import Unmet

_URL = re.compile(r"http://127\.0\.0\.1:\d+/")
_ANSWERS_WITHIN_S = 60.0
_PICTURES = 2
"""Of a stream: what it begins with, and what has changed then."""


_WRITTEN = ("check.json", "audit.json", "spec.txt", "report.html")
"""What must be there of a pipeline that runs: where nothing is told, nothing is found."""


def keep_commands(host: Host, *settings: str) -> Path:
    """What commands say of the pipeline and write down, each in a file of its own; where they are."""
    into = _directory(host)
    of = [*host.arguments, *(part for setting in settings for part in ("--set", setting))]
    data = ["--data", str(host.root)]
    for command in ("check", "audit"):
        _run(into, command, *of, *data, "--json", str(into / f"{command}.json"))
    _run(into, "spec", *of)
    _run(into, "report", host.spec.name, *data, "--out", str(into / "report.html"))
    return into


def missing(into: Path) -> list[str]:
    """Which of the files that commands write are not there, or have nothing in them."""
    files = [into / name for name in _WRITTEN]
    return [file.name for file in files if not file.is_file() or not file.stat().st_size]


def _directory(host: Host) -> Path:
    """A new one: what was told before must not be overwritten."""
    told = host.root / "told"
    told.mkdir(exist_ok=True)
    into = told / str(len(list(told.iterdir())) + 1)
    into.mkdir()
    return into


def _run(into: Path, *arguments: str) -> None:
    """Whether it succeeds is no matter: a refusal tells most."""
    with (into / f"{arguments[0]}.txt").open("wb") as output:
        command = [sys.executable, "-m", "penstock.cli", *arguments]
        subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)


def keep_metrics(host: Host) -> None:
    """What the pipeline shows to Prometheus; it must have been started with --metrics."""
    url = address_in(host.program.said())
    if url is None:
        raise Unmet("the pipeline does not say where its metrics are")
    keep(_directory(host), url, ("metrics",))


def keep_page(host: Host, addresses: Mapping[str, str]) -> None:
    """What the page shows to a browser, and to Prometheus; its spec comes with the services' addresses."""
    name, into = host.spec.name, _directory(host)
    with _page(host, addresses, into / "web.txt") as url:
        keep(into, url, ("", "about", "metrics", f"letters/{name}"))
        keep_stream(into / "events", f"{url}events?pipeline={name}")


@contextmanager
def _page(host: Host, addresses: Mapping[str, str], log: Path) -> Iterator[str]:
    """`penstock web` of the host's pipeline, for as long as the body takes."""
    settings = {f"PENSTOCK_SERVICES__{service.upper()}": at for service, at in addresses.items()}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", "web", host.arguments[0], "--data", str(host.root)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **settings},
        )
    try:
        deadline_s = time.monotonic() + _ANSWERS_WITHIN_S
        while (url := address_in(log.read_text())) is None:
            if process.poll() is not None or not until(deadline_s):
                raise Unmet(f"the page does not come up:\n{log.read_text()}")
        yield url
    finally:
        process.kill()
        process.wait()


def address_in(said: str) -> str | None:
    """Where something is served, of what it printed."""
    found = _URL.search(said)
    return found.group() if found else None


def keep(directory: Path, url: str, paths: Sequence[str]) -> None:
    """What is answered, in a file for each path; also where the answer is a refusal."""
    for path in paths:
        try:
            with urlopen(url + path, timeout=_ANSWERS_WITHIN_S) as answer:  # noqa: S310  (an http URL of ours)
                content = answer.read()
        except HTTPError as refusal:
            content = refusal.read()
        (directory / (path.replace("/", "-") or "index")).write_bytes(content)


def keep_stream(path: Path, url: str) -> None:
    """The first events of a stream that never ends."""
    pictures, deadline_s = 0, time.monotonic() + _ANSWERS_WITHIN_S
    with urlopen(url, timeout=_ANSWERS_WITHIN_S) as stream, path.open("wb") as file:  # noqa: S310
        while pictures < _PICTURES:
            line = stream.readline()
            if not line or time.monotonic() > deadline_s:
                raise Unmet(f"the page told of {pictures} moments; expected {_PICTURES}")
            file.write(line)
            pictures += line.startswith(b"data: ") and b'"glance"' in line


def telling(root: Path, password: str) -> list[Path]:
    """The files below a directory that have a password in them, however it is written."""
    forms = {
        form.encode() for form in (password, quote(password, safe=""), quote(password), quote_plus(password))
    }
    files = sorted(file for file in root.rglob("*") if file.is_file())
    return [file for file in files if any(form in file.read_bytes() for form in forms)]
