"""The ways between an API server and the webhook: a Service in front of the replicas, and a way back that can be held up."""

import asyncio
import contextlib
import http.client
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.controlplane.carry import Streams, carry
from tests.controlplane.own_plane import OwnPlane, Relay, relayed

INTERVAL = 1.0
"""Seconds between the kubelet's looks at a replica; it is one of the Service's as soon as it is ready, until it isn't."""


@dataclass(slots=True)
class Ways:
    """A Service's port, and the replicas behind it.

    Attributes:
        port: where the API server calls.
        backs: ports of the replicas: of reviews, and the plain one.
    """

    port: int = 0
    backs: list[tuple[int, int]] = field(default_factory=list)
    _ready: list[int] = field(default_factory=list)
    _relay: Relay | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    @property
    def relay_port(self) -> int:
        """Where replicas reach the API server."""
        assert self._relay is not None
        return self._relay.port

    def relay(self, do: Callable[[Relay], None]) -> None:
        """Do something to the way of the replicas to the API server."""
        relay = self._relay
        assert relay is not None
        self.call(lambda: do(relay))

    def call(self, do: Callable[[], object]) -> None:
        """Do something on the loop that carries the connections."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(do)

    async def run(self, plane: OwnPlane, opened: threading.Event, over: asyncio.Event) -> None:
        """Carry connections until it is over; `asyncio.run` ends whatever is still open then."""
        self._loop = asyncio.get_running_loop()

        async def connect() -> Streams:
            if not self._ready:
                raise ConnectionRefusedError
            return await asyncio.open_connection("127.0.0.1", random.choice(self._ready))

        # The loop holds its tasks weakly, and a connection on which nothing happens is held by nobody else.
        held: set[asyncio.Task[None] | None] = set()

        async def near(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            held.add(task)
            try:
                with contextlib.suppress(OSError):
                    await carry((reader, writer), connect)
            finally:
                held.discard(task)

        async with relayed(plane) as relay:
            self._relay = relay
            server = await asyncio.start_server(near, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            opened.set()
            while not over.is_set():
                answers = await asyncio.gather(*(asyncio.to_thread(_is_ready, plain) for _, plain in self.backs))
                self._ready = [port for (port, _), ready in zip(self.backs, answers, strict=True) if ready]
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), INTERVAL)
            server.close()


@contextmanager
def ways(plane: OwnPlane) -> Iterator[Ways]:
    """Both ways, open until the end of the block."""
    opened, over = threading.Event(), asyncio.Event()
    both = Ways()

    thread = threading.Thread(target=asyncio.run, args=(both.run(plane, opened, over),), daemon=True)
    thread.start()
    assert opened.wait(10)
    try:
        yield both
    finally:
        both.call(over.set)
        thread.join(10)


def _is_ready(plain: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", plain, timeout=INTERVAL)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
