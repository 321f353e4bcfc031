"""The API of a real server: aiohttp's transport, told by `access` where to go and as whom."""

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
"""For TCP and TLS: the API server is near; a lost packet is sent again after 1 s and 3 s."""

RENEWAL_PAUSE: Final = 10.0
"""Seconds between two readings of credentials that the server refuses: a program that gives tokens is dear to start."""

MAX_CONNECTIONS: Final = 32
"""A watch holds one each; the rest is for a burst of namespaces never seen before."""

MAX_BODY: Final = 128 * 1024 * 1024
"""Longest answer: half of what a small container may use. Rather a list that fails than a process that is killed."""

CLOSE_SECONDS: Final = 1.0
"""For the connections to end after they were closed: the end of a TLS session takes an answer of the server's."""

KEEPALIVE: Final = {socket.TCP_KEEPIDLE: 20, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 5}
"""A peer that has vanished is noticed in 45 s, the time in which Go's clients notice it by pings."""


async def open_connection(kubeconfig: Path | None = None, service_account: Path = SERVICE_ACCOUNT) -> Api:
    """The API of the server that is configured; see `webhook.cluster.client.connect.connect`."""

    async def load() -> Access:
        return await load_access(kubeconfig, os.environ, service_account)

    return Connection(load, await load())


@dataclass(frozen=True, slots=True)
class _Asked:
    """One request, before it is known who makes it."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None = None
    content_type: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class _Session:
    """The connections made with one set of credentials; closed when it is replaced and the last request has ended."""

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
                # Near as the server is, packing would take longer than carrying.
                "Accept-Encoding": "identity",
                "User-Agent": f"vgpu-webhook/{webhook.__version__}",
            },
        )

    @property
    def closed(self) -> bool:
        return self._http.closed

    @contextlib.asynccontextmanager
    async def call(self, asked: _Asked, limit: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and give the response when its header has come."""
        if self._http.closed:
            raise UnreachableError(f"{asked}: the connection has been closed")
        self._users += 1
        try:
            authorization = await asyncio.to_thread(self._access.authorization)
            headers = {} if authorization is None else {"Authorization": authorization}
            if asked.body is not None:
                headers["Content-Type"] = asked.content_type
            async with self._http.request(
                asked.method,
                f"{self._base}{asked.path}",
                params=asked.query,
                data=asked.body,
                headers=headers,
                timeout=limit,
                allow_redirects=False,  # one would carry the token elsewhere
                proxy=self._access.proxy,
                server_hostname=self._access.server_name,
            ) as response:
                yield response
        finally:
            self._users -= 1
            await self._close_if_over()

    async def retire(self) -> None:
        """Close the connections once nobody uses them any more."""
        self._retired = True
        await self._close_if_over()

    async def close(self) -> None:
        """Close the connections now, and return when they have ended: a loop that ends before leaves them open."""
        await self._http.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while any(one.fileno() >= 0 for one in self._sockets):  # noqa: ASYNC110  (aiohttp tells nobody)
                    await asyncio.sleep(0.005)

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        made = _socket(address)
        self._sockets.add(made)
        return made

    async def _close_if_over(self) -> None:
        if self._retired and self._users == 0:
            await self._http.close()


class Connection:
    """An `Api` whose credentials and authorities are read again when the server, or we, no longer accept them.

    Args:
        load: reads the way to the server anew.
        access: the way to begin with.
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
        asked = _Asked(method, path, query or {}, body, content_type)
        limit = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS)
        with _unreachable(asked, f"no answer within {seconds:g} s"):
            async with asyncio.timeout(seconds), contextlib.AsyncExitStack() as stack:
                response = await self._open(stack, asked, limit)
                return Answer(response.status, await _body(response), _retry_after(response))

    @contextlib.asynccontextmanager
    async def lines(
        self, path: str, *, query: Mapping[str, str], seconds: float, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        asked = _Asked("GET", path, query)
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS, sock_read=silence)
        async with contextlib.AsyncExitStack() as stack:
            with _unreachable(asked, f"no answer within {CONNECT_SECONDS:g} s, or no header within {silence:g} s"):
                response = await self._open(stack, asked, limit)
                if response.status != HTTPStatus.OK:
                    raise StatusError.read(await _body(response), response.status, _retry_after(response))

            async def chunks() -> AsyncGenerator[bytes, None]:
                # Here and not around the yield below: what a reader raises is none of ours.
                late = f"not a word in {silence:g} s, or not over in {seconds:g} s"
                with _unreachable(asked, late, SilenceError):
                    async for chunk in response.content.iter_any():
                        yield chunk

            read = await stack.enter_async_context(contextlib.aclosing(chunks()))
            yield await stack.enter_async_context(contextlib.aclosing(whole_lines(read)))

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()

    async def _open(
        self, stack: contextlib.AsyncExitStack, asked: _Asked, limit: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        session = self._session
        try:
            response = await stack.enter_async_context(session.call(asked, limit))
            if response.status != HTTPStatus.UNAUTHORIZED or not await self._renew(session):
                return response
        except aiohttp.ClientConnectorCertificateError:
            # Nothing was sent: an authority has been replaced, and perhaps in our files too.
            if not await self._renew(session):
                raise
        return await stack.enter_async_context(self._session.call(asked, limit))

    async def _renew(self, used: _Session) -> bool:
        """Read credentials and authorities again, unless that was just done; whether there are others than `used`."""
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
                # A file that is just being replaced; what is known stays, and the answer says what the matter is.
                return False
            self._session = _Session(access)
            self._sessions = [*(session for session in self._sessions if not session.closed), self._session]
        await used.retire()
        return True


@contextlib.contextmanager
def _unreachable(asked: _Asked, late: str, when_late: type[UnreachableError] = UnreachableError) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise when_late(f"{asked}: {late}") from error
    except (aiohttp.ClientError, ConfigException, OSError) as error:
        raise UnreachableError(f"{asked}: {str(error) or type(error).__name__}") from error


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
