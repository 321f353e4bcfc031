"""What a client may cost, and how much of it there is at the moment."""

import asyncio
from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server; the defaults are for a process of its own. Sizes in bytes, times in seconds.

    Attributes:
        body: of one request. The API server takes objects of 3 MiB, and a review can hold two of them and some more;
            controller-runtime has the same.
        reviews: in flight at once. An API server has at most 200 mutating requests in flight by default, and there
            are seldom more than three.
        bodies: announced by the reviews whose body is still being read, together: nine of the largest. With the
            interpreter and the connections well within 256 MiB.
        body_time: from a request's headers to the end of its body. The API server sends at once; its own default for
            the whole call is 10.
        header_time: from the first byte of a request to the end of its headers, and for the TLS handshake. As much as
            Go's client allows for a handshake.
        request_time: from a request's headers until its answer has left. Above the 30 that the API server waits at
            most, and the 34 that it gives the whole request.
        keepalive: an idle connection. Above the 90 after which Go's client lets go of one: whoever waits less closes
            it under a request that is on its way, and a POST is not repeated.
        linger: what a client may go on sending after it was refused, so that it gets to read the refusal.
        tls_close: for a client to answer the end of a TLS session.
        refuse_time: at least, between the end of the grace and the end of the listener, so that what was already on
            its way gets an answer that is repeated elsewhere.
        shutdown_time: for the reviews in flight when the process is to end.
    """

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


@dataclass(slots=True)
class InFlight:
    """The reviews whose answer is not ready yet, and the bytes that their bodies have or announce."""

    reviews: int = 0
    bodies: int = 0
    _none_left: asyncio.Event | None = None

    def enter(self) -> None:
        """A review has begun."""
        self.reviews += 1

    def leave(self) -> None:
        """Its answer is ready."""
        self.reviews -= 1
        if self._none_left is not None and not self.reviews:
            self._none_left.set()

    async def none_left(self) -> None:
        """Return once nothing is in flight; for the end of a server, when nothing new begins."""
        if self.reviews:
            # Only now: an event for each review to set would cost all of them.
            self._none_left = asyncio.Event()
            await self._none_left.wait()
