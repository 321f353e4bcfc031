"""What connections cost while nothing happens on them."""

import tracemalloc
from contextlib import AsyncExitStack

from tests.server.harness import CLIENT, call, connected, request, review, serving

MANY = 20


async def test_idle_connections_take_little_memory() -> None:
    """An API server opens one for each review in flight; with asyncio's own buffers both ends of one take half a MiB."""
    async with serving() as server, AsyncExitStack() as connections:
        assert (await call(server, request(review()))).status == 200
        tracemalloc.start(1)
        try:
            for _ in range(MANY):
                await connections.enter_async_context(connected(server.addresses.mutate, CLIENT))
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held / MANY < 300 * 1024
