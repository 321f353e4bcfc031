"""A listening socket with aiohttp behind it, and everything aiohttp's own sites have no setting for."""

import asyncio
import contextlib
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from aiohttp import web
from structlog.typing import FilteringBoundLogger

from webhook.server.limits import Limits
from webhook.server.protocol import Protocol
from webhook.server.watchdog import Watchdog

TLS_BUFFER: Final = 64 * 1024
"""Bytes that a connection keeps to decrypt into. asyncio takes 256 KiB and has no setting; an API server opens a connection
for each review in flight, and hundreds of them would fill a replica's memory with buffers."""

Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to listen: an address, or None for all of them, and a port, or 0 for one that is free."""

    host: str | None
    port: int

    def __str__(self) -> str:
        host = self.host or "0.0.0.0"  # noqa: S104  (it is only shown)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@contextlib.asynccontextmanager
async def listening(
    handler: Handler,
    endpoint: Endpoint,
    limits: Limits,
    log: FilteringBoundLogger,
    context: ssl.SSLContext | None = None,
    *,
    reuse_port: bool = False,
) -> AsyncIterator[Endpoint]:
    """Serve a handler, over TLS if there is a context; gives the endpoint with the port that was really taken.

    With `reuse_port` several processes may listen on one port; the kernel gives each connection to one of them.

    On the way out the requests in flight get their time, and every connection is closed.

    Raises:
        OSError: the endpoint is not to be had.
    """
    if context is not None:
        SSLProtocol.max_size = TLS_BUFFER  # it is read for each connection
    server = web.Server(handler)
    runner = web.ServerRunner(server, shutdown_timeout=limits.shutdown_time)
    await runner.setup()
    watchdog = Watchdog(limits)
    sweeps = asyncio.create_task(watchdog.run())
    try:
        # Made here and not by one of aiohttp's sites, which know neither the timeouts of TLS nor a protocol of our own.
        listener = await asyncio.get_running_loop().create_server(
            lambda: Protocol(server, limits, watchdog, log),
            endpoint.host,
            endpoint.port,
            ssl=context,
            reuse_port=reuse_port or None,
            ssl_handshake_timeout=None if context is None else limits.header_time,
            ssl_shutdown_timeout=None if context is None else limits.tls_close,
        )
        try:
            yield Endpoint(endpoint.host, listener.sockets[0].getsockname()[1])
        finally:
            listener.close()
    finally:
        await runner.cleanup()
        watchdog.abort()
        sweeps.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sweeps
