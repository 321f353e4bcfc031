"""aiohttp's protocol with a `Watch` for each connection, and errors as Kubernetes reads them: a body like a ``Status``.

HttpError               raised where a request cannot be answered with a review
    .status, .message, .headers
FAREWELL                the last answer on an idle connection

A `Watchdog` drops connections that keep a server waiting: for the handshake, a header or a body, or until its answer is read.

aiohttp has a timeout for idle connections only, and no bound on their number. So each connection has a `Watch` with one
deadline, and periodic sweeps drop those that have missed it; a timer for each request would cost more than all of this.
Time is counted in sweeps: no clock is read for a request, and while the process stands still nobody misses a deadline.
At the maximum number of connections, a new one replaces the one that has kept the server waiting for the longest: a
client with a request sends it at once.

A connection is in one of four states: in the TLS handshake; waiting for a header (deadline `header_time` from its first
byte, or from the start of the connection); handled (`request_time`); or idle (none: `keepalive` is aiohttp's). The server
waits for all but those being handled, and for these while their body is incomplete. An incomplete header that arrives
together with the previous request counts as idle, so `keepalive` applies.

Before them: the limits on what clients may use, the current use, and the phases in the life of a server.
"""

import asyncio
import contextlib
import enum
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, cast

import msgspec
from aiohttp import web
from structlog.typing import FilteringBoundLogger

