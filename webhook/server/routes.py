"""The routes: ``POST`` to ``/mutate`` and ``/validate`` over TLS; ``GET`` of health, readiness and metrics over plain HTTP.

There are five of them, each with one method, so they are a dictionary and not an application with a router, which would
take a tenth of the time of a review.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias

from aiohttp import HttpVersion11, hdrs, web
from prometheus_client import CONTENT_TYPE_LATEST

from webhook.server.limits import Lifecycle, Limits, Phase
from webhook.server.listener import Handler
from webhook.server.metrics import Metrics
from webhook.server.mutate import Mutate
from webhook.server.protocol import HttpError, HttpProtocol, error_response
from webhook.server.validate import Validate

Routes: TypeAlias = Mapping[str, tuple[str, Handler]]
"""Path → method and handler."""
ReadyCheck: TypeAlias = Callable[[], str | None]
"""A condition of readiness: returns None, or why it is not met."""

MUTATE: Final = "/mutate"
VALIDATE: Final = "/validate"


def review_routes(mutate: Mutate, validate: Validate) -> Routes:
    """The routes over TLS."""
    return {MUTATE: (hdrs.METH_POST, mutate.handle), VALIDATE: (hdrs.METH_POST, validate.handle)}


def failures(lifecycle: Lifecycle, checks: Mapping[str, ReadyCheck]) -> list[str]:
    """Why a server is not ready, by what it depends on; empty where it is."""
    found = [f"{name}: {why}" for name, check in checks.items() if (why := check()) is not None]
    if lifecycle.phase is not Phase.SERVING:
        found.append(f"lifecycle: {lifecycle.phase.value}")
    return found


def plain_routes(
    lifecycle: Lifecycle, metrics: Metrics, checks: Mapping[str, ReadyCheck], details: Callable[[], list[str]] = list
) -> Routes:
    """The routes for probes and Prometheus.

    Args:
        lifecycle: the server is not ready once it is about to end.
        metrics: the metrics to show.
        checks: the conditions of readiness, by name.
        details: lines for people, shown by ``/readyz?verbose``.
    """

    async def healthz(_request: web.BaseRequest) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(request: web.BaseRequest) -> web.Response:
        found = failures(lifecycle, checks)
        status = HTTPStatus.SERVICE_UNAVAILABLE if found else HTTPStatus.OK
        lines = [*(found or ["ok"]), *(details() if "verbose" in request.query else ())]
        return web.Response(status=status, text="".join(f"{line}\n" for line in lines))

    async def prometheus(_request: web.BaseRequest) -> web.Response:
        return web.Response(body=metrics.text(), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE_LATEST})

    handlers = {"/healthz": healthz, "/readyz": readyz, "/metrics": prometheus}
    return {path: (hdrs.METH_GET, handler) for path, handler in handlers.items()}


def dispatcher(routes: Routes, limits: Limits) -> Handler:
    """Make the handler of every request, which finds its route and does what all routes have in common."""

    async def dispatch(request: web.BaseRequest) -> web.StreamResponse:
        protocol = request.protocol
        watch = protocol.watch if isinstance(protocol, HttpProtocol) else None
        if watch is not None:
            watch.handling()
        try:
            if hdrs.EXPECT in request.headers:
                await _meet_expectation(request)
            response = await _handler(request, routes)(request)
            if not request.content.is_eof():
                await _linger(request, response, limits)
        finally:
            if watch is not None:
                watch.answered()
        return response

    return dispatch


def _handler(request: web.BaseRequest, routes: Routes) -> Handler:
    # The path is decoded only if the raw one has no route.
    route = routes.get(request.raw_path.partition("?")[0]) or routes.get(request.path)
    if route is None:
        return _error_handler(HttpError(HTTPStatus.NOT_FOUND, "not found"))
    method, handler = route
    if request.method != method:
        return _error_handler(
            HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"only {method} is allowed", {hdrs.ALLOW: method})
        )
    return handler


def _error_handler(error: HttpError) -> Handler:
    async def respond(_request: web.BaseRequest) -> web.Response:
        return error_response(error)

    return respond


async def _meet_expectation(request: web.BaseRequest) -> None:
    # Any other expectation may be ignored (RFC 9110 §10.1.1).
    if request.version >= HttpVersion11 and request.headers[hdrs.EXPECT].lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the final answer has not begun


async def _linger(request: web.BaseRequest, response: web.StreamResponse, limits: Limits) -> None:
    """Answer a request with an incomplete body, and let the client read the answer before its connection is reset."""
    response.force_close()
    try:
        with contextlib.suppress(TimeoutError, ConnectionError, web.RequestPayloadError):
            await response.prepare(request)
            await response.write_eof()
            async with asyncio.timeout(limits.linger):
                while await request.content.readany():
                    pass
    finally:
        error = request.content.exception()
        if error is not None:
            # Breaks a reference cycle that contains the body, and would stay until the garbage collector runs.
            error.__traceback__ = None
