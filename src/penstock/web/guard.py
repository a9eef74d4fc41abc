"""Who may ask, and what a browser may do with the answer."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.paths import PACKAGE

COOKIE = "__Host-penstock"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_LOGIN = PACKAGE / "web" / "static" / "login.html"
_FOR_ALL = ("/static/login.js", "/static/theme.js", "/static/page.css", "/static/icon.svg")
"""What the page that asks for the token is made of."""


class Guard:
    """Stands before the application: only reading, only under names of ours, only with the token."""

    def __init__(self, app: ASGIApp, names: Collection[str], token: str | None) -> None:
        self._app = app
        self._names = {"localhost", *(name.lower() for name in names)}
        self._token = token
        # The cookie is not the token: who sees one cannot make the other, and it ends with this process.
        key = secrets.token_bytes(32)
        self._pass = hmac.new(key, (token or "").encode(), hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if not scope["path"].startswith("/static/"):
                    headers["cache-control"] = "no-store"
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("This page only shows.\n", 405, {"allow": "GET, HEAD"})
        if not self._is_ours(headers.get("host", "")):
            return PlainTextResponse("This name is not ours: see --name.\n", 421)
        if self._token is None or scope["path"] in _FOR_ALL or self._has_pass(headers):
            return None
        if self._gave_token(headers):
            if scope["path"] != "/session":
                return None
            response = PlainTextResponse("Welcome.\n")
            response.set_cookie(COOKIE, self._pass, secure=True, httponly=True, samesite="strict", path="/")
            return response
        if scope["path"] == "/":
            return FileResponse(_LOGIN, 401)
        return PlainTextResponse("The token is missing or wrong.\n", 401, {"www-authenticate": "Bearer"})

    def _is_ours(self, host: str) -> bool:
        """Another site's name that leads to this address would let that site read the page.

        An address in the place of a name is no such trick.
        """
        name = host[1 : host.find("]")] if host.startswith("[") else host.rpartition(":")[0] or host
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name.lower() in self._names
        return True

    def _has_pass(self, headers: Headers) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._pass.encode())

    def _gave_token(self, headers: Headers) -> bool:
        given = headers.get("authorization", "").removeprefix("Bearer ")
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())
