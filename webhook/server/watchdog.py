"""Drops connections that hold a server up: half a handshake, half a header, half a body, an answer that nobody fetches.

aiohttp has a timeout for idle connections only, and no bound on how many there are. So each connection has a `Watch` with
one deadline, and a sweep once in a while drops those that have missed it. A timer for each request would cost more than all
the rest of this. At the maximum number of connections, a new one replaces the one that has been waited for the longest:
a client with a request sends it at once, and is never waited for that long.

A connection is in one of four states: in the TLS handshake, or waiting for a header (deadline `header_time` from its first
byte; a new connection has to send something, too), in the hands of a handler (`request_time`), or idle (none: `keepalive`
is aiohttp's). All but those in the hands of a handler are waited for, and those too while their body is on its way. Half a
header sent together with the request before it is taken for idle, and falls to `keepalive`.
"""

import asyncio
import math
from typing import Final

from webhook.server.limits import Limits

SWEEPS: Final = 10
"""Sweeps within a deadline: a connection is dropped at most a tenth too late."""


class Watch:
    """What a client must send on one connection, and until when."""

    __slots__ = ("_answered", "_busy", "_deadline", "_header", "_loop", "_transport", "_watchdog", "handshake")

    def __init__(self, watchdog: "Watchdog") -> None:
        self._watchdog = watchdog
        self._loop = asyncio.get_running_loop()
        # For TLS the time is up to the handshake until there is one.
        self._deadline = math.inf
        self._transport: asyncio.Transport | None = None
        self._answered = self._busy = False
        self._header = 0
        self.handshake: asyncio.Task[None] | None = None
        """What opens the connection, until it is open."""

    def opened(self, transport: asyncio.Transport) -> None:
        """The connection is open, a header is owed."""
        self._transport = transport
        self._deadline = self._loop.time() + self._watchdog.limits.header_time

    @property
    def is_open(self) -> bool:
        """Whether the handshake is over."""
        return self._transport is not None

    def received(self, size: int) -> None:
        """Something has arrived: if nothing was owed, a header begins."""
        if self._busy:
            return
        if self._answered or self._deadline is math.inf:
            self._answered = False
            self._deadline = self._loop.time() + self._watchdog.limits.header_time
        self._header += size
        self._watchdog.count_header(size)

    def handling(self) -> None:
        """A request's header is complete, its handler has it."""
        self._busy, self._answered = True, False
        self._deadline = self._loop.time() + self._watchdog.limits.request_time
        self._watchdog.heed(self, waited_for=False)
        self.drop_header()

    def reading(self, *, waits: bool) -> None:
        """Its handler waits for the rest of the body, or has it."""
        self._watchdog.heed(self, waited_for=waits)

    def answered(self) -> None:
        """Its handler has returned; the deadline holds until the answer has left."""
        self._busy, self._answered = False, True
        self._watchdog.heed(self, waited_for=True)

    def closed(self) -> None:
        """The connection has ended."""
        self._watchdog.forget(self)

    def drop_header(self) -> None:
        """What was held of a header is held no more."""
        self._watchdog.count_header(-self._header)
        self._header = 0

    def sweep(self, now: float) -> None:
        """Drop the connection if its time is over."""
        if self._transport is None:
            return
        if self._answered and self._transport.get_write_buffer_size() == 0:
            self._answered = False
            self._deadline = math.inf
        elif now > self._deadline:
            self._transport.abort()

    def abort(self) -> None:
        """Drop the connection."""
        if self._transport is not None:
            self._transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()


class Watchdog:
    """Watches the connections of a listener.

    Args:
        limits: how long they may take.
        most: how many there may be.

    Attributes:
        evicted: how many were closed to make room.
        refused: handshakes that came to nothing, by why.
    """

    def __init__(self, limits: Limits, most: int) -> None:
        self.limits = limits
        self.most = most
        self.evicted = 0
        self.refused: dict[str, int] = {}
        self._watches: set[Watch] = set()
        # Those that are waited for; the longest first.
        self._waiting: dict[Watch, None] = {}
        self._headers = 0

    def __len__(self) -> int:
        return len(self._watches)

    def watch(self) -> Watch | None:
        """The watch over a new connection; None if there is no room, and nobody who could make some."""
        if len(self._watches) >= self.most and not self.make_room():
            return None
        watch = Watch(self)
        self._watches.add(watch)
        self._waiting[watch] = None
        return watch

    def make_room(self) -> bool:
        """Close the connection that has been waited for the longest; whether there is one."""
        longest = next(iter(self._waiting), None)
        if longest is None:
            return False
        self.evicted += 1
        self.forget(longest)
        longest.abort()
        return True

    def heed(self, watch: Watch, *, waited_for: bool) -> None:
        """A connection is waited for from now on, or has come to a handler."""
        self._waiting.pop(watch, None)
        if waited_for and watch in self._watches:
            self._waiting[watch] = None

    def count_header(self, size: int) -> None:
        """So many bytes more are held in headers that are not complete."""
        self._headers += size
        while self._headers > self.limits.headers and self.make_room():
            pass

    def forget(self, watch: Watch) -> None:
        """The connection has ended, or is about to."""
        self._watches.discard(watch)
        self._waiting.pop(watch, None)
        watch.drop_header()

    def refuse(self, why: str) -> None:
        """Count a handshake that came to nothing."""
        self.refused[why] = self.refused.get(why, 0) + 1

    async def run(self) -> None:
        """Sweep forever."""
        loop = asyncio.get_running_loop()
        pause = min(self.limits.header_time, self.limits.request_time) / SWEEPS
        while True:
            await asyncio.sleep(pause)
            now = loop.time()
            for watch in tuple(self._watches):
                watch.sweep(now)

    def abort(self) -> None:
        """Drop every connection."""
        for watch in tuple(self._watches):
            watch.abort()
