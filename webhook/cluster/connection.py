"""Connects to a real API server: its address, our identity, a proxy, and aiohttp as transport.

Loads the address of the API server and our credentials with ``kubernetes.aio``; importing this takes 0.3 s.

The first of these is used, as by kubectl and controllers: a named file, ``KUBECONFIG``, the service account of the pod,
``~/.kube/config``. Files are read in threads.

The proxy for an address, from the environment as Go programs read it, so that all programs of a cluster agree.

Python's standard library does not support networks in ``NO_PROXY``. In a cluster, the API server is called by its
address, so it would be called through the proxy even with ``NO_PROXY=10.0.0.0/8``.
"""

import asyncio
import contextlib
import ipaddress
import logging
import math
import os
import socket
import ssl
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp
import yaml
from aiohttp.http_exceptions import LineTooLong
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.incluster_config import SERVICE_HOST_ENV_NAME, InClusterConfigLoader
from kubernetes.aio.config.kube_config import list_kube_config_contexts, load_kube_config
from yarl import URL

import webhook
from webhook.cluster.client import (
    Answer,
    Api,
    ConfigurationError,
    OversizeError,
    SilenceError,
    StatusError,
    UnreachableError,
    Unread,
    UnreadableError,
)

RELEASE_NAMESPACE: Final = "vgpu-webhook"
"""The default of the webhook's own namespace."""

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder of a pod's token, its namespace, and the API server's CA."""


async def connect(
    kubeconfig: Path | None = None, context: str | None = None, service_account: Path = SERVICE_ACCOUNT
) -> Api:
    """Connect with the named file, or else with ``KUBECONFIG``, the pod's service account, or ``~/.kube/config``.

    With a context, the service account is not considered. No request is made yet. Credentials and CAs are read again when
    they change.

    Raises:
        ConfigurationError: nothing is configured, or it cannot be used.
    """

    async def load() -> Access:
        return await load_access(kubeconfig, os.environ, service_account, context)

    return Connection(load, await load())


def in_cluster_namespace(folder: Path = SERVICE_ACCOUNT) -> str | None:
    """The namespace of the pod in which this process runs; None outside a cluster.

    Args:
        folder: the folder of the pod's service account.
    """
    try:
        return (folder / "namespace").read_text("utf-8").strip() or None
    except OSError:
        return None


def release_namespace_of(named: str | None) -> str:
    """The webhook's own namespace: the named one, or else that of this process's pod, or else `RELEASE_NAMESPACE`."""
    return named or in_cluster_namespace() or RELEASE_NAMESPACE


def proxy_for(url: URL, environment: Mapping[str, str]) -> str | None:
    """The proxy to use for a URL; None for none."""
    name = f"{url.scheme}_proxy"
    proxy = environment.get(name.upper()) or environment.get(name)
    if not proxy or _excepted(url, environment.get("NO_PROXY") or environment.get("no_proxy") or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _excepted(url: URL, exceptions: str) -> bool:
    host = (url.host or "").lower()
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or any(_names(entry, host, url.port) for entry in _entries(exceptions))
    return address.is_loopback or any(_covers(entry, address, url.port) for entry in _entries(exceptions))


def _entries(exceptions: str) -> list[str]:
    return [entry for part in exceptions.split(",") if (entry := part.strip().lower())]


def _names(entry: str, host: str, port: int | None) -> bool:
    name, colon, number = entry.partition(":")
    if colon and number != str(port):
        return False
    # Go's rule: an entry with a leading dot matches only names below it, one without also matches the name itself.
    name = name.removeprefix("*") if name.startswith("*.") else name
    return name in {"*", host} or host.endswith(name if name.startswith(".") else f".{name}")


def _covers(entry: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int | None) -> bool:
    if entry == "*":
        return True
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        name, colon, number = entry.rpartition(":")
        return bool(colon) and name.strip("[]") == str(address) and number == str(port)


BEARER: Final = "BearerToken"
"""The key under which kubernetes.aio stores the whole Authorization header."""


@dataclass(frozen=True, slots=True)
class Access:
    """How to connect to one API server.

    Attributes:
        server: its address, possibly with a path prefix.
        tls: contains the trusted CA, and the client certificate if there is one.
        server_name: the name that its certificate must have; None for the host of the address.
        proxy: the proxy to use; None for none.
        authorization: returns the current Authorization header, None for none; may read a file.
    """

    server: URL
    tls: ssl.SSLContext
    server_name: str | None
    proxy: str | None
    authorization: Callable[[], str | None]


async def load_access(
    kubeconfig: Path | None,
    environment: Mapping[str, str],
    service_account: Path = SERVICE_ACCOUNT,
    context: str | None = None,
) -> Access:
    """Load the configured access.

    Args:
        kubeconfig: a named file; it takes precedence.
        environment: the variables ``KUBECONFIG``, the API server's address in a cluster, and the proxies.
        service_account: the folder of the pod's token.
        context: a context of the kubeconfig; None: its current one.

    Raises:
        ConfigurationError: nothing is configured, or it cannot be used.
    """
    configuration = Configuration()
    # Python 3.13 enforces rules of X.509 on CAs that Go, and so most clusters, never enforced.
    configuration.disable_strict_ssl_verification = True
    files = _kubeconfigs(kubeconfig, environment, context)
    if files is None:
        place = str(service_account)
        load = _from_service_account(configuration, environment, service_account)
    else:
        place = files
        load = _from_files(configuration, place, context)
    try:
        await load
        transport = await asyncio.to_thread(RESTClientObject, configuration)
    except ConfigurationError:
        raise
    except (ConfigException, yaml.YAMLError, OSError, ValueError) as error:
        raise ConfigurationError(place, f"cannot be used: {str(error) or type(error).__name__}") from error
    except (TypeError, KeyError, AttributeError) as error:
        # kubernetes.aio raises Python's own errors for a file with a wrong structure.
        message = "cannot be used: it is no kubeconfig, or lacks what its context names (see `kubectl config view`)"
        raise ConfigurationError(place, message) from error
    server = URL(configuration.host)
    if server.scheme not in {"https", "http"} or not server.host:
        raise ConfigurationError(place, "contains no https:// URL of a server")
    return Access(
        server=server,
        tls=transport.ssl_context,
        server_name=configuration.tls_server_name,
        proxy=transport.proxy or proxy_for(server, environment),
        authorization=lambda: _authorization(configuration),
    )


async def _from_service_account(configuration: Configuration, environment: Mapping[str, str], folder: Path) -> None:
    loader = InClusterConfigLoader(str(folder / "token"), str(folder / "ca.crt"), environ=environment)  # type: ignore[no-untyped-call]
    # It also installs a hook that reads the token again once a minute.
    await asyncio.to_thread(loader.load_and_set, configuration)


def _kubeconfigs(kubeconfig: Path | None, environment: Mapping[str, str], context: str | None) -> str | None:
    """The kubeconfig files to use, as in ``KUBECONFIG``; None: the pod's service account instead."""
    named = environment.get("KUBECONFIG") if kubeconfig is None else str(kubeconfig)
    if not named and context is None and environment.get(SERVICE_HOST_ENV_NAME):
        return None
    return named or f"{environment.get('HOME', '~')}/.kube/config"


