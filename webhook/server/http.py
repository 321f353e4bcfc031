"""HTTP for aiohttp: sockets, connections and their end, routes; errors as Kubernetes reads them, a body like a ``Status``.

aiohttp has a timeout for idle connections only, and no bound on their number; asyncio's servers do not show a handshake
before it has succeeded. So sockets are accepted here, each connection has one deadline, and periodic sweeps drop those that
have missed theirs. Time is counted in sweeps: no clock is read for a request, and while the process stands still nobody misses
a deadline. At the maximum number of connections, a new one replaces the one that has kept the server waiting for the longest:
a client with a request sends it at once.

A connection is in one of four states: in the TLS handshake; waiting for a header (deadline `header_time` from its first
byte, or from the start of the connection); handled (`request_time`, until its answer is sent); or idle (none: `keepalive` is
aiohttp's). The server waits for all but those being handled, and for these while their body is incomplete. An incomplete
header that arrives together with the previous request counts as idle.
"""

import asyncio
import contextlib
import errno
import functools
import math
import socket
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from email.utils import formatdate
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, TypeAlias, cast

import msgspec
from aiohttp import HttpVersion11, hdrs, web
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from webhook.server.limits import BodyReading, InFlight, Limits, soon
from webhook.server.logs import MINUTE, Throttle
from webhook.text import error_fields

JSON: Final = "application/json"
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

RETRY_AFTER: Final = MappingProxyType({"Retry-After": "1"})
"""The API server repeats a call that is answered with this header, within the time limit of the call, and, because the
connection is closed, at another replica. Only for errors that another replica may not have: it repeats a 500 with it, too."""

STOPPING: Final = "this replica is stopping"

_REASONS: Final = {
    HTTPStatus.REQUEST_TIMEOUT: "Timeout",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "RequestEntityTooLarge",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
}
"""Where the reason of a ``Status`` is not the phrase of HTTP without its spaces."""


class HttpError(Exception):
    """A request that is not answered with a review."""

    def __init__(self, status: HTTPStatus, message: str, headers: Mapping[str, str] = NO_HEADERS) -> None:
        self.status = status
        self.message = message
        self.headers = headers
        super().__init__(message)

    @property
    def body(self) -> bytes:
        """A ``Status``, as Kubernetes' clients read it."""
        return msgspec.json.encode(
            {
                "apiVersion": "v1",
                "kind": "Status",
                "status": "Failure",
                "code": self.status.value,
                "reason": _REASONS.get(self.status) or self.status.phrase.replace(" ", ""),
                "message": self.message,
            }
        )


def error_response(error: HttpError) -> web.Response:
    """The response for an error."""
    response = web.Response(status=error.status, body=error.body, headers={"Content-Type": JSON, **error.headers})
    if error.status is HTTPStatus.SERVICE_UNAVAILABLE:
        response.force_close()
    return response


def _farewell() -> bytes:
    error = HttpError(HTTPStatus.SERVICE_UNAVAILABLE, STOPPING, RETRY_AFTER)
    headers = {"Content-Type": JSON, **error.headers, "Content-Length": len(error.body), "Connection": "close"}
    lines = ["HTTP/1.1 503 Service Unavailable", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + error.body


FAREWELL: Final = _farewell()
"""What an idle connection is sent before it is closed. A request that is on its way meanwhile would have no answer but the
end of the connection, after which a POST is not repeated; so it is answered with this, and repeated elsewhere. A client
without a request ignores it (RFC 9112 §9.5 lets it close the connection; Go's client does)."""

TLS_BUFFER: Final = 64 * 1024
"""Bytes of a connection's decryption buffer. asyncio uses 256 KiB and has no setting; an API server opens a connection for
each review in flight, and the buffers of hundreds of them would fill a replica's memory."""

BACKLOG: Final = 1024
"""Connections that the kernel queues; it drops further ones, and their clients try again a second later."""

PAUSE: Final = 0.1
"""Seconds after a failed accept: without descriptors or memory, the next one fails, too."""

SWEEPS: Final = 10
"""Sweeps within the shortest time limit: a connection is dropped about a tenth of it too late, and never too early."""

_HANDSHAKES: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no_client_certificate",
    "CERTIFICATE_VERIFY_FAILED": "client_certificate",
}
"""Why a handshake failed, by OpenSSL's name; others are ``tls``."""


