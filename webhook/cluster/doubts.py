"""Checks namespaces about which a call contradicts the watch.

API servers call only for pods of namespaces that have opted in. A call for a namespace that has not, as far as the watch
shows, means that its label is newer than the watch, or that the webhook configuration does not select by labels. Only the
API server can tell, and only after the call: the label may have been set in between.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from webhook.cluster.client.api import StatusError, UnreachableError
from webhook.cluster.namespaces import NamespaceView

APART: Final = 0.25
"""Seconds between two requests about one namespace; calls in between share the next one."""

MOST: Final = 20
"""Requests per second about all namespaces: about as many labels as a tool writes in a second."""


class DoubtsError(Exception):
    """Too many namespaces are doubted at once, or the API server does not answer."""


class Doubts:
    """Requests namespaces from the API server, few at a time.

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
        self._coming: dict[str, asyncio.Task[NamespaceView]] = {}
        self._asking: set[asyncio.Task[NamespaceView]] = set()
        self._asked: dict[str, float] = {}
        self._recent: deque[float] = deque(maxlen=MOST)

    def __len__(self) -> int:
        """How many namespaces are remembered."""
        return len(self._asked)

    async def ask(self, name: str, right: Callable[[NamespaceView], bool]) -> NamespaceView:
        """Request a namespace; the request is made after this call.

        Args:
            name: of the namespace.
            right: whether the answer agrees with the call.

        Raises:
            DoubtsError: there is no answer, or no request was made.
        """
        try:
            task = self._coming.get(name) or self._begin(name)
            # One waiter that is cancelled does not cancel the request for the others.
            found = await asyncio.shield(task)
        except (StatusError, UnreachableError) as error:
            self.unanswered += 1
            raise DoubtsError(str(error)) from error
        except DoubtsError:
            self.unanswered += 1
            raise
        if right(found):
            self.stale += 1
        else:
            self.confirmed += 1
        return found

    def _begin(self, name: str) -> asyncio.Task[NamespaceView]:
        now = self._clock()
        if len(self._recent) == MOST and now - self._recent[0] < 1:
            raise DoubtsError("too many calls are for namespaces that have not opted in, as far as is known")
        # In the order of insertion, so the first ones expire first.
        for old in tuple(itertools.takewhile(lambda old: self._asked[old] + APART <= now, self._asked)):
            del self._asked[old]
        rest = max(0.0, self._asked.pop(name, now - APART) + APART - now)
        self._asked[name] = now + rest
        self._recent.append(now)
        task = self._coming[name] = asyncio.create_task(self._answer(name, rest), name=f"doubted namespace {name}")
        # The loop itself holds only weak references to tasks.
        self._asking.add(task)
        task.add_done_callback(self._done)
        return task

    async def _answer(self, name: str, rest: float) -> NamespaceView:
        try:
            if rest:
                await asyncio.sleep(rest)
        finally:
            del self._coming[name]
        return await self._get(name)

    def _done(self, task: asyncio.Task[NamespaceView]) -> None:
        self._asking.discard(task)
        if not task.cancelled():
            # Waiters have it already; retrieved here in case there are none anymore.
            task.exception()
