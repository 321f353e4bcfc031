"""The ways between an API server and the webhook: a Service in front of the replicas, and a way back that can be held up."""

import asyncio
import contextlib
import http.client
import random
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.controlplane.carry import Streams, carry
from tests.controlplane.own_plane import OwnPlane, Relay, relayed


@dataclass(frozen=True, slots=True)
class Probe:
    """How a kubelet looks at a replica.

    Attributes:
        period: seconds between looks.
        timeout: seconds after which a look has failed.
        failures: in a row, until the Service excludes the replica; one look that succeeds includes it.
    """

    period: float
    timeout: float
    failures: int


@dataclass(slots=True)
class Ways:
    """A Service's port, and the replicas behind it.

    Attributes:
        probe: of their readiness.
        port: where the API server calls.
        backs: ports of the replicas: of reviews, and the plain one.
        refused: connections for which it had no replica.
    """

    probe: Probe
    port: int = 0
    backs: list[tuple[int, int]] = field(default_factory=list)
    refused: int = 0
    _ready: list[int] = field(default_factory=list)
    _failures: dict[int, int] = field(default_factory=dict)
    _relay: Relay | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    @property
    def relay_port(self) -> int:
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
                self.refused += 1
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
                await asyncio.gather(
                    *(self._look(port, plain) for port, plain in self.backs), _at_most(self.probe.period, over.wait())
                )
            server.close()

    async def _look(self, port: int, plain: int) -> None:
        most = self.probe.failures
        ready = await asyncio.to_thread(_is_ready, plain, self.probe.timeout)
        self._failures[port] = 0 if ready else self._failures.get(port, most) + 1
        self._ready = [port for port, _ in self.backs if self._failures.get(port, most) < most]


@contextmanager
def ways(plane: OwnPlane, probe: Probe) -> Iterator[Ways]:
    """Both ways, open until the end of the block."""
    opened, over = threading.Event(), asyncio.Event()
    both = Ways(probe)

    thread = threading.Thread(target=asyncio.run, args=(both.run(plane, opened, over),), daemon=True)
    thread.start()
    assert opened.wait(10)
    try:
        yield both
    finally:
        both.call(over.set)
        thread.join(10)


async def _at_most(seconds: float, what: Awaitable[object]) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(what, seconds)


def _is_ready(plain: int, seconds: float) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", plain, timeout=seconds)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