class Connections:
    """The connections of a listener; a sweep drops those that have missed a deadline, and each counts in sweeps.

    Attributes:
        waiting: the connections that the server waits for, the longest first.
        headers: bytes in incomplete headers.
        open: all connections, also those in a handshake.
    """

    def __init__(self, limits: Limits, most: int) -> None:
        self.limits = limits
        self.most = most
        self.evicted = 0
        self.failures: Counter[str] = Counter()
        self.waiting: dict[HttpProtocol, None] = {}
        self.headers = 0
        self.sweeps = 0
        self.open: set[HttpProtocol] = set()
        self._pause = min(limits.header_time, limits.request_time) / SWEEPS
        # One sweep more, since part of the time to the next one is over.
        self.header_sweeps, self.request_sweeps = (
            1 + math.ceil(seconds / self._pause) for seconds in (limits.header_time, limits.request_time)
        )

    def __len__(self) -> int:
        return len(self.open)

    def begin(self, accepted: socket.socket, protocol: "HttpProtocol", context: ssl.SSLContext | None) -> None:
        """Begin a connection, over TLS if there is a context; close it if there are too many, and none can be closed."""
        if len(self.open) >= self.most and not self.evict():
            accepted.close()
            return
        self.open.add(protocol)
        self.waiting[protocol] = None
        protocol.opening = asyncio.create_task(self._open(accepted, protocol, context))

    async def _open(self, accepted: socket.socket, protocol: "HttpProtocol", context: ssl.SSLContext | None) -> None:
        tls = context is not None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=context,
                ssl_handshake_timeout=self.limits.header_time if tls else None,
                ssl_shutdown_timeout=self.limits.tls_close if tls else None,
            )
        except (OSError, asyncio.CancelledError) as error:
            if isinstance(error, ssl.SSLError):
                self.failures[_HANDSHAKES.get(error.reason, "tls")] += 1
            elif isinstance(error, OSError):
                self.failures["aborted"] += 1
            # Breaks a reference cycle of 0.1 MiB, which would stay until the garbage collector runs.
            error.__traceback__ = None
        finally:
            protocol.opening = None
            if protocol.transport is None:
                protocol.connection_lost(None)

    def evict(self) -> bool:
        """Close the connection that has kept the server waiting for the longest; return whether there is one."""
        longest = next(iter(self.waiting), None)
        if longest is None:
            return False
        self.evicted += 1
        self.forget(longest)
        longest.abort()
        return True

    def forget(self, connection: "HttpProtocol") -> None:
        """Count a connection no longer: it has ended, or is about to."""
        self.open.discard(connection)
        self.waiting.pop(connection, None)
        connection.drop_header()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            self.sweeps += 1
            self.abort([connection for connection in self.open if connection.is_late])

    async def dismiss(self) -> None:
        """Close the idle connections after a last answer, and wait until their clients have closed them, too.

        A socket closed before that would reset the connection under a request that is on its way, and lose the answer. A new
        connection is closed last: Go's client has no other try for a request with which it opened one.
        """
        new = {connection for connection in self.open if connection.is_new}
        closing = {connection for connection in self.open - new if connection.dismiss()}
        await soon(lambda: not self.open & (new | closing), self.limits.linger)
        for connection in self.open - closing:
            connection.dismiss()

    def abort(self, connections: "Iterable[HttpProtocol] | None" = None) -> None:
        for connection in tuple(self.open if connections is None else connections):
            connection.abort()


