"""Drops connections that keep a server waiting: for the handshake, a header or a body, or until its answer is read.

aiohttp has a timeout for idle connections only, and no bound on their number. So each connection has a `Watch` with one
deadline, and periodic sweeps drop those that have missed it; a timer for each request would cost more than all of this.
At the maximum number of connections, a new one replaces the one that has kept the server waiting for the longest: a
client with a request sends it at once.

A connection is in one of four states: in the TLS handshake; waiting for a header (deadline `header_time` from its first
byte, or from the start of the connection); handled (`request_time`); or idle (none: `keepalive` is aiohttp's). The server
waits for all but those being handled, and for these while their body is incomplete. An incomplete header that arrives
together with the previous request counts as idle, so `keepalive` applies.
"""

import asyncio
import math
from typing import Final

from webhook.server.limits import Limits

SWEEPS: Final = 10
"""Sweeps within a deadline: a connection is dropped at most a tenth too late."""


class Watch:
    """The deadline of one connection, and its state."""

    __slots__ = ("_answered", "_busy", "_deadline", "_header", "_loop", "_transport", "_watchdog", "handshake")

    def __init__(self, watchdog: "Watchdog") -> None:
        self._watchdog = watchdog
        self._loop = asyncio.get_running_loop()
        # With TLS, the handshake has its own time limit.
        self._deadline = math.inf
        self._transport: asyncio.Transport | None = None
        self._answered = self._busy = False
        self._header = 0
        self.handshake: asyncio.Task[None] | None = None
        """The task that opens the connection; None once it is open."""

    def opened(self, transport: asyncio.Transport) -> None:
        """Note that the connection is open, and wait for a header."""
        self._transport = transport
        self._deadline = self._loop.time() + self._watchdog.limits.header_time

    @property
    def is_open(self) -> bool:
        """Whether the handshake is over."""
        return self._transport is not None

    def received(self, size: int) -> None:
        """Note received bytes; on an idle connection, they begin a header."""
        if self._busy:
            return
        if self._answered or self._deadline is math.inf:
            self._answered = False
            self._deadline = self._loop.time() + self._watchdog.limits.header_time
        self._header += size
        self._watchdog.count_header(size)

    def handling(self) -> None:
        """Note that a request's header is complete, and its handler runs."""
        self._busy, self._answered = True, False
        self._deadline = self._loop.time() + self._watchdog.limits.request_time
        self._watchdog.heed(self, waited_for=False)
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
        self._watchdog.count_header(-self._header)
        self._header = 0

    def sweep(self, now: float) -> None:
        """Drop the connection if its deadline has passed."""
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
        limits: the time limits.
        most: the maximum number of connections.

    Attributes:
        evicted: the number of connections closed in favor of new ones.
        failures: failed handshakes by reason.
    """

    def __init__(self, limits: Limits, most: int) -> None:
        self.limits = limits
        self.most = most
        self.evicted = 0
        self.failures: dict[str, int] = {}
        self._watches: set[Watch] = set()
        # Those that the server waits for; the longest first.
        self._waiting: dict[Watch, None] = {}
        self._headers = 0

    def __len__(self) -> int:
        return len(self._watches)

    def watch(self) -> Watch | None:
        """Watch a new connection; None if there are too many, and none can be closed."""
        if len(self._watches) >= self.most and not self.evict_idle():
            return None
        watch = Watch(self)
        self._watches.add(watch)
        self._waiting[watch] = None
        return watch

    def evict_idle(self) -> bool:
        """Close the connection that has kept the server waiting for the longest; return whether there is one."""
        longest = next(iter(self._waiting), None)
        if longest is None:
            return False
        self.evicted += 1
        self.forget(longest)
        longest.abort()
        return True

    def heed(self, watch: Watch, *, waited_for: bool) -> None:
        """Note whether the server waits for a connection from now on."""
        self._waiting.pop(watch, None)
        if waited_for and watch in self._watches:
            self._waiting[watch] = None

    def count_header(self, size: int) -> None:
        """Count more bytes (or fewer, if negative) in incomplete headers."""
        self._headers += size
        while self._headers > self.limits.headers and self.evict_idle():
            pass

    def forget(self, watch: Watch) -> None:
        """Stop watching a connection that has ended, or is about to."""
        self._watches.discard(watch)
        self._waiting.pop(watch, None)
        watch.drop_header()

    def count_failure(self, why: str) -> None:
        """Count a failed handshake."""
        self.failures[why] = self.failures.get(why, 0) + 1

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
