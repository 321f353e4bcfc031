"""What a crowd of callers costs: ``python -m benchmarks.crowd [COUNT]``, about two minutes.

Five thousand connections of each kind knock at one server, and none is closed by its client. Meanwhile an honest client sends
a review ten times a second, each on a connection of its own, and another one on a connection that it keeps.
"""

import asyncio
import contextlib
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.processes import Server, webhook
from tests.server.harness import Connection, request, review
from webhook.server.limits import raise_descriptors

COUNT: Final = 5000
AT_ONCE: Final = 64
PAUSE: Final = 0.1
PATIENCE: Final = 10.0

Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class Honest:
    """What an honest client saw: seconds until each answer, and how often there was none."""

    times: list[float] = field(default_factory=list)
    lost: int = 0

    async def call(self, connection: Callable[[], Awaitable[Opened]]) -> None:
        """Send reviews until cancelled, each on what `connection` gives."""
        body = request(review())
        while True:
            started = time.monotonic()
            try:
                async with asyncio.timeout(PATIENCE):
                    reader, writer = await connection()
                    assert (await Connection(reader, writer).call(body)).status == 200
                self.times.append(time.monotonic() - started)
            except (OSError, EOFError, AssertionError):
                self.lost += 1
            await asyncio.sleep(PAUSE)

    def __str__(self) -> str:
        slowest = max(self.times, default=float("nan"))
        median = statistics.median(self.times or [slowest])
        return f"{len(self.times):4} answered, {self.lost} lost, median {median:.3f} s, slowest {slowest:.3f} s"


async def crowd(kind: str, count: int, server: Server, tls: ssl.SSLContext) -> None:
    """One kind of knocking, and what became of the honest."""
    begun = {
        "silent": b"",
        "half a handshake": b"\x16\x03\x01\x02\x00\x01",
        "idle in TLS": b"",
        "half a header": b"POST /mutate HTTP/1.1\r\nX: ",
        "half a body": request(b"{" * 1000, length=100_000),
    }[kind]
    context = None if kind in {"silent", "half a handshake"} else tls
    connections: list[Opened] = []
    room = asyncio.Semaphore(AT_ONCE)
    failed = 0

    async def connect(context: ssl.SSLContext | None = tls) -> Opened:
        name = None if context is None else "localhost"
        return await asyncio.open_connection("127.0.0.1", server.port, ssl=context, server_hostname=name)

    async def knock() -> None:
        nonlocal failed
        async with room:
            try:
                opened = await connect(context)
                opened[1].write(begun)
                connections.append(opened)
            except OSError:
                failed += 1

    async def fresh() -> Opened:
        opened = await connect()
        connections.append(opened)
        return opened

    reused: list[Opened] = []

    async def same() -> Opened:
        if not reused or reused[0][0].at_eof() or reused[0][1].is_closing():
            reused[:] = [await connect()]
        return reused[0]

    clients = [Honest(), Honest()]
    calls = [asyncio.create_task(client.call(how)) for client, how in zip(clients, (fresh, same), strict=True)]
    started, cpu = time.monotonic(), server.cpu
    await asyncio.gather(*(knock() for _ in range(count)))
    knocked = time.monotonic() - started
    most = server.memory
    await asyncio.sleep(3)
    most = max(most, server.memory)
    for task in calls:
        task.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    print(f"{kind}: {count} in {knocked:.1f} s ({server.cpu - cpu:.1f} s of the server's CPU), {failed} turned away")
    print(f"  resident {most:.0f} MiB; new connections: {clients[0]}; a kept one: {clients[1]}", flush=True)
    for _, writer in [*connections, *reused]:
        writer.transport.abort()
    await asyncio.sleep(1)


async def measure(count: int) -> None:
    """Every kind at one server, one after the other."""
    raise_descriptors()
    with tempfile.TemporaryDirectory() as folder, webhook("crowd", Path(folder)) as server:
        tls = ssl.create_default_context(cafile=f"{folder}/ca.crt")
        print(f"resident {server.memory:.0f} MiB at the start")
        for kind in ("silent", "half a handshake", "idle in TLS", "half a header", "half a body"):
            await crowd(kind, count, server, tls)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(measure(int(sys.argv[1]) if sys.argv[1:] else COUNT))
