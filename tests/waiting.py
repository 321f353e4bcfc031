"""Coroutines alongside a test, and waiting for what has no event."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import pytest

T = TypeVar("T")

Later = Callable[[float], Awaitable[None]]

PATIENCE: Final = 60.0
"""Seconds that whatever a test waits for may take: a limit is there to fail by, and machines are slow at times."""


async def turns(number: int = 100) -> None:
    """Let what is ready to run do so: for what must not happen, and for what is awaited by nobody."""
    for _ in range(number):
        await asyncio.sleep(0)


def running_ahead() -> Later:
    """Return what lets the clock of the running loop run ahead, second by second, so that what is due then happens."""
    loop = asyncio.get_running_loop()
    now, ahead = loop.time, 0
    loop.time = lambda: now() + ahead  # type: ignore[method-assign]

    async def later(seconds: float) -> None:
        nonlocal ahead
        for _ in range(math.ceil(seconds)):
            ahead += 1
            await turns()

    return later


async def until(probe: Callable[[], T | None], what: str = "what the test waits for") -> T:
    """Call the probe until it returns something true, and return that; fail by saying what did not come."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not (found := probe()):  # noqa: ASYNC110  (a probe is anything, also what tells nobody)
                await asyncio.sleep(0.005)
    except TimeoutError:
        pytest.fail(f"not within {PATIENCE:g} s: {what}")
    return found


async def until_there(probe: Callable[[], T | None], what: str) -> T:
    """Likewise, of a probe that asks a server: in a thread, so that it does not hold up the loop."""
    return await until_told(lambda: asyncio.to_thread(probe), what)


async def until_told(probe: Callable[[], Awaitable[T | None]], what: str) -> T:
    """Likewise, of a probe that is awaited."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not (found := await probe()):  # noqa: ASYNC110  (as above)
                await asyncio.sleep(0.01)
    except TimeoutError:
        pytest.fail(f"not within {PATIENCE:g} s: {what}")
    return found


@asynccontextmanager
async def alongside(*work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run coroutines until the end of the block; none of them may end before."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
        assert not any(task.done() for task in tasks), "it ended by itself"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
