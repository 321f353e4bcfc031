"""Reads namespaces again for which a call contradicts the watch.

API servers call only for pods of namespaces that have opted in. A call for a namespace that has not, as far as the watch
shows, means that its label is newer than the watch, or that the webhook configuration does not select by labels. Only the
API server knows, and only a request made after the call counts: the label may have been set just before the call.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from webhook.cluster.client.api import StatusError, UnreachableError
from webhook.cluster.namespaces import NamespaceView

INTERVAL: Final = 0.25
"""Seconds between two requests for one namespace; calls in between share the next one."""

MAX_PER_SECOND: Final = 20
"""The most requests per second for all namespaces: about as many labels as a tool writes in a second."""


class RecheckError(Exception):
    """Too many namespaces have to be read again at once, or the API server does not answer."""


class NamespaceRechecks:
    """Reads namespaces from the API server again, a few per second.

    Args:
        get: requests a namespace.
        clock: monotonic seconds.

    Attributes:
        stale: how often the call was right, and the watch behind.
        confirmed: how often the watch was right.
        unanswered: how often there was no answer, or no request was made.
    """

    def __init__(
        self, get: Callable[[str], Awaitable[NamespaceView]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.stale = self.confirmed = self.unanswered = 0
        self._get = get
        self._clock = clock
        self._pending: dict[str, asyncio.Task[NamespaceView]] = {}
        self._tasks: set[asyncio.Task[NamespaceView]] = set()
        self._requested_at: dict[str, float] = {}
        self._recent: deque[float] = deque(maxlen=MAX_PER_SECOND)

    def __len__(self) -> int:
        """The number of namespaces whose last request is remembered."""
        return len(self._requested_at)

    async def recheck(self, name: str, agrees: Callable[[NamespaceView], bool]) -> NamespaceView:
        """Read a namespace again, by a request that is made after this call.

        Args:
            name: the namespace's name.
            agrees: returns whether a namespace agrees with the call.

        Raises:
            RecheckError: there is no answer, or no request was made.
        """
        try:
            task = self._pending.get(name) or self._start(name)
            # One waiter that is cancelled does not cancel the request for the others.
            found = await asyncio.shield(task)
        except (StatusError, UnreachableError) as error:
            self.unanswered += 1
            raise RecheckError(str(error)) from error
        except RecheckError:
            self.unanswered += 1
            raise
        if agrees(found):
            self.stale += 1
        else:
            self.confirmed += 1
        return found

    def _start(self, name: str) -> asyncio.Task[NamespaceView]:
        now = self._clock()
        if len(self._recent) == MAX_PER_SECOND and now - self._recent[0] < 1:
            raise RecheckError("too many calls are for namespaces that have not opted in, as far as is known")
        # In the order of insertion, so the first ones expire first.
        for old in tuple(
            itertools.takewhile(lambda old: self._requested_at[old] + INTERVAL <= now, self._requested_at)
        ):
            del self._requested_at[old]
        wait = max(0.0, self._requested_at.pop(name, now - INTERVAL) + INTERVAL - now)
        self._requested_at[name] = now + wait
        self._recent.append(now)
        task = self._pending[name] = asyncio.create_task(self._request(name, wait), name=f"recheck of namespace {name}")
        # The loop itself holds only weak references to tasks.
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def _request(self, name: str, wait: float) -> NamespaceView:
        try:
            if wait:
                await asyncio.sleep(wait)
        finally:
            del self._pending[name]
        return await self._get(name)

    def _done(self, task: asyncio.Task[NamespaceView]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Retrieved in case nobody waits for it anymore; asyncio reports an error that nobody retrieves.
            task.exception()
