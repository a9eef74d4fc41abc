"""The page's server, for tests: a real one, on a free port, in a thread."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from penstock.web.app import Site, application
from penstock.web.server import Place, beside


@contextmanager
def served(site: Site, place: Place | None = None) -> Iterator[int]:
    """The port on which it is served, until the end."""
    place = place or Place(port=0)
    with beside(application(site, place.names, place.token), place) as url:
        yield urlsplit(url).port or 0


def secured_place(directory: Path, token: str) -> Place:
    """A place with a certificate of its own making."""
    key, certificate = directory / "key.pem", directory / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", str(key), "-out", str(certificate), "-days", "1", "-subj", "/CN=localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    return Place(port=0, certificate=certificate, key=key, token=token)