class HttpProtocol(web.RequestHandler):
    """One connection: aiohttp's protocol with a deadline, and with errors of our own; `opening` is None once it is open."""

    __slots__ = ("_busy", "_connections", "_deadline", "_header", "_log", "_wire", "is_new", "opening")

    def __init__(self, server: web.Server, connections: Connections, log: FilteringBoundLogger) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # it would cost half as much as a review
            auto_decompress=False,
            keepalive_timeout=connections.limits.keepalive,
            lingering_time=0,  # ours ends with the connection; aiohttp's would go on
        )
        self.opening: asyncio.Task[None] | None = None
        self.is_new = True
        self._connections = connections
        self._log = log
        self._wire: asyncio.Transport | None = None
        self._deadline = self._header = 0
        self._busy = False

    @property
    def is_late(self) -> bool:
        """Whether a header or a request has missed its deadline; a handshake has its own, and an idle connection none."""
        if self._wire is None or self._connections.sweeps < self._deadline:
            return False
        return self._busy or self._header > 0 or self.is_new or self._wire.get_write_buffer_size() > 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast("asyncio.Transport", transport)
        self._deadline = self._connections.sweeps + self._connections.header_sweeps
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.forget(self)
        super().connection_lost(exc)
        for message, _ in self._messages:
            # Errors of what followed on bytes that are no HTTP, as in `handle_error`.
            error = getattr(message, "exc", None)
            if error is not None:
                error.__traceback__ = None

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            connections = self._connections
            if not self._header:
                self._deadline = connections.sweeps + connections.header_sweeps
            self._header += len(data)
            connections.headers += len(data)
            while connections.headers > connections.limits.headers and connections.evict():
                pass
        super().data_received(data)

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002  (aiohttp's signature)
        # aiohttp calls it whenever a body is read, and then parses nothing and resumes what was never paused.
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def handling(self) -> None:
        """Note that a request's header is complete, and its handler runs."""
        self._busy, self.is_new = True, False
        self._deadline = self._connections.sweeps + self._connections.request_sweeps
        self._connections.waiting.pop(self, None)
        self.drop_header()

    def answered(self) -> None:
        """Note that the handler has returned; the deadline applies until the answer is sent."""
        self._busy = False
        if self in self._connections.open:
            self._connections.waiting[self] = None

    def heed(self, *, waited_for: bool) -> None:
        """Note whether the server waits for the client from now on."""
        self._connections.waiting.pop(self, None)
        if waited_for and self in self._connections.open:
            self._connections.waiting[self] = None

    def drop_header(self) -> None:
        """Release the memory that an incomplete header counted for."""
        self._connections.headers -= self._header
        self._header = 0

    def dismiss(self) -> bool:
        """Close the connection after a last answer if it is idle; return whether it was."""
        if self._wire is None or self._busy or self._header:
            return False
        self._wire.write(FAREWELL)
        self._wire.close()
        return True

    def abort(self) -> None:
        if self._wire is not None:
            self._wire.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP, and errors that no handler has caught: aiohttp would quote what was sent."""
        del message
        if status == HTTPStatus.BAD_REQUEST:
            self._log.debug("http_error", status=status, error=type(exc).__name__)
            if exc is not None:
                # Breaks a reference cycle of 0.2 MiB, which would stay until the garbage collector runs.
                exc.__traceback__ = None
            error = HttpError(HTTPStatus.BAD_REQUEST, "no HTTP/1.1 request")
        else:
            self._log.error("bug", **({} if exc is None else error_fields(exc)))
            error = HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "an error of the webhook itself")
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has already begun")
        response = error_response(error)
        response.force_close()
        return response


Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Endpoint(Struct, frozen=True):
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
    connections: Connections,
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

    def begin(accepted: socket.socket) -> None:
        connections.begin(accepted, HttpProtocol(server, connections, log), context)

    work = [asyncio.create_task(connections.run())]
    work += [asyncio.create_task(_accept(each, begin, connections, log)) for each in sockets]
    try:
        yield Endpoint(endpoint.host, sockets[0].getsockname()[1])
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        for listener in sockets:
            asyncio.get_running_loop().remove_reader(listener)
            _accept_queued(listener, begin)
            listener.close()
        await connections.dismiss()
        await server.shutdown(connections.limits.shutdown_time)
        connections.abort()


def _bound(endpoint: Endpoint, *, reuse_port: bool) -> list[socket.socket]:
    """Open a listening socket for each address, or a single dual-stack one if the system supports it."""
    dual = endpoint.host is None and socket.has_dualstack_ipv6()
    host = endpoint.host or ("::" if dual else "0.0.0.0")  # noqa: S104  (all addresses are meant)
    found = socket.getaddrinfo(host, endpoint.port, type=socket.SOCK_STREAM)
    with contextlib.ExitStack() as opened:
        sockets = [
            opened.enter_context(
                socket.create_server(
                    address, family=family, backlog=BACKLOG, reuse_port=reuse_port, dualstack_ipv6=dual
                )
            )
            for family, address in dict.fromkeys((family, address[:2]) for family, _, _, _, address in found)
        ]
        opened.pop_all()
    for each in sockets:
        each.setblocking(False)  # noqa: FBT003
    return sockets


async def _accept(
    listener: socket.socket, begin: Callable[[socket.socket], None], connections: Connections, log: FilteringBoundLogger
) -> None:
    """Accept connections until cancelled."""
    loop, ready, throttle = asyncio.get_running_loop(), asyncio.Event(), Throttle(1, MINUTE)
    while True:
        try:
            accepted, _ = listener.accept()
        except (BlockingIOError, InterruptedError):
            # The loop's own `sock_accept` loses a connection that it accepts while it is cancelled.
            ready.clear()
            loop.add_reader(listener, ready.set)
            await ready.wait()
            loop.remove_reader(listener)
        except OSError as error:
            suppressed = throttle.passes(error.errno)
            if suppressed is not None:
                name = errno.errorcode.get(error.errno or 0, "")
                log.warning("no_connection_accepted", error=name, connections=len(connections), suppressed=suppressed)
            connections.evict()
            await asyncio.sleep(PAUSE)
        else:
            accepted.setblocking(False)  # noqa: FBT003
            begin(accepted)
            # The next connection may already be waiting: let the accepted ones run in between.
            await asyncio.sleep(0)


def _accept_queued(listener: socket.socket, begin: Callable[[socket.socket], None]) -> None:
    """Accept what the kernel has opened already: the end of the listener would reset it."""
    with contextlib.suppress(OSError):  # BlockingIOError: there is no other
        while True:
            accepted, _ = listener.accept()
            accepted.setblocking(False)  # noqa: FBT003
            begin(accepted)


Routes: TypeAlias = Mapping[str, tuple[str, Handler]]
"""Path → method and handler: a few, each with one method, so they are no application with a router, which would take a tenth
of the time of a review."""


def dispatcher(routes: Routes, limits: Limits) -> Handler:
    """Make the handler of every request, which finds its route and does what all routes have in common."""

    async def dispatch(request: web.BaseRequest) -> web.StreamResponse:
        connection: HttpProtocol = request.protocol  # type: ignore[assignment]  # every connection is one
        connection.handling()
        response: web.StreamResponse
        try:
            # Any other expectation may be ignored (RFC 9110 §10.1.1).
            expected = request.headers.get(hdrs.EXPECT)
            if expected and expected.lower() == "100-continue" and request.version >= HttpVersion11:
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                request.writer.output_size = 0  # the final answer has not begun
            try:
                response = await _handler(request, routes)(request)
            except HttpError as error:
                response = error_response(error)
            if not request.content.is_eof():
                await _linger(request, response, limits)
        finally:
            connection.answered()
        return response

    return dispatch


def _handler(request: web.BaseRequest, routes: Routes) -> Handler:
    # The path is decoded only if the raw one has no route.
    route = routes.get(request.raw_path.partition("?")[0]) or routes.get(request.path)
    if route is None:
        raise HttpError(HTTPStatus.NOT_FOUND, "not found")
    method, handler = route
    if request.method != method:
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"only {method} is allowed", {"Allow": method})
    return handler


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


class ReviewAnswer(web.StreamResponse):
    """A response 200 whose whole body is known.

    aiohttp builds headers as a multidict, for handlers that add some, and encodes them: an eighth of a review's time. The
    version, status, ``Date``, length and end of the connection are as RFC 9112 §§3-9 and RFC 9110 §6.6.1 require them.
    """

    def __init__(self, body: bytes) -> None:
        # Without that of aiohttp, which makes the multidict: nothing here has a status or headers to change.
        self._text = body
        self._sent = False
        self._persists = True

    @property
    def prepared(self) -> bool:
        return self._sent

    @property
    def keep_alive(self) -> bool:
        return self._persists

    def force_close(self) -> None:
        self._persists = False

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write the response, once."""
        if self._sent:
            return
        self._sent = True
        self._persists = self._persists and request.keep_alive and request.version >= HttpVersion11
        text = self._text
        head = _head(int(time.time()), "" if self._persists else "Connection: close\r\n")
        await request.writer.write(head % len(text) + text)
        # A client that sends requests and reads no responses must not fill the memory with them.
        if request.protocol.writing_paused:
            await request.writer.drain()

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: `prepare` has written everything."""
        del data


@functools.lru_cache(maxsize=2)
def _head(seconds: int, close: str) -> bytes:
    """The lines before a body, whose length is still to be filled in."""
    date = formatdate(seconds, usegmt=True)
    return f"HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nDate: {date}\r\n{close}Content-Length: %d\r\n\r\n".encode()


MAX_HEAD: Final = 256 * 1024
"""The most bytes of what says what a review is about; groups of a user are the most of it."""


class LargeBodyError(HttpError):
    """A body that is larger than any that is decoded (413), and its beginning, if all of it was received."""

    def __init__(self, limits: Limits, head: bytes = b"") -> None:
        super().__init__(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {limits.body} bytes")
        self.head = head


async def body_of(request: web.BaseRequest, limits: Limits, in_flight: InFlight) -> bytes:
    """Return the body of a JSON request, and count its bytes as in flight.

    An `HttpError` says that it is not JSON (415), too slow (408), incomplete (400), too large, or one of too many (503).
    """
    headers = request.headers
    media_type = headers.get(hdrs.CONTENT_TYPE, "")
    if media_type != JSON and media_type.partition(";")[0].strip().lower() != JSON:
        raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content type must be {JSON}")
    if hdrs.CONTENT_ENCODING in headers:
        # The API server never compresses, and a small compressed body may need much memory.
        raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not supported")
    content = request.content
    if content.is_eof():  # nearly always: it has arrived together with the headers
        body = content.read_nowait()
        if len(body) > limits.body:
            raise LargeBodyError(limits, body[:MAX_HEAD])
    elif (request.content_length or 0) > limits.drained:
        raise LargeBodyError(limits)
    else:
        body = await _received(request, limits, in_flight)
    in_flight.bodies += len(body)
    return body


async def _received(request: web.BaseRequest, limits: Limits, in_flight: InFlight) -> bytes:
    """Receive a body that arrives in parts; raises what `body_of` raises."""
    connection: HttpProtocol = request.protocol  # type: ignore[assignment]  # as above
    reading = BodyReading(asyncio.timeout(limits.body_time))
    in_flight.readings[reading] = None
    connection.heed(waited_for=True)
    try:
        async with reading.deadline:
            chunks = []
            while chunk := await request.content.readany():
                chunks.append(chunk)
                if reading.size + len(chunk) > limits.body:
                    head, received = b"".join(chunks)[:MAX_HEAD], reading.size + len(chunk)
                    chunks.clear()
                    in_flight.end(reading)
                    raise await _drained(request, head, received, limits)
                in_flight.grow(reading, len(chunk), limits.bodies)
            return b"".join(chunks)
    except TimeoutError:
        if reading.crowded_out:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "too many large requests at once", RETRY_AFTER) from None
        raise HttpError(HTTPStatus.REQUEST_TIMEOUT, f"the body took longer than {limits.body_time:g} s") from None
    except (web.RequestPayloadError, ConnectionError):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body is incomplete") from None
    finally:
        in_flight.end(reading)
        connection.heed(waited_for=False)


async def _drained(request: web.BaseRequest, head: bytes, received: int, limits: Limits) -> LargeBodyError:
    """Receive the rest of a body that is too large: a client that is still sending misses the answer."""
    while received <= limits.drained:
        chunk = await request.content.readany()
        if not chunk:
            return LargeBodyError(limits, head)
        received += len(chunk)
    return LargeBodyError(limits)
