"""Where the page is served: this machine only, unless it is encrypted and asks for a token."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from penstock.errors import PenstockError

FIRST_PORT = 8400
_PORTS_TRIED = 50
_TOKEN_LENGTH_MIN = 16
_STOP_WITHIN_S = 3


@dataclass(frozen=True)
class Place:
    """Where to serve, and for whom."""

    host: str = "127.0.0.1"
    port: int | None = None
    """None: the first free one from 8400 on."""
    certificate: Path | None = None
    key: Path | None = None
    token: str | None = None
    names: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise if others could read the page, or what they would read could be overheard."""
        if (self.certificate is None) != (self.key is None):
            raise PenstockError("--tls-cert and --tls-key belong together", hint="Give both, or neither.")
        if self.token is not None and len(self.token) < _TOKEN_LENGTH_MIN:
            raise PenstockError(
                f"the token has {len(self.token)} characters; expected {_TOKEN_LENGTH_MIN} or more",
                hint="Make one: python3 -c 'import secrets; print(secrets.token_urlsafe())' > token",
            )
        if self.token is not None and self.certificate is None:
            raise PenstockError("a token needs --tls-cert and --tls-key: it would be sent in the clear")
        if self.is_local:
            return
        missing = [] if self.certificate else ["--tls-cert and --tls-key"]
        missing += [] if self.token else ["a token, by --token-file FILE or PENSTOCK_WEB_TOKEN"]
        if missing:
            raise PenstockError(
                f"--host {self.host} lets other machines in; that needs {' and '.join(missing)}",
                hint="Or leave --host out, and reach it through: ssh -L 8400:127.0.0.1:8400 HOST",
            )

    @property
    def is_local(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def bind(self) -> socket.socket:
        ports = [self.port] if self.port is not None else range(FIRST_PORT, FIRST_PORT + _PORTS_TRIED)
        for port in ports:
            try:
                return _bound(self.host, port)
            except OSError as error:
                trouble = error
        what = f"port {self.port}" if self.port is not None else f"ports {ports[0]} to {ports[-1]}"
        raise PenstockError(
            f"cannot listen on {what} of {self.host}: {trouble.strerror}",
            hint="Name another one with --port.",
        )

    def url(self, listener: socket.socket) -> str:
        scheme = "https" if self.certificate else "http"
        host = self.names[0] if self.names else f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{listener.getsockname()[1]}/"


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


class Server(uvicorn.Server):
    """Serves an application until it is told to end."""

    def __init__(self, app: Starlette, place: Place, ready: Callable[[], None] = lambda: None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="off",
                timeout_graceful_shutdown=_STOP_WITHIN_S,
                ssl_certfile=place.certificate,
                ssl_keyfile=place.key,
            )
        )
        self._closing: asyncio.Event = app.state.closing
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing.set()
        await super().shutdown(sockets)


@contextmanager
def beside(app: Starlette, place: Place) -> Iterator[str]:
    """Serve in a thread, as long as the body takes, which is given the address."""
    listener = place.bind()
    server = Server(app, place)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="page", daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield place.url(listener)
    finally:
        server.should_exit = True
        thread.join(_STOP_WITHIN_S)
        listener.close()


def serve(app: Starlette, place: Place, listener: socket.socket, ready: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; `ready` hears the address once it answers."""
    server = Server(app, place, lambda: ready(place.url(listener)))
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        return  # how it is ended; all is closed by then
    except OSError as error:
        raise PenstockError(
            f"the certificate or its key cannot be used: {error.strerror or error}"
        ) from error
    finally:
        listener.close()