from webhook.quantity import MIB
from webhook.text import error_fields


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server; the defaults are for a process of its own. Sizes in bytes, times in seconds.

    Attributes:
        connections: maximum for reviews, including handshakes; a further one replaces the one that has kept the server
            waiting for the longest. An API server uses one for each review in flight.
        plain_connections: the same for probes and Prometheus.
        headers: bytes of incomplete headers of all connections together.
        body: bytes of one request. The API server accepts objects of 3 MiB, and a review can contain two of them;
            controller-runtime has the same limit.
        drained: bytes of a larger one that are received, to answer it nevertheless. Escaped by the API server, a character
            such as "<" takes six bytes, of up to 3 MiB in a new object, and twice 1.5 MiB in an update.
        reviews: maximum in flight, except those whose body is incomplete. An API server has at most 200 mutating
            requests in flight by default, and there are seldom more than three of them.
        bodies: received bytes of all reviews in flight: nine of the largest. With the interpreter and the connections,
            that is well within 256 MiB.
        body_time: from a request's headers to the end of its body. The API server sends immediately; its own default
            for the whole call is 10.
        header_time: from the first byte of a request to the end of its headers, and for the TLS handshake, for which
            Go's client allows as much.
        request_time: from a request's headers until its answer is sent. Above the 30 that the API server waits at most,
            and the 34 that it allows for the whole request.
        keepalive: for an idle connection. Above the 90 after which Go's client closes one: a server that closes first
            loses a request that is on its way, and a POST is not repeated.
        linger: for a client to go on sending after an error, so that it can read the answer.
        tls_close: for a client to answer the end of a TLS session.
        unavailable_time: minimum between the end of the grace period and the end of the listener, so that requests on their
            way get an answer that makes the API server repeat them elsewhere.
        shutdown_time: for the reviews in flight when the process is to end.
    """

    connections: int = 512
    plain_connections: int = 64
    headers: int = 16 * MIB
    body: int = 7 * MIB
    drained: int = 32 * MIB
    reviews: int = 512
    bodies: int = 64 * MIB
    body_time: float = 10
    header_time: float = 10
    request_time: float = 40
    keepalive: float = 180
    linger: float = 2
    tls_close: float = 5
    unavailable_time: float = 0.5
    shutdown_time: float = 15


@dataclass(slots=True, eq=False)
class BodyReading:
    """A body that is being received.

    Attributes:
        deadline: when it has to be complete.
        size: received bytes.
        crowded_out: whether it was given up in favor of others.
    """

    deadline: asyncio.Timeout
    size: int = 0
    crowded_out: bool = False


@dataclass(slots=True)
class InFlight:
    """The reviews that are not answered yet, and the bytes of their bodies.

    Attributes:
        reviews: their number.
        bodies: received bytes.
        readings: the bodies that are being received, the oldest first.
    """

    reviews: int = 0
    bodies: int = 0
    readings: dict[BodyReading, None] = field(default_factory=dict)
    _none_left: asyncio.Event | None = None

    def enter(self) -> None:
        """Count a new review."""
        self.reviews += 1

    def grow(self, reading: BodyReading, size: int, most: int) -> None:
        """Count more bytes of a body; beyond `most`, give up the oldest bodies: a regular body arrives at once."""
        reading.size += size
        self.bodies += size
        while self.bodies > most and self.readings:
            first = next(iter(self.readings))
            first.crowded_out = True
            first.deadline.reschedule(0)
            self.end(first)

    def end(self, reading: BodyReading) -> None:
        """Note that a body is complete, or given up."""
        if reading in self.readings:
            del self.readings[reading]
            self.bodies -= reading.size

    def leave(self, body: int) -> None:
        """Note that a review is answered, and its body of `body` bytes is no longer needed."""
        self.reviews -= 1
        self.bodies -= body
        if self._none_left is not None and not self.reviews:
            self._none_left.set()

    async def none_left(self) -> None:
        """Return once nothing is in flight; for the end of a server, when nothing new begins."""
        if self.reviews:
            # Made only now, so that reviews need not set an event during normal operation.
            self._none_left = asyncio.Event()
            await self._none_left.wait()


class Phase(enum.Enum):
    """How reviews are answered."""

    SERVING = "serving"
    DRAINING = "draining"
    """Not ready. Reviews are answered, and each answer closes its connection, until endpoints are updated."""
    STOPPING = "stopping"
    """Reviews are answered with a 503, after which the API server retries elsewhere."""


@dataclass(slots=True)
class Lifecycle:
    """The phase of a server, and requests to end it."""

    phase: Phase = Phase.SERVING
    _requested: asyncio.Event = field(default_factory=asyncio.Event)
    _hurried: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self, *, hurry: bool = False) -> None:
        """Request the end of the server; the second request, or one in a hurry, skips the grace period."""
        if hurry or self._requested.is_set():
            self._hurried.set()
        self._requested.set()

    async def wait(self) -> None:
        """Return once the end was requested."""
        await self._requested.wait()

    async def drain(self, *, grace: float, in_flight: InFlight, limits: Limits, log: FilteringBoundLogger) -> None:
        """Go through the phases; return when nothing is in flight, or the time for it is over."""
        self.phase = Phase.DRAINING
        log.info("draining", grace=grace)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._hurried.wait()
        self.phase = Phase.STOPPING
        log.info("stopping", in_flight=in_flight.reviews)
        await asyncio.sleep(limits.unavailable_time)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.shutdown_time):
                await in_flight.none_left()


SWEEPS: Final = 10
"""Sweeps within the shortest time limit: a connection is dropped about a tenth of it too late, and never too early."""

NEVER: Final = sys.maxsize
"""The deadline of a connection that the server does not wait for."""


class Watch:
    """The deadline of one connection, and its state."""

    __slots__ = ("_answered", "_busy", "_deadline", "_header", "_transport", "_watchdog", "handshake", "is_new")

    def __init__(self, watchdog: "Watchdog") -> None:
        self._watchdog = watchdog
        # With TLS, the handshake has its own time limit.
        self._deadline = NEVER
        self._transport: asyncio.Transport | None = None
        self._answered = self._busy = False
        self._header = 0
        self.handshake: asyncio.Task[None] | None = None
        """The task that opens the connection; None once it is open."""
        self.is_new = True
        """Whether there was no request yet."""

    def opened(self, transport: asyncio.Transport) -> None:
        """Note that the connection is open, and wait for a header."""
        self._transport = transport
        self._deadline = self._watchdog.header_deadline

    @property
    def is_open(self) -> bool:
        """Whether the handshake is over."""
        return self._transport is not None

    def received(self, size: int) -> None:
        """Note received bytes; on an idle connection, they begin a header."""
        if self._busy:
            return
        watchdog = self._watchdog
        if self._answered or self._deadline == NEVER:
            self._answered = False
            self._deadline = watchdog.header_deadline
        self._header += size
        watchdog.headers += size
        if watchdog.headers > watchdog.limits.headers:
            watchdog.evict_headers()

    def handling(self) -> None:
        """Note that a request's header is complete, and its handler runs."""
        watchdog = self._watchdog
        self._busy, self._answered, self.is_new = True, False, False
        self._deadline = watchdog.request_deadline
        watchdog.waiting.pop(self, None)
        self.drop_header()

    def reading(self, *, waits: bool) -> None:
        """Note whether the handler waits for the rest of the body."""
        self._watchdog.heed(self, waited_for=waits)

    def answered(self) -> None:
        """Note that the handler has returned; the deadline applies until the answer is sent."""
        self._busy, self._answered = False, True
        self._watchdog.heed(self, waited_for=True)

    def closed(self) -> None:
        """Note that the connection has ended."""
        self._watchdog.forget(self)

    def drop_header(self) -> None:
        """Release the memory that an incomplete header counted for."""
        self._watchdog.headers -= self._header
        self._header = 0

    def sweep(self, sweeps: int) -> None:
        """Drop the connection if its deadline has passed."""
        if self._transport is None:
            return
        if self._answered and self._transport.get_write_buffer_size() == 0:
            self._answered = False
            self._deadline = NEVER
        elif sweeps >= self._deadline:
            self._transport.abort()

    def dismiss(self, farewell: bytes) -> bool:
        """Close the connection after a last answer if it is idle; return whether it was."""
        if self._transport is None or self._busy or self._header:
            return False
        self._transport.write(farewell)
        self._transport.close()
        return True

    def abort(self) -> None:
        """Drop the connection."""
        if self._transport is not None:
            self._transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()


