"""What clients may use of a server, what they use now, and the phases of its life."""

import asyncio
import contextlib
import enum
import resource
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from webhook.request import MIB


class Limits(Struct, frozen=True):
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
    bodies: int = 64 * MIB
    body_time: float = 10
    header_time: float = 10
    request_time: float = 40
    keepalive: float = 180
    linger: float = 2
    tls_close: float = 5
    unavailable_time: float = 0.5
    shutdown_time: float = 15


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


class Phase(enum.Enum):
    """How reviews are answered."""

    SERVING = "serving"
    DRAINING = "draining"
    """Not ready. Reviews are answered, and each answer closes its connection, until endpoints are updated."""
    STOPPING = "stopping"
    """Reviews are answered with a 503, after which the API server retries elsewhere."""


SERVING: Final = Phase.SERVING
"""Asked for by each review; up to Python 3.11 a member of an enumeration is the result of a call."""


class BodyReading(Struct, eq=False):
    """A body that is being received until a deadline; it may have to give way to others."""

    deadline: asyncio.Timeout
    size: int = 0
    crowded_out: bool = False


class InFlight(Struct):
    """The reviews that are not answered yet, the received bytes of their bodies, and those being read, the oldest first."""

    reviews: int = 0
    bodies: int = 0
    readings: dict[BodyReading, None] = {}

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


class Lifecycle(Struct):
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
        await soon(lambda: not in_flight.reviews, limits.shutdown_time)


async def soon(condition: Callable[[], bool], seconds: float) -> None:
    """Return once a condition is met, or after some time; for the end of a server, where nobody waits for this moment."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  (an event would be set for each review)
                await asyncio.sleep(0.01)
