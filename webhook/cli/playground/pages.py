"""The routes of the playground: its files and its answers, for pages of its own only.

Whoever can reach the port must not be able to use it through somebody's browser: a foreign page can send requests to this
machine, and with a name of its own that points here (DNS rebinding) read the answers. So the name in ``Host``, the origin and
the media type are checked.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib import resources
from typing import Any, Final, TypeAlias

import msgspec
from aiohttp import hdrs, web

from webhook.cli.playground.answers import PageState, Playground
from webhook.server.bodies import body_of
from webhook.server.http import JSON, Handler, HttpError, Routes, error_response
from webhook.server.limits import InFlight, Limits

PATH: Final = "/playground/"
"""Where the page is; its own paths are relative to it."""

_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FILES: Final = {
    path: ((resources.files(__package__) / name).read_bytes(), _TYPES[name.rpartition(".")[2]])
    for path, name in {"": "page.html", **{name: name for name in ("page.css", "page.js", "icon.svg")}}.items()
}
"""The files of the page: path → content and media type."""

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

_Respond: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.Response]]


class Pages:
    """The playground's routes, under the limits of the server."""

    def __init__(self, playground: Playground, limits: Limits) -> None:
        self._playground = playground
        self.limits = limits
        self._in_flight = InFlight()
        self._answering = asyncio.Lock()

    def routes(self) -> Routes:
        """Return the routes: path → method and handler."""
        get: dict[str, _Respond] = {f"{PATH}{path}": _file(*file) for path, file in _FILES.items()}
        get[PATH.removesuffix("/")] = self._redirect
        get[f"{PATH}start"] = self._start
        post: dict[str, _Respond] = {f"{PATH}answer": self._answer}
        return {
            **{path: (hdrs.METH_GET, _guarded(handler)) for path, handler in get.items()},
            **{path: (hdrs.METH_POST, _guarded(handler)) for path, handler in post.items()},
        }

    async def _redirect(self, _request: web.BaseRequest) -> web.Response:
        return web.Response(status=HTTPStatus.PERMANENT_REDIRECT, headers={hdrs.LOCATION: PATH})

    async def _start(self, _request: web.BaseRequest) -> web.Response:
        return _json(self._playground.start())

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        state = await self._state(request)
        # In a thread, so that the page itself does not wait; one at a time.
        async with self._answering:
            return _json(await asyncio.to_thread(self._playground.answer, state))

    async def _state(self, request: web.BaseRequest) -> PageState:
        """Read a request as the server reads a review.

        Raises:
            HttpError: not JSON of a state, too large, too slow or incomplete.
        """
        body = await body_of(request, self.limits, self._in_flight)
        self._in_flight.bodies -= len(body)
        try:
            return msgspec.json.decode(body, type=PageState)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"not a request of the page: {error}") from error


def _file(body: bytes, media_type: str) -> _Respond:
    async def respond(_request: web.BaseRequest) -> web.Response:
        return web.Response(body=body, content_type=media_type, charset="utf-8")

    return respond


def _json(data: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(data), headers={hdrs.CONTENT_TYPE: JSON})


def _guarded(handler: _Respond) -> Handler:
    """Answer only pages of this server; with the headers that bind the page."""

    async def guard(request: web.BaseRequest) -> web.Response:
        try:
            check_caller(request)
            response = await handler(request)
        except HttpError as error:
            response = error_response(error)
        response.headers.update(_HEADERS)
        return response

    return guard


def check_caller(request: web.BaseRequest) -> None:
    """Check that a request calls this machine by its own name, and is not from a foreign page; a `HttpError` if it is not."""
    host = request.headers.get(hdrs.HOST, "").lower()
    name, colon, port = host.rpartition(":")
    if (name if colon and port.isdecimal() else host) not in _NAMES:
        raise HttpError(HTTPStatus.FORBIDDEN, "the page is called localhost, 127.0.0.1 or [::1]")
    origin = request.headers.get(hdrs.ORIGIN)
    foreign = request.headers.get("Sec-Fetch-Site", "none") not in {"same-origin", "none"}
    if (origin is not None and origin.lower() != f"http://{host}") or (foreign and request.method != hdrs.METH_GET):
        raise HttpError(HTTPStatus.FORBIDDEN, "only this page may send requests")
