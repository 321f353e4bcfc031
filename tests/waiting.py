"""Coroutines alongside a test, and waiting for what has no event."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


async def until(probe: Callable[[], T | None], what: str = "what the test waits for", seconds: float = 60.0) -> T:
    """Call the probe until it returns something true, and return that; fail by saying what did not come."""
    try:
        async with asyncio.timeout(seconds):
            while not (found := probe()):  # noqa: ASYNC110  (a probe is anything, also what tells nobody)
                await asyncio.sleep(0.005)
    except TimeoutError:
        pytest.fail(f"not within {seconds:g} s: {what}")
    return found


async def until_there(probe: Callable[[], T | None], what: str, seconds: float = 60.0) -> T:
    """Likewise, of a probe that asks a server: in a thread, so that it does not hold up the loop."""
    try:
        async with asyncio.timeout(seconds):
            while not (found := await asyncio.to_thread(probe)):  # noqa: ASYNC110  (as above)
                await asyncio.sleep(0.01)
    except TimeoutError:
        pytest.fail(f"not within {seconds:g} s: {what}")
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
