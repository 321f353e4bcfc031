"""``vgpu-webhook serve --standalone`` as a process, as a user starts it."""

import asyncio
import json
import re
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.server.harness import Answer, connected, request, review
from tests.waiting import PATIENCE
from webhook.server.http import Endpoint

READY = re.compile(r"ready: https://(?P<host>\S+):(?P<port>\d+)/mutate, http://\S+:(?P<plain>\d+) \(.* (?P<ca>\S+)\)")


@dataclass(slots=True)
class Process:
    """A started server."""

    process: asyncio.subprocess.Process
    ready: str
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def _match(self) -> re.Match[str]:
        match = READY.match(self.ready)
        assert match is not None, self.ready
        return match

    @property
    def mutate(self) -> Endpoint:
        """Where reviews are answered."""
        return Endpoint("127.0.0.1", int(self._match["port"]))

    @property
    def plain(self) -> Endpoint:
        """Where probes are answered."""
        return Endpoint("127.0.0.1", int(self._match["plain"]))

    @property
    def client(self) -> ssl.SSLContext:
        """A client that trusts what the ready line says."""
        return ssl.create_default_context(cafile=self._match["ca"])

    async def call(self, data: bytes | None = None) -> Answer:
        """Send one review over a connection of its own."""
        async with connected(self.mutate, self.client) as connection:
            return await connection.call(request(review()) if data is None else data)

    async def get(self, path: str) -> Answer:
        """Call the plain endpoint."""
        async with connected(self.plain) as connection:
            return await connection.call(request(method="GET", path=path, content_type=None))

    async def logged(self, event: str) -> dict[str, Any]:
        """Wait for a line in the log."""
        assert self.process.stderr is not None
        while True:
            raw = await self.process.stderr.readline()
            assert raw, f"{event} was never logged"
            line: dict[str, Any] = json.loads(raw)
            self.log.append(line)
            if line["event"] == event:
                return line

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    async def ended(self) -> int:
        """Wait for the exit code."""
        return await asyncio.wait_for(self.process.wait(), PATIENCE)


@asynccontextmanager
async def started(state: Path | None, *arguments: str, **environment: str) -> AsyncIterator[Process]:
    """Give a server that is ready."""
    command = [sys.executable, "-m", "webhook", "serve", "--standalone"]
    if state is not None:
        command += ["--state-dir", str(state)]
    listen = ["--listen", "127.0.0.1:0", "--plain-listen", "127.0.0.1:0"]
    process = await asyncio.create_subprocess_exec(
        *command,
        *listen,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment or None,
    )
    assert process.stdout is not None
    try:
        ready = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode()
        assert ready, await process.communicate()
        yield Process(process, ready)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
