"""Drops connections that keep a server waiting: for the handshake, a header or a body, or until its answer is read.

aiohttp has a timeout for idle connections only, and no bound on their number. So each connection has a `Watch` with one
deadline, and periodic sweeps drop those that have missed it; a timer for each request would cost more than all of this.
Time is counted in sweeps: no clock is read for a request, and while the process stands still nobody misses a deadline.
At the maximum number of connections, a new one replaces the one that has kept the server waiting for the longest: a
client with a request sends it at once.

A connection is in one of four states: in the TLS handshake; waiting for a header (deadline `header_time` from its first
byte, or from the start of the connection); handled (`request_time`); or idle (none: `keepalive` is aiohttp's). The server
waits for all but those being handled, and for these while their body is incomplete. An incomplete header that arrives
together with the previous request counts as idle, so `keepalive` applies.
"""

import asyncio
import contextlib
import math
import sys
from typing import Final

from webhook.server.limits import Limits

SWEEPS: Final = 10
"""Sweeps within the shortest time limit: a connection is dropped about a tenth of it too late, and never too early."""

NEVER: Final = sys.maxsize
"""The deadline of a connection that the server does not wait for."""


class Watch:
    """The deadline of one connection, and its state."""

    __slots__ = ("_answered", "_busy", "_deadline", "_header", "_transport", "_watchdog", "handshake")

    def __init__(self, watchdog: "Watchdog") -> None:
        self._watchdog = watchdog
        # With TLS, the handshake has its own time limit.
        self._deadline = NEVER
        self._transport: asyncio.Transport | None = None
        self._answered = self._busy = False
        self._header = 0
        self.handshake: asyncio.Task[None] | None = None
        """The task that opens the connection; None once it is open."""

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
        self._busy, self._answered = True, False
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

        A socket closed before that would reset the connection under a request that is on its way, and lose the answer.
        """
        self._dismissed = {watch for watch in tuple(self._watches) if watch.dismiss(farewell)}
        if self._dismissed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.limits.linger):
                    await self._dismissed_closed.wait()

    def abort(self) -> None:
        """Drop every connection."""
        for watch in tuple(self._watches):
            watch.abort()