def current_context(kubeconfig: Path | None) -> str | None:
    """The name of the context that `connect` uses where none is named; None for the pod's service account."""
    files = _kubeconfigs(kubeconfig, os.environ, None)
    if files is None:
        return None
    _, active = list_kube_config_contexts(files)  # type: ignore[no-untyped-call]
    return str(active["name"])


async def _from_files(configuration: Configuration, place: str, context: str | None) -> None:
    if not await asyncio.to_thread(_any_file, place):
        raise ConfigurationError(
            place, "does not exist: name a kubeconfig, or run in a pod with a service account token"
        )
    # In a thread with its own event loop: it reads files synchronously, and may start a program that returns a token.
    loading = load_kube_config(  # type: ignore[no-untyped-call]
        config_file=place, context=context, client_configuration=configuration, persist_config=False
    )
    # If that program fails, kubernetes.aio only logs why, and goes on without credentials.
    failures: list[str] = []
    logger = logging.getLogger(load_kube_config.__module__)

    def keep(record: logging.LogRecord) -> bool:
        if record.levelno < logging.ERROR:
            return True
        failures.append(record.getMessage())
        return False

    logger.addFilter(keep)
    try:
        await asyncio.to_thread(asyncio.run, loading)
    finally:
        logger.removeFilter(keep)
    if failures:
        raise ConfigurationError(place, f"its program for credentials failed: {failures[-1]}")


def _any_file(paths: str) -> bool:
    return any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path)


def _authorization(configuration: Configuration) -> str | None:
    if configuration.refresh_api_key_hook is not None:
        configuration.refresh_api_key_hook(configuration)
    header = configuration.api_key.get(BEARER)
    # A token file often ends in a line break, which no header may contain.
    return header.strip() if header else None


CONNECT_SECONDS: Final = 5.0
"""The time limit for TCP and TLS: the API server is near; TCP repeats a lost packet after 1 s and 3 s."""

RENEWAL_PAUSE: Final = 10.0
"""Seconds between two reloads of credentials that the server rejects: starting a program for a token is expensive."""

MAX_CONNECTIONS: Final = 32
"""Each watch holds one; the rest is for bursts of unknown namespaces."""

MAX_BODY: Final = 32 * 1024 * 1024
"""The most bytes of an answer, which is held twice for a moment; a larger page of a list is read as smaller ones."""

MAX_LINE: Final = 16 * 1024 * 1024
"""The most bytes of a line of a watch: the largest object that etcd can be configured for (8 MiB), with every second
character escaped."""

CLOSE_SECONDS: Final = 1.0
"""The time limit for closing connections: the end of a TLS session requires an answer from the server."""

KEEPALIVE: Final = {socket.TCP_KEEPIDLE: 20, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 5}
"""A vanished peer is noticed within 45 s, as by the pings of Go's clients."""


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
        self.unread: list[Unread] = []
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

            async def whole_lines() -> AsyncGenerator[bytes, None]:
                # Not around the yield below: errors of the reader must not be converted.
                late = f"nothing received in {silence:g} s, or not ended after {seconds:g} s"
                with _unreachable(call, late, SilenceError):
                    while line := await response.content.readline(max_line_length=MAX_LINE):
                        if not line.endswith(b"\n"):
                            raise UnreachableError("the connection ended within a line")
                        yield line[:-1]

            yield await stack.enter_async_context(contextlib.aclosing(whole_lines()))

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
    except LineTooLong as error:
        raise UnreadableError(f"{call}: a line of more than {MAX_LINE} bytes") from error
    except (aiohttp.ClientError, ConfigException, OSError) as error:
        raise UnreachableError(f"{call}: {str(error) or type(error).__name__}") from error


async def _body(response: aiohttp.ClientResponse) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > MAX_BODY:
            raise OversizeError(f"an answer of more than {MAX_BODY} bytes")
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
