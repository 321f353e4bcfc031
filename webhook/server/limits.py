"""Limits on what clients may use, and the current use."""

import asyncio
from dataclasses import dataclass, field

from webhook.quantity import MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server; the defaults are for a process of its own. Sizes in bytes, times in seconds.

    Attributes:
        connections: open at once for reviews, those in a handshake included; the next one takes the place of the one
            that has been waited for the longest. API servers hold one for each review in flight.
        plain_connections: the same for probes and Prometheus.
        headers: bytes of headers that are not complete yet, of all connections together.
        body: of one request. The API server takes objects of 3 MiB, and a review can hold two of them and some more;
            controller-runtime has the same.
        reviews: in flight at once, but for those whose body is still on its way. An API
            server has at most 200 mutating requests in flight by default, and there are seldom more than three.
        bodies: of all reviews in flight, as far as they have come: nine of the largest. With the interpreter and the
            connections well within 256 MiB.
        body_time: from a request's headers to the end of its body. The API server sends at once; its own default for
            the whole call is 10.
        header_time: from the first byte of a request to the end of its headers, and for the TLS handshake. As much as
            Go's client allows for a handshake.
        request_time: from a request's headers until its answer has left. Above the 30 that the API server waits at
            most, and the 34 that it gives the whole request.
        keepalive: an idle connection. Above the 90 after which Go's client lets go of one: whoever waits less closes
            it under a request that is on its way, and a POST is not repeated.
        linger: for a client to go on sending after an error, so that it gets to read the answer.
        tls_close: for a client to answer the end of a TLS session.
        refuse_time: at least, between the end of the grace and the end of the listener, so that what was already on
            its way gets an answer that is repeated elsewhere.
        shutdown_time: for the reviews in flight when the process is to end.
    """

    connections: int = 512
    plain_connections: int = 64
    headers: int = 16 * MIB
    body: int = 7 * MIB
    reviews: int = 512
    bodies: int = 64 * MIB
    body_time: float = 10
    header_time: float = 10
    request_time: float = 40
    keepalive: float = 180
    linger: float = 2
    tls_close: float = 5
    refuse_time: float = 0.5
    shutdown_time: float = 15


@dataclass(slots=True, eq=False)
class Reading:
    """A body that is on its way.

    Attributes:
        deadline: by when it has to be there.
        size: bytes that have come.
        crowded_out: whether it had to make room.
    """

    deadline: asyncio.Timeout
    size: int = 0
    crowded_out: bool = False


@dataclass(slots=True)
class InFlight:
    """The reviews whose answer is not ready yet, and the bytes of their bodies.

    Attributes:
        reviews: all of them.
        bodies: bytes that have come.
        readings: those whose body is on its way, the first one first.
    """

    reviews: int = 0
    bodies: int = 0
    readings: dict[Reading, None] = field(default_factory=dict)
    _none_left: asyncio.Event | None = None

    def enter(self) -> None:
        """A review has begun."""
        self.reviews += 1

    def grow(self, reading: Reading, size: int, most: int) -> None:
        """Count more bytes of a body. If it is too much, the oldest bodies make room: a regular body arrives at once."""
        reading.size += size
        self.bodies += size
        while self.bodies > most and self.readings:
            first = next(iter(self.readings))
            first.crowded_out = True
            first.deadline.reschedule(0)
            self.end(first)

    def end(self, reading: Reading) -> None:
        """A body is complete, or is given up."""
        if reading in self.readings:
            del self.readings[reading]
            self.bodies -= reading.size

    def leave(self, body: int) -> None:
        """A review's answer is ready, and its body of `body` bytes is not needed anymore."""
        self.reviews -= 1
        self.bodies -= body
        if self._none_left is not None and not self.reviews:
            self._none_left.set()

    async def none_left(self) -> None:
        """Return once nothing is in flight; for the end of a server, when nothing new begins."""
        if self.reviews:
            # Only now: an event for each review to set would cost all of them.
            self._none_left = asyncio.Event()
            await self._none_left.wait()
