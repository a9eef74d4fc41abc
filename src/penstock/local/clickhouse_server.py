"""ClickHouse's HTTP interface over chdb, enough of it that clickhouse-connect works unchanged.

`python -m penstock.local.clickhouse_server --dir DIR --port PORT` serves DIR on the loopback until SIGTERM,
then lets the running statements end. Left out: users and quotas (everybody is `default`), sessions (a
session_id is accepted and means nothing), external tables, the compress=1 protocol. A result is complete in
memory before its first byte is sent, as a real server does with wait_end_of_query=1.
"""

from __future__ import annotations

import argparse
import email.parser
import gzip
import json
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import lz4.frame
import uvicorn
import zstandard
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from penstock.local.clickhouse_engine import Answer, Engine, EngineError, Statement

STATEMENTS_AT_ONCE = 16
COMPRESS_FROM_BYTES = 4_096
KEEP_ALIVE_S = 60
LAST_STATEMENTS_S = 2  # and Service.stop kills after 3
HEADERS_BYTES_MAX = 1 << 20  # settings and bound parameters travel in the URL

# URL parameters that are not settings of the engine.
TRANSPORT = frozenset(
    [
        "query",
        "database",
        "query_id",
        "session_id",
        "session_timeout",
        "session_check",
        "user",
        "password",
        "quota_key",
        "role",
        "compress",
        "decompress",
        "buffer_size",
        "wait_end_of_query",
        "default_format",
        "client_protocol_version",
        "enable_http_compression",
        "send_progress_in_http_headers",
        "http_headers_progress_interval_ms",
    ]
)
# As a server maps them; every other exception is a 500.
STATUS = {60: 404, 81: 404, 46: 404, 47: 404, 62: 400, 27: 400, 33: 400, 115: 404, 457: 400, 48: 501}
CONTENT_TYPE = {"TabSeparated": "text/tab-separated-values; charset=UTF-8", "JSON": "application/json"}


def unzstd(data: bytes) -> bytes:
    """clickhouse-connect makes a frame of every block, so a body is several frames."""
    return zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress(data)


def unlz4(data: bytes) -> bytes:
    parts = []
    while data:
        frame = lz4.frame.LZ4FrameDecompressor()
        parts.append(frame.decompress(data))
        data = frame.unused_data or b""
    return b"".join(parts)


DECODE: dict[str, Callable[[bytes], bytes]] = {
    "lz4": unlz4,
    "zstd": unzstd,
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "": bytes,
    "identity": bytes,
}
ENCODE: dict[str, Callable[[bytes], bytes]] = {
    "lz4": lz4.frame.compress,
    "zstd": lambda data: zstandard.ZstdCompressor(level=1).compress(data),
    "gzip": lambda data: gzip.compress(data, 1),
    "deflate": zlib.compress,
}


class Server:
    """Requests to statements, answers to responses."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.limiter = CapacityLimiter(STATEMENTS_AT_ONCE)

    async def ping(self, request: Request) -> Response:  # noqa: ARG002 - a route has this shape
        return PlainTextResponse("Ok.\n")

    async def serve(self, request: Request) -> Response:
        if request.method == "GET" and "query" not in request.query_params:
            return PlainTextResponse("Ok.\n")
        body = await request.body()
        # In a thread, so that a slow statement keeps neither /ping nor another statement waiting.
        return await run_sync(self._answer, request, body, limiter=self.limiter)

    def _answer(self, request: Request, body: bytes) -> Response:
        started = time.monotonic()
        headers = {"X-ClickHouse-Query-Id": request.query_params.get("query_id") or str(uuid.uuid4())}
        try:
            answer = self.engine.run(statement_of(request, body))
        except EngineError as error:
            headers["X-ClickHouse-Exception-Code"] = str(error.code)
            return PlainTextResponse(f"{error}\n", STATUS.get(error.code, 500), headers)
        headers["X-ClickHouse-Summary"] = summary(answer, time.monotonic() - started)
        if answer.format:
            headers["X-ClickHouse-Format"] = answer.format
        content, encoding = compressed(request, answer.body)
        if encoding:
            headers["Content-Encoding"] = encoding
        media_type = CONTENT_TYPE.get(answer.format, "application/octet-stream")
        return Response(content, headers=headers, media_type=media_type)


def statement_of(request: Request, body: bytes) -> Statement:
    """The query is the URL's `query`, then the body; settings and parameters come in the URL or a form."""
    encoding = request.headers.get("content-encoding", "")
    if encoding not in DECODE:
        raise EngineError(
            f"Code: 89. DB::Exception: Unknown compression method {encoding!r}. Use lz4 or zstd."
        )
    given = dict(request.query_params)
    content_type = request.headers.get("content-type", "")
    data = DECODE[encoding](body)
    if content_type.startswith("multipart/form-data"):
        given |= form_fields(content_type, data)
        data = b""
    query = given.get("query", "").encode()
    settings = {k: v for k, v in given.items() if k not in TRANSPORT and not k.startswith("param_")}
    return Statement(
        sql=query + b"\n" + data if query else data,
        database=given.get("database", ""),
        settings=settings,
        parameters={k.removeprefix("param_"): v for k, v in given.items() if k.startswith("param_")},
        default_format=given.get("default_format", "TabSeparated"),
    )


def form_fields(content_type: str, data: bytes) -> dict[str, str]:
    """The text fields of a form, in which clickhouse-connect sends parameters too long for a URL."""
    form = email.parser.BytesParser().parsebytes(
        b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + data
    )
    fields = {}
    for part in form.walk():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            fields[name] = content.decode()
    return fields


def summary(answer: Answer, elapsed_s: float) -> str:
    counts = {
        "read_rows": answer.rows_read,
        "read_bytes": answer.bytes_read,
        "written_rows": answer.rows_written,
        "written_bytes": answer.bytes_written,
        "elapsed_ns": int(elapsed_s * 1e9),
    }
    return json.dumps({name: str(count) for name, count in counts.items()})


def compressed(request: Request, body: bytes) -> tuple[bytes, str]:
    """The body in the first encoding the client accepts, when it asked for one and it pays."""
    if request.query_params.get("enable_http_compression") != "1" or len(body) < COMPRESS_FROM_BYTES:
        return body, ""
    accepted = [item.split(";")[0].strip() for item in request.headers.get("accept-encoding", "").split(",")]
    encoding = next((name for name in accepted if name in ENCODE), "")
    return (ENCODE[encoding](body), encoding) if encoding else (body, "")


def app(directory: Path) -> Starlette:
    """The web application; it opens the engine when it starts and closes it when it ends."""
    engine = Engine(directory)
    server = Server(engine)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        engine.close()

    routes = [Route("/ping", server.ping), Route("/", server.serve, methods=["GET", "POST"])]
    return Starlette(routes=routes, lifespan=lifespan)


def main() -> None:
    parser = argparse.ArgumentParser(description="ClickHouse's HTTP interface over chdb")
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    uvicorn.run(
        app(options.dir),
        host="127.0.0.1",
        port=options.port,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=LAST_STATEMENTS_S,
        h11_max_incomplete_event_size=HEADERS_BYTES_MAX,
    )


if __name__ == "__main__":
    main()
