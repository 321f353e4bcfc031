"""Requests that several reviews wait for, each made once."""

import asyncio
import itertools
import math
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from webhook.cluster.bounded import Bounded, deep_size
from webhook.request import MIB

T = TypeVar("T")

MAX_ANSWERED: Final = MIB
"""Bytes of the answers that hold at a time."""

TASK: Final = 2048
"""Bytes of a request that is over, with its error and the traceback of that."""


def _size_of_answer(answered: "tuple[float, asyncio.Task[Any]]") -> int:
    task = answered[1]
    return TASK + (deep_size(task.result()) if task.exception() is None else deep_size(str(task.exception())))


class SharedRequests(Generic[T]):
    """Requests, each made once for all that wait for it; an answer, also an error that is one, holds for a while."""

    def __init__(self, seconds: float, is_answer: Callable[[BaseException], bool], clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._is_answer = is_answer
        self._clock = clock
        self._running: dict[str, asyncio.Task[T]] = {}
        self._answered: Bounded[str, tuple[float, asyncio.Task[T]]] = Bounded(MAX_ANSWERED, size=_size_of_answer)

    def answered(self, key: str) -> asyncio.Task[T] | None:
        """The request whose answer holds; None if there is none."""
        until, task = self._answered.values.get(key, (-math.inf, None))
        return task if self._clock() < until else None

    def get(self, key: str) -> asyncio.Task[T] | None:
        """The request without an answer yet, or else the one whose answer holds."""
        return self._running.get(key) or self.answered(key)

    def forget(self, key: str) -> None:
        """What was answered no longer holds."""
        self._answered.drop(key)

    def start(self, key: str, request: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Make a request. One waiter that is cancelled must not cancel it for the others."""
        task = self._running[key] = asyncio.create_task(request, name=f"request for {key}")
        task.add_done_callback(lambda done: self._done(key, done))
        return task

    def _done(self, key: str, task: asyncio.Task[T]) -> None:
        del self._running[key]
        now = self._clock()
        # In the order of insertion, so the first ones expire first.
        answered = self._answered.values
        for old in tuple(itertools.takewhile(lambda old: answered[old][0] <= now, answered)):
            self._answered.drop(old)
        if not task.cancelled() and ((error := task.exception()) is None or self._is_answer(error)):
            self._answered.put(key, (now + self._seconds, task))
