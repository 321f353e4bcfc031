"""Drops connections that hold a server up: half a header, half a body, an answer that nobody fetches.

aiohttp has a timeout for idle connections only. So each connection has a `Watch` with one deadline, and a sweep once in
a while drops those that have missed it. A timer for each request would cost more than all the rest of this.

A connection is in one of three states: waiting for a header (deadline `header_time` from its first byte; a new
connection has to send something, too), in the hands of a handler (`request_time`), or idle (none: `keepalive` is
aiohttp's). Half a header sent together with the request before it is taken for idle, and falls to `keepalive`.
"""

import asyncio
import math
from typing import Final

from webhook.server.limits import Limits

SWEEPS: Final = 10
"""Sweeps within a deadline: a connection is dropped at most a tenth too late."""


class Watch:
    """What one connection owes, and until when."""

    __slots__ = ("_answered", "_deadline", "_limits", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, limits: Limits) -> None:
        self._transport = transport
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + limits.header_time
        self._answered = False

    def received(self) -> None:
        """Something has arrived: if nothing was owed, a header begins."""
        if self._answered or self._deadline is math.inf:
            self._answered = False
            self._deadline = self._loop.time() + self._limits.header_time

    def handling(self) -> None:
        """A request's header is complete, its handler has it."""
        self._answered = False
        self._deadline = self._loop.time() + self._limits.request_time

    def answered(self) -> None:
        """Its handler has returned; the deadline holds until the answer has left."""
        self._answered = True

    def sweep(self, now: float) -> None:
        """Drop the connection if its time is over."""
        if self._answered and self._transport.get_write_buffer_size() == 0:
            self._answered = False
            self._deadline = math.inf
        elif now > self._deadline:
            self._transport.abort()

    def abort(self) -> None:
        """Drop the connection."""
        self._transport.abort()


class Watchdog:
    """Watches the connections of a listener."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._watches: set[Watch] = set()

    def watch(self, transport: asyncio.Transport) -> Watch:
        """The watch over a new connection."""
        watch = Watch(transport, self.limits)
        self._watches.add(watch)
        return watch

    def forget(self, watch: Watch) -> None:
        """The connection has ended."""
        self._watches.discard(watch)

    async def run(self) -> None:
        """Sweep for ever."""
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
