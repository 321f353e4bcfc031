"""Namespaces of which a call says something else than is known here.

API servers call for pods of namespaces that have opted in, and for no others. A call for a namespace that is known as one
that has not is called for by a label that the watch has yet to bring, or by somebody who does not choose by labels. The API
server is asked which; what it said before the call says nothing, for the label may have come in between.
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
"""Seconds between two questions about one namespace; calls that come meanwhile share the next one."""

MOST: Final = 20
"""Questions in a second about all namespaces: as many as labels may be written in one by hand or by a tool."""


class DoubtsError(Exception):
    """Too many namespaces are doubted at once, or the API server does not say."""


class Doubts:
    """Questions about namespaces, few at a time.

    Args:
        get: asks the API server about a namespace.
        clock: monotonic seconds.

    Attributes:
        stale: how often the call was right: what was known was out of date.
        confirmed: how often what was known was right.
        unanswered: how often there was no answer, or nobody was asked.
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
        """What the API server says of a namespace, asked after this was called.

        Args:
            name: of the namespace.
            right: whether what it says agrees with the call.

        Raises:
            DoubtsError: it says nothing, or was not asked.
        """
        try:
            task = self._coming.get(name) or self._begin(name)
            # The others still wait when one who waits goes away.
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
            raise DoubtsError("too many namespaces are known otherwise than called for")
        # In the order in which they came, so the first ones are over first.
        for old in tuple(itertools.takewhile(lambda old: self._asked[old] + APART <= now, self._asked)):
            del self._asked[old]
        rest = max(0.0, self._asked.pop(name, now - APART) + APART - now)
        self._asked[name] = now + rest
        self._recent.append(now)
        task = self._coming[name] = asyncio.create_task(self._answer(name, rest), name=f"doubted namespace {name}")
        # The loop itself holds no task that nobody waits for.
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
            # Whoever waited has it already, and perhaps nobody waits any more.
            task.exception()
