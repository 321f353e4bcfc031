"""A control plane that a test may mistreat: its API server restarted, its history forgotten, the way to it cut."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.waiting import turns

from .build import Binaries
from .plane import ControlPlane


class OwnPlane(ControlPlane):
    """A control plane whose components can be restarted under those who use it."""

    def __init__(self, binaries: Binaries, folder: Path) -> None:
        self._commands: dict[str, list[str]] = {}
        super().__init__(binaries, folder)

    def stop_component(self, name: str) -> None:
        """Stop `etcd` or `kube-apiserver`, which waits for the end of the last watch: it is killed after a second."""
        (running,) = (process for process in self._processes if process.name == name)
        self._processes.remove(running)
        running.stop(grace=1)

    def start_component(self, name: str) -> None:
        """Start it again where it was; from the main thread, for it ends with the thread that started it."""
        super()._run(name, *self._commands[name])

    def wait_ready(self) -> None:
        """Return when the API server is ready; after a time without its store it looks for it less and less often."""
        self.wait_until(self._answers, "API server ready again", 300)

    def _run(self, component: str, *arguments: str) -> None:
        self._commands[component] = list(arguments)
        super()._run(component, *arguments)

    def _answers(self) -> bool:
        try:
            return self.client.call("GET", "/readyz").status == 200
        except OSError:
            return False


class Relay:
    """A way to an API server that can be cut (connections are reset) or hushed (nothing comes through any more)."""

    def __init__(self, address: tuple[str, int]) -> None:
        """Prepare the way; `relayed` opens it."""
        self.port = 0
        self._address = address
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._open = True
        self._delivered = asyncio.Event()
        self._delivered.set()

    def cut(self) -> None:
        self._open = False
        for writer in tuple(self._writers):
            writer.transport.abort()

    def mend(self) -> None:
        self._open = True
        self._delivered.set()

    def hush(self) -> None:
        """Swallow everything from now on, without telling either side."""
        self._delivered.clear()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open:
            writer.transport.abort()
            return
        ours, theirs = await asyncio.open_connection(*self._address)
        self._writers |= {writer, theirs}
        both = [asyncio.create_task(self._carry(reader, theirs)), asyncio.create_task(self._carry(ours, writer))]
        self._tasks.update(both)
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            for each in (writer, theirs):
                each.transport.abort()
            self._writers -= {writer, theirs}
            self._tasks.difference_update(both)

    async def end(self) -> None:
        self.cut()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(65536):
                await self._delivered.wait()
                writer.write(chunk)
                await writer.drain()


@asynccontextmanager
async def relayed(plane: ControlPlane) -> AsyncIterator[Relay]:
    """Open another way to the API server on a port of its own."""
    relay = Relay(plane.address)
    server = await asyncio.start_server(relay.connected, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        await relay.end()
        await turns()
