"""The page's server, for tests: a real one, on a free port, in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from penstock.web.app import Site, application
from penstock.web.server import Place


@contextmanager
def served(
    site: Site, *, port: int = 0, token: str | None = None, names: tuple[str, ...] = (), **tls: Any
) -> Iterator[int]:
    listener = Place(port=port).bind()
    server = uvicorn.Server(
        uvicorn.Config(
            application(site, names, token),
            log_level="error",
            timeout_graceful_shutdown=1,
            lifespan="off",
            **tls,
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
