"""Listening sockets for aiohttp, with what aiohttp's own sites have no settings for, and the routes that they serve.

``POST`` to ``/mutate`` and ``/validate`` over TLS; ``GET`` of health, readiness and metrics over plain HTTP. There are five of
them, each with one method, so they are a dictionary and not an application with a router, which would take a tenth of the
time of a review.
"""

import asyncio
import contextlib
import errno
import resource
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final, TypeAlias

from aiohttp import HttpVersion11, hdrs, web
from prometheus_client import CONTENT_TYPE_LATEST
from structlog.typing import FilteringBoundLogger

from webhook.server.logs import MINUTE, Throttle
from webhook.server.metrics import Metrics
from webhook.server.protocol import (
    FAREWELL,
    HttpError,
    HttpProtocol,
    Lifecycle,
    Limits,
    Phase,
    Watch,
    Watchdog,
    error_response,
)

TLS_BUFFER: Final = 64 * 1024
"""Bytes of a connection's decryption buffer. asyncio uses 256 KiB and has no setting; an API server opens a connection for
each review in flight, and the buffers of hundreds of them would fill a replica's memory."""

BACKLOG: Final = 1024
"""Connections that the kernel queues; it drops further ones, and their clients try again a second later."""

EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""The errors of an accept without resources; until there are some, every accept fails at once."""

PAUSE: Final = 0.1
"""Seconds between such accepts; meanwhile a connection that kept the server waiting is closed."""

Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address to listen on, or None for all of them, and a port, or 0 for a free one."""

    host: str | None
    port: int

    def __str__(self) -> str:
        host = self.host or "0.0.0.0"  # noqa: S104  (it is only shown)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@contextlib.asynccontextmanager
async def listening(
    handler: Handler,
    endpoint: Endpoint,
    watchdog: Watchdog,
    log: FilteringBoundLogger,
    context: ssl.SSLContext | None = None,
    *,
    reuse_port: bool = False,
) -> AsyncIterator[Endpoint]:
    """Serve a handler, over TLS if there is a context; yields the endpoint with the actual port.

    With `reuse_port`, several processes may listen on one port; the kernel gives each connection to one of them.

    On exit, the requests in flight may complete, new connections may have one answered for a moment, and every connection is
    closed, an idle one after a 503: see `FAREWELL`.

    Raises:
        OSError: the endpoint is not available.
    """
    if context is not None:
        SSLProtocol.max_size = TLS_BUFFER  # it is read for each connection
    sockets = _bound(endpoint, reuse_port=reuse_port)
    server = web.Server(handler)
    runner = web.ServerRunner(server, shutdown_timeout=watchdog.limits.shutdown_time)
    await runner.setup()
    acceptor = _Acceptor(server, watchdog, log, context)
    work = [asyncio.create_task(coroutine) for coroutine in (watchdog.run(), *map(acceptor.accept, sockets))]
    try:
        yield Endpoint(endpoint.host, sockets[0].getsockname()[1])
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        for listener in sockets:
            acceptor.accept_queued(listener)
            listener.close()
        await watchdog.dismiss(FAREWELL)
        await runner.cleanup()
        watchdog.abort()


def _bound(endpoint: Endpoint, *, reuse_port: bool) -> list[socket.socket]:
    """Open a listening socket for each address, or a single dual-stack one if the system supports it."""
    if endpoint.host is None and socket.has_dualstack_ipv6():
        addresses = [(socket.AF_INET6, ("", endpoint.port))]
    else:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        addresses = [(family, (str(address[0]), endpoint.port)) for family, _, _, _, address in found]
    dual = endpoint.host is None and addresses[0][0] == socket.AF_INET6 and len(addresses) == 1
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys(addresses):
            made = socket.create_server(
                address, family=family, backlog=BACKLOG, reuse_port=reuse_port, dualstack_ipv6=dual
            )
            made.settimeout(0)
            sockets.append(made)
    except OSError:
        for listener in sockets:
            listener.close()
        raise
    return sockets


