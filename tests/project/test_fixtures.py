"""A watchdog of conftest.py bites."""

import asyncio
import time

import pytest
from blockbuster import BlockingError

import webhook


async def test_a_blocking_call_on_the_loop_fails() -> None:
    """Our code may block in a thread or without a loop, never on the loop; a test's own code may."""
    ours = {"time": time}
    exec(compile("def nap(): time.sleep(0)", webhook.__path__[0] + "/nap.py", "exec"), ours)
    nap = ours["nap"]
    assert callable(nap)
    with pytest.raises(BlockingError, match=r"time\.sleep"):
        nap()
    await asyncio.to_thread(nap)
    time.sleep(0)  # noqa: ASYNC251
