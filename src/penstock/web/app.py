"""The application: a page, what it is made of, a stream, and dead letters."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from penstock import __version__
from penstock.deadletters.letter import Place
from penstock.errors import PenstockError
from penstock.observe.prometheus.measure import Measured
from penstock.observe.prometheus.page import registry_of
from penstock.paths import PACKAGE
from penstock.spec import PipelineSpec
from penstock.web.guard import Guard
from penstock.web.letters import Letters
from penstock.web.recording import Recording
from penstock.web.stream import SPEEDS, live, replayed
from penstock.web.watched import Watch

STATIC = PACKAGE / "web" / "static"


@dataclass(frozen=True)
class Site:
    """What a page is served of: pipelines that are watched, or a recording."""

    source: Watch | Recording
    kafka: Callable[[PipelineSpec], str] | None = None
    """Where a pipeline's Kafka is; None where there is none to ask."""
    epoch: str = ""
    """Tells this process's streams from those of one before it."""
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server ends."""

    def pipelines(self) -> list[str]:
        if isinstance(self.source, Recording):
            return [self.source.name]
        return [one.name for one in self.source.pipelines()]

    def letters(self, name: str) -> Letters | None:
        kafka = self.kafka
        if isinstance(self.source, Recording) or kafka is None:
            return None
        spec = next((one.spec for one in self.source.pipelines() if one.name == name), None)
        return Letters(spec, lambda: kafka(spec)) if spec else None

    def measured(self) -> list[list[Measured]]:
        """Of each pipeline; of a recording nothing, since it is not now."""
        if isinstance(self.source, Recording):
            return []
        now_ms = time.time_ns() // 1_000_000
        return [one.measured(now_ms) for one in self.source.pipelines()]

    def stream(self, request: Request) -> AsyncIterator[bytes]:
        asked = request.query_params
        if isinstance(self.source, Recording):
            at, speed = asked.get("at", ""), asked.get("speed", "")
            return replayed(
                self.source,
                int(at) if at.isdecimal() else None,
                int(speed) if speed.isdecimal() and int(speed) in SPEEDS else 1,
                self.closing,
            )
        last_id = request.headers.get("last-event-id", "")
        return live(self.source, asked.get("pipeline", ""), last_id, self.epoch, self.closing)


def application(site: Site, names: Collection[str] = (), token: str | None = None) -> Starlette:
    """`names` are those under which browsers may ask, beside localhost and addresses."""
    site = replace(site, epoch=secrets.token_hex(4), closing=asyncio.Event())
    registry = registry_of(site.measured)

    async def page(_request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def about(_request: Request) -> Response:
        return JSONResponse(
            {
                "version": __version__,
                "replay": isinstance(site.source, Recording),
                "pipelines": await asyncio.to_thread(site.pipelines),
            }
        )

    async def events(request: Request) -> Response:
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return StreamingResponse(site.stream(request), media_type="text/event-stream")

    async def letters(request: Request) -> Response:
        found = site.letters(request.path_params["pipeline"])
        if found is None:
            return JSONResponse({"error": _NO_LETTERS}, 404)
        place = request.path_params.get("place")
        return await _answer((lambda: found.one(Place.parse(place))) if place else found.newest)

    async def metrics(request: Request) -> Response:
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(await asyncio.to_thread(encode, registry), media_type=kind)

    async def favicon(_request: Request) -> Response:
        return FileResponse(STATIC / "icon.svg", media_type="image/svg+xml")

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/about", about),
            Route("/events", events),
            Route("/letters/{pipeline}", letters),
            Route("/letters/{pipeline}/{place}", letters),
            Route("/metrics", metrics),
            Route("/favicon.ico", favicon),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard, names=names, token=token)],
        exception_handlers={Exception: _broken},
    )
    app.state.closing = site.closing
    return app


_NO_LETTERS = (
    "Only the spec says where dead letters are kept: name it, as in penstock web pipelines/my.toml. Of a"
    " recording there is no topic to look into."
)


async def _answer(ask: Callable[[], dict[str, Any]]) -> Response:
    try:
        return JSONResponse(await asyncio.to_thread(ask))
    except PenstockError as error:
        return JSONResponse({"error": error.message, "hint": error.hint}, 503)


async def _broken(_request: Request, _error: Exception) -> Response:
    return PlainTextResponse("Something broke here; the terminal of penstock web says what.\n", 500)