class _Acceptor:
    """Accepts connections; asyncio's own servers have no limit, and log each failure for lack of a descriptor."""

    def __init__(
        self, server: web.Server, watchdog: Watchdog, log: FilteringBoundLogger, context: ssl.SSLContext | None
    ) -> None:
        self._server = server
        self._watchdog = watchdog
        self._log = log
        self._context = context
        self._throttle = Throttle(1, MINUTE)

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                # Other errors concern a connection that ended before it was accepted.
                if error.errno in EXHAUSTED:
                    self._log_exhaustion(error)
                    self._watchdog.evict_idle()
                    await asyncio.sleep(PAUSE)
                continue
            self._begin(connection)
            # The next connection may already be waiting: let the accepted ones run in between.
            await asyncio.sleep(0)

    def accept_queued(self, listener: socket.socket) -> None:
        """Accept what the kernel has opened already: the end of the listener would reset it."""
        with contextlib.suppress(OSError):  # BlockingIOError: there is no other
            while True:
                connection, _ = listener.accept()
                connection.settimeout(0)
                self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        watch = self._watchdog.watch()
        if watch is None:
            connection.close()
        else:
            watch.handshake = asyncio.get_running_loop().create_task(self._open(connection, watch))

    async def _open(self, connection: socket.socket, watch: Watch) -> None:
        limits, tls = self._watchdog.limits, self._context is not None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: HttpProtocol(self._server, limits, watch, self._log),
                connection,
                ssl=self._context,
                ssl_handshake_timeout=limits.header_time if tls else None,
                ssl_shutdown_timeout=limits.tls_close if tls else None,
            )
        except (OSError, asyncio.CancelledError) as error:
            if isinstance(error, OSError):
                self._watchdog.count_failure(_why(error))
            # Breaks a reference cycle of 0.1 MiB, which would stay until the garbage collector runs.
            error.__traceback__ = None
        finally:
            watch.handshake = None
            if not watch.is_open:
                self._watchdog.forget(watch)

    def _log_exhaustion(self, error: OSError) -> None:
        suppressed = self._throttle.passes(error.errno)
        if suppressed is not None:
            name = errno.errorcode.get(error.errno or 0, "")
            self._log.warning(
                "no_connection_accepted", error=name, connections=len(self._watchdog), suppressed=suppressed
            )


def _why(error: OSError) -> str:
    """Why a handshake failed: one of a few known values."""
    if not isinstance(error, ssl.SSLError):
        return "aborted"
    match error.reason:
        case "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            return "no_client_certificate"
        case "CERTIFICATE_VERIFY_FAILED":
            return "client_certificate"
        case _:
            return "tls"


OWN: Final = 128
"""Descriptors for everything but callers: the API server, files, listeners, the loop."""


def raise_descriptors() -> int:
    """Raise the soft limit of descriptors, often 1,024, to the hard limit; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def within(limits: Limits, descriptors: int) -> Limits:
    """Reduce limits so that descriptors never run out; probes and Prometheus get theirs first."""
    if descriptors == resource.RLIM_INFINITY:
        return limits
    plain = min(limits.plain_connections, max(1, descriptors // 8))
    available = max(1, descriptors - plain - min(OWN, descriptors // 2))
    return replace(limits, plain_connections=plain, connections=min(limits.connections, available))


Routes: TypeAlias = Mapping[str, tuple[str, Handler]]
"""Path → method and handler."""
ReadyCheck: TypeAlias = Callable[[], str | None]
"""A condition of readiness: returns None, or why it is not met."""

MUTATE: Final = "/mutate"
VALIDATE: Final = "/validate"


def failures(lifecycle: Lifecycle, checks: Mapping[str, ReadyCheck]) -> list[str]:
    """Why a server is not ready, by what it depends on; empty where it is."""
    found = [f"{name}: {why}" for name, check in checks.items() if (why := check()) is not None]
    if lifecycle.phase is not Phase.SERVING:
        found.append(f"lifecycle: {lifecycle.phase.value}")
    return found


def plain_routes(lifecycle: Lifecycle, metrics: Metrics, checks: Mapping[str, ReadyCheck]) -> Routes:
    """The routes for probes and Prometheus.

    Args:
        lifecycle: the server is not ready once it is about to end.
        metrics: the metrics to show.
        checks: the conditions of readiness, by name.
    """

    async def healthz(_request: web.BaseRequest) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.BaseRequest) -> web.Response:
        found = failures(lifecycle, checks)
        status = HTTPStatus.SERVICE_UNAVAILABLE if found else HTTPStatus.OK
        return web.Response(status=status, text="".join(f"{line}\n" for line in found or ["ok"]))

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
