"""The API of a real server: aiohttp as transport, with the address and credentials from `access`."""

import asyncio
import contextlib
import math
import os
import socket
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp
from kubernetes.aio.config.config_exception import ConfigException

import webhook
from webhook.cluster.client.access import SERVICE_ACCOUNT, Access, load_access
from webhook.cluster.client.api import Answer, Api, ConfigurationError, SilenceError, StatusError, UnreachableError
from webhook.cluster.client.whole_lines import whole_lines

CONNECT_SECONDS: Final = 5.0
"""The time limit for TCP and TLS: the API server is near; TCP repeats a lost packet after 1 s and 3 s."""

RENEWAL_PAUSE: Final = 10.0
"""Seconds between two reloads of credentials that the server rejects: starting a program for a token is expensive."""

MAX_CONNECTIONS: Final = 32
"""Each watch holds one; the rest is for bursts of unknown namespaces."""

MAX_BODY: Final = 128 * 1024 * 1024
"""The most bytes of an answer: half of a small container's memory. A failed list is better than a killed process."""

CLOSE_SECONDS: Final = 1.0
"""The time limit for closing connections: the end of a TLS session requires an answer from the server."""

KEEPALIVE: Final = {socket.TCP_KEEPIDLE: 20, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 5}
"""A vanished peer is noticed within 45 s, as by the pings of Go's clients."""


async def open_connection(kubeconfig: Path | None = None, service_account: Path = SERVICE_ACCOUNT) -> Api:
    """Open a connection to the configured server; see `webhook.cluster.client.connect.connect`."""

    async def load() -> Access:
        return await load_access(kubeconfig, os.environ, service_account)

    return Connection(load, await load())


@dataclass(frozen=True, slots=True)
class _Request:
    """One request, independent of credentials."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None = None
    content_type: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class _Session:
    """The connections with one set of credentials; closed once it is replaced and its last request has ended."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._base = str(access.server).rstrip("/")
        self._retired = False
        self._users = 0
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=access.tls, limit=MAX_CONNECTIONS, socket_factory=self._socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={
                "Accept": "application/json",
                # The server is near: compressing would take longer than sending.
                "Accept-Encoding": "identity",
                "User-Agent": f"vgpu-webhook/{webhook.__version__}",
            },
        )

    @property
    def closed(self) -> bool:
        return self._http.closed

    @contextlib.asynccontextmanager
    async def send(self, call: _Request, limit: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and return the response once its headers have arrived."""
        if self._http.closed:
            raise UnreachableError(f"{call}: the connection has been closed")
        self._users += 1
        try:
            authorization = await asyncio.to_thread(self._access.authorization)
            headers = {} if authorization is None else {"Authorization": authorization}
            if call.body is not None:
                headers["Content-Type"] = call.content_type
            async with self._http.request(
                call.method,
                f"{self._base}{call.path}",
                params=call.query,
                data=call.body,
                headers=headers,
                timeout=limit,
                allow_redirects=False,  # a redirect would send the token elsewhere
                proxy=self._access.proxy,
                server_hostname=self._access.server_name,
            ) as response:
                yield response
        finally:
            self._users -= 1
            await self._close_if_unused()

    async def retire(self) -> None:
        """Close the connections once their last request has ended."""
        self._retired = True
        await self._close_if_unused()

    async def close(self) -> None:
        """Close the connections, and return when they have ended: a loop that ends earlier leaves them open."""
        await self._http.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while any(connection.fileno() >= 0 for connection in self._sockets):  # noqa: ASYNC110  (aiohttp has no event for it)
                    await asyncio.sleep(0.005)

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        made = _socket(address)
        self._sockets.add(made)
        return made

    async def _close_if_unused(self) -> None:
        if self._retired and self._users == 0:
            await self._http.close()


class Connection:
    """An `Api` that reloads credentials and CAs when either side no longer accepts those of the other.

    Args:
        load: loads the access again.
        access: the access to start with.
    """

    def __init__(self, load: Callable[[], Awaitable[Access]], access: Access) -> None:
        self._load = load
        self._session = _Session(access)
        self._sessions = [self._session]
        self._renewal = asyncio.Lock()
        self._renewed_at = -math.inf

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        seconds: float = 10.0,
    ) -> Answer:
        call = _Request(method, path, query or {}, body, content_type)
        limit = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS)
        with _unreachable(call, f"no answer within {seconds:g} s"):
            async with asyncio.timeout(seconds), contextlib.AsyncExitStack() as stack:
                response = await self._open(stack, call, limit)
                return Answer(response.status, await _body(response), _retry_after(response))

    @contextlib.asynccontextmanager
    async def lines(
        self, path: str, *, query: Mapping[str, str], seconds: float, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        call = _Request("GET", path, query)
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS, sock_read=silence)
        async with contextlib.AsyncExitStack() as stack:
            with _unreachable(call, f"no answer within {CONNECT_SECONDS:g} s, or no header within {silence:g} s"):
                response = await self._open(stack, call, limit)
                if response.status != HTTPStatus.OK:
                    raise StatusError.read(await _body(response), response.status, _retry_after(response))

            async def chunks() -> AsyncGenerator[bytes, None]:
                # Not around the yield below: errors of the reader must not be converted.
                late = f"nothing received in {silence:g} s, or not ended after {seconds:g} s"
                with _unreachable(call, late, SilenceError):
                    async for chunk in response.content.iter_any():
                        yield chunk

            read = await stack.enter_async_context(contextlib.aclosing(chunks()))
            yield await stack.enter_async_context(contextlib.aclosing(whole_lines(read)))

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()

    async def _open(
        self, stack: contextlib.AsyncExitStack, call: _Request, limit: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        session = self._session
        try:
            response = await stack.enter_async_context(session.send(call, limit))
            if response.status != HTTPStatus.UNAUTHORIZED or not await self._renew(session):
                return response
        except aiohttp.ClientConnectorCertificateError:
            # Nothing was sent: a CA has been replaced, possibly in our files, too.
            if not await self._renew(session):
                raise
        return await stack.enter_async_context(self._session.send(call, limit))

    async def _renew(self, used: _Session) -> bool:
        """Reload credentials and CAs, unless that was just done; return whether another session than `used` is in force."""
        async with self._renewal:
            if self._session is not used:
                return True
            now = time.monotonic()
            if now - self._renewed_at < RENEWAL_PAUSE:
                return False
            self._renewed_at = now
            try:
                access = await self._load()
            except ConfigurationError:
                # The file may be in the middle of a replacement: the session stays, and the caller gets the server's answer.
                return False
            self._session = _Session(access)
            self._sessions = [*(session for session in self._sessions if not session.closed), self._session]
        await used.retire()
        return True


@contextlib.contextmanager
def _unreachable(call: _Request, late: str, when_late: type[UnreachableError] = UnreachableError) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise when_late(f"{call}: {late}") from error
    except (aiohttp.ClientError, ConfigException, OSError) as error:
        raise UnreachableError(f"{call}: {str(error) or type(error).__name__}") from error


async def _body(response: aiohttp.ClientResponse) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > MAX_BODY:
            raise UnreachableError(f"an answer of more than {MAX_BODY} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else None


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