class Watchdog:
    """Watches the connections of a listener.

    Args:
        limits: the time limits.
        most: the maximum number of connections.

    Attributes:
        evicted: the number of connections closed in favor of new ones.
        failures: failed handshakes by reason.
        waiting: the connections that the server waits for, the longest first.
        headers: bytes in incomplete headers.
        header_deadline: the sweep that drops a connection whose header begins now.
        request_deadline: the same for a request whose handler begins now.
    """

    def __init__(self, limits: Limits, most: int) -> None:
        self.limits = limits
        self.most = most
        self.evicted = 0
        self.failures: dict[str, int] = {}
        self.waiting: dict[Watch, None] = {}
        self.headers = 0
        self._watches: set[Watch] = set()
        self._dismissed: set[Watch] = set()
        self._dismissed_closed = asyncio.Event()
        self._sweeps = 0
        self._pause = min(limits.header_time, limits.request_time) / SWEEPS
        self._set_deadlines()

    def __len__(self) -> int:
        return len(self._watches)

    def watch(self) -> Watch | None:
        """Watch a new connection; None if there are too many, and none can be closed."""
        if len(self._watches) >= self.most and not self.evict_idle():
            return None
        watch = Watch(self)
        self._watches.add(watch)
        self.waiting[watch] = None
        return watch

    def evict_idle(self) -> bool:
        """Close the connection that has kept the server waiting for the longest; return whether there is one."""
        longest = next(iter(self.waiting), None)
        if longest is None:
            return False
        self.evicted += 1
        self.forget(longest)
        longest.abort()
        return True

    def evict_headers(self) -> None:
        """Close connections until incomplete headers are within the limit."""
        while self.headers > self.limits.headers and self.evict_idle():
            pass

    def heed(self, watch: Watch, *, waited_for: bool) -> None:
        """Note whether the server waits for a connection from now on."""
        self.waiting.pop(watch, None)
        if waited_for and watch in self._watches:
            self.waiting[watch] = None

    def forget(self, watch: Watch) -> None:
        """Stop watching a connection that has ended, or is about to."""
        self._watches.discard(watch)
        self.waiting.pop(watch, None)
        if watch in self._dismissed:
            self._dismissed.remove(watch)
            if not self._dismissed:
                self._dismissed_closed.set()
        watch.drop_header()

    def count_failure(self, why: str) -> None:
        """Count a failed handshake."""
        self.failures[why] = self.failures.get(why, 0) + 1

    async def run(self) -> None:
        """Sweep forever."""
        while True:
            await asyncio.sleep(self._pause)
            self._sweeps += 1
            self._set_deadlines()
            for watch in tuple(self._watches):
                watch.sweep(self._sweeps)

    def _set_deadlines(self) -> None:
        # One sweep more, since part of the time to the next one is over.
        limits, now = self.limits, self._sweeps + 1
        self.header_deadline = now + math.ceil(limits.header_time / self._pause)
        self.request_deadline = now + math.ceil(limits.request_time / self._pause)

    async def dismiss(self, farewell: bytes) -> None:
        """Close the idle connections after a last answer, and wait until their clients have closed them, too.

        A socket closed before that would reset the connection under a request that is on its way, and lose the answer. A new
        connection is closed last: Go's client has no other try for a request with which it opened one.
        """
        idle = {watch for watch in tuple(self._watches) if not watch.is_new and watch.dismiss(farewell)}
        self._dismissed = idle | {watch for watch in self._watches if watch.is_new}
        if self._dismissed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.limits.linger):
                    await self._dismissed_closed.wait()
        for watch in self._watches - idle:
            watch.dismiss(farewell)

    def abort(self) -> None:
        """Drop every connection."""
        for watch in tuple(self._watches):
            watch.abort()


JSON: Final = "application/json"
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

RETRY_AFTER: Final = MappingProxyType({"Retry-After": "1"})
"""The API server repeats a call that is answered with this header, within the time limit of the call, and, because the
connection is closed, at another replica. Only for errors that another replica may not have: it repeats a 500 with it, too."""

STOPPING: Final = "this replica is stopping"

_REASONS: Final = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    HTTPStatus.REQUEST_TIMEOUT: "Timeout",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "RequestEntityTooLarge",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "UnsupportedMediaType",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}


class HttpError(Exception):
    """A request that is not answered with a review."""

    def __init__(self, status: HTTPStatus, message: str, headers: Mapping[str, str] = NO_HEADERS) -> None:
        self.status = status
        self.message = message
        self.headers = headers
        super().__init__(message)


def error_response(error: HttpError) -> web.Response:
    """The response for an error."""
    headers = {"Content-Type": JSON, **error.headers}
    response = web.Response(status=error.status, body=_body(error), headers=headers)
    if error.status is HTTPStatus.SERVICE_UNAVAILABLE:
        response.force_close()
    return response


def _body(error: HttpError) -> bytes:
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": error.status.value,
            "reason": _REASONS[error.status],
            "message": error.message,
        }
    )


def _farewell() -> bytes:
    error = HttpError(HTTPStatus.SERVICE_UNAVAILABLE, STOPPING, RETRY_AFTER)
    body = _body(error)
    headers = {"Content-Type": JSON, **error.headers, "Content-Length": str(len(body)), "Connection": "close"}
    lines = ["HTTP/1.1 503 Service Unavailable", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


FAREWELL: Final = _farewell()
"""What an idle connection is sent before it is closed. A request that is on its way meanwhile would have no answer but the
end of the connection, after which a POST is not repeated; so it is answered with this, and repeated elsewhere. A client
without a request ignores it (RFC 9112 §9.5 lets it close the connection; Go's client does)."""


class HttpProtocol(web.RequestHandler):
    """One connection; overrides what aiohttp has no settings for."""

    __slots__ = ("_log", "watch")

    def __init__(self, server: web.Server, limits: Limits, watch: Watch, log: FilteringBoundLogger) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # it would cost half as much as a review
            auto_decompress=False,
            keepalive_timeout=limits.keepalive,
            lingering_time=0,  # ours ends with the connection; aiohttp's would go on
        )
        self._log = log
        self.watch = watch

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.watch.opened(cast("asyncio.Transport", transport))
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.watch.closed()
        super().connection_lost(exc)
        for message, _ in self._messages:
            # Errors of what followed on bytes that are no HTTP, as in `handle_error`.
            error = getattr(message, "exc", None)
            if error is not None:
                error.__traceback__ = None

    def data_received(self, data: bytes) -> None:
        self.watch.received(len(data))
        super().data_received(data)

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002  (aiohttp's signature)
        # aiohttp calls it whenever a body is read, and then parses nothing and resumes what was never paused.
        if self._reading_paused:
            super().resume_reading(resume_parser)

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
