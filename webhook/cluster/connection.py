"""Calls a real API server through ``kubernetes.aio``; importing this takes 0.3 s.

The first of these is used, as by kubectl and controllers: a named file, ``KUBECONFIG``, the service account of the pod,
``~/.kube/config``. Files are read in threads. Credentials and CAs are read again when either side refuses the other's.
"""

import asyncio
import contextlib
import ipaddress
import logging
import math
import os
import re
import socket
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import aiohttp
import yaml
from aiohttp.http_exceptions import LineTooLong
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.incluster_config import SERVICE_HOST_ENV_NAME, InClusterConfigLoader
from kubernetes.aio.config.kube_config import list_kube_config_contexts, load_kube_config
from msgspec import Struct
from yarl import URL

import webhook
from webhook.cluster.client import (
    MAX_UNREAD,
    Answer,
    Api,
    Body,
    ConfigurationError,
    OversizeError,
    SilenceError,
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

    With a context, the service account is not considered. No request is made yet.
    """

    async def load() -> ApiClient:
        return await load_access(kubeconfig, os.environ, service_account, context)

    return Connection(load, await load())


def in_cluster_namespace(folder: Path = SERVICE_ACCOUNT) -> str | None:
    """The namespace of the pod in which this process runs, from the folder of its service account; None outside a cluster."""
    try:
        return (folder / "namespace").read_text("utf-8").strip() or None
    except OSError:
        return None


def release_namespace_of(named: str | None) -> str:
    """The webhook's own namespace: the named one, or else that of this process's pod, or else `RELEASE_NAMESPACE`."""
    return named or in_cluster_namespace() or RELEASE_NAMESPACE


def current_context(kubeconfig: Path | None) -> str | None:
    """The name of the context that `connect` uses where none is named; None for the pod's service account."""
    files = _kubeconfigs(kubeconfig, os.environ, None)
    return None if files is None else str(list_kube_config_contexts(files)[1]["name"])  # type: ignore[no-untyped-call]


async def load_access(
    kubeconfig: Path | None,
    environment: Mapping[str, str],
    service_account: Path,
    context: str | None,
) -> ApiClient:
    """Load the address of the API server, our identity, and the proxy; a `ConfigurationError` if that is not possible."""
    configuration = Configuration()
    # Python 3.13 enforces rules of X.509 on CAs that Go, and so most clusters, never enforced.
    configuration.disable_strict_ssl_verification = True
    files = _kubeconfigs(kubeconfig, environment, context)
    place = files or str(service_account)
    try:
        if files is None:
            token, ca = (str(service_account / name) for name in ("token", "ca.crt"))
            # It also installs a hook that reads the token again once a minute.
            loader = InClusterConfigLoader(token, ca, environ=environment)  # type: ignore[no-untyped-call]
            await asyncio.to_thread(loader.load_and_set, configuration)
        else:
            await _from_files(configuration, files, context)
        server = URL(configuration.host)
        client = await asyncio.to_thread(ApiClient, configuration)
    except (ConfigException, yaml.YAMLError, OSError, ValueError) as error:
        raise ConfigurationError(place, f"cannot be used: {str(error) or type(error).__name__}") from error
    except (TypeError, KeyError, AttributeError) as error:
        # kubernetes.aio raises Python's own errors for a file with a wrong structure.
        message = "cannot be used: it is no kubeconfig, or lacks what its context names (see `kubectl config view`)"
        raise ConfigurationError(place, message) from error
    if server.scheme not in {"https", "http"} or not server.host:
        raise ConfigurationError(place, "contains no https:// URL of a server")
    client.rest_client.proxy = configuration.proxy or proxy_for(server, environment)
    return client


def _kubeconfigs(kubeconfig: Path | None, environment: Mapping[str, str], context: str | None) -> str | None:
    """The kubeconfig files to use, as in ``KUBECONFIG``; None: the pod's service account instead."""
    named = environment.get("KUBECONFIG") if kubeconfig is None else str(kubeconfig)
    if not named and context is None and environment.get(SERVICE_HOST_ENV_NAME):
        return None
    return named or f"{environment.get('HOME', '~')}/.kube/config"


async def _from_files(configuration: Configuration, files: str, context: str | None) -> None:
    if not await asyncio.to_thread(_any_file, files):
        raise ConfigurationError(
            files,
            "does not exist: name a kubeconfig, or files (preview -f, check FILE), or run in a pod with a service account",
        )
    loading = load_kube_config(  # type: ignore[no-untyped-call]
        config_file=files, context=context, client_configuration=configuration, persist_config=False
    )
    # It may start a program that returns a token; if that fails, kubernetes.aio only logs why, and goes on without.
    failures: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        failures.append(record.getMessage())
        return False

    logger = logging.getLogger(load_kube_config.__module__)
    logger.addFilter(keep)
    try:
        await asyncio.to_thread(asyncio.run, loading)
    finally:
        logger.removeFilter(keep)
    if failures:
        raise ConfigurationError(files, f"its program for credentials failed: {failures[-1]}")


def _any_file(paths: str) -> bool:
    return any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path)


_EXCEPTION: Final = re.compile(r"(.*?)(?::(\d+))?")
"""An entry of ``NO_PROXY`` that is no network: a name or an address, and perhaps a port."""


def proxy_for(url: URL, environment: Mapping[str, str]) -> str | None:
    """The proxy to use for a URL, as Go programs choose it, so that all programs of a cluster agree; None for none.

    Python's standard library does not support networks in ``NO_PROXY``. In a cluster, the API server is called by its
    address, so it would be called through the proxy even with ``NO_PROXY=10.0.0.0/8``.
    """
    name = f"{url.scheme}_proxy"
    proxy = environment.get(name.upper()) or environment.get(name)
    exceptions = (environment.get("NO_PROXY") or environment.get("no_proxy") or "").lower().split(",")
    # Loopback addresses never have one.
    exceptions += ("localhost", "127.0.0.0/8", "::1")
    if not proxy or any(_excepts(each.strip(), (url.host or "").lower(), url.port) for each in exceptions):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _excepts(entry: str, host: str, port: int | None) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    found = _EXCEPTION.fullmatch(entry)
    if not entry or found is None or found[2] not in {None, str(port)}:
        return False
    # An entry with a leading dot matches only names below it, one without also matches the name itself.
    name = found[1].removeprefix("*") if found[1].startswith("*.") else found[1].strip("[]")
    return name in {"*", host} or host.endswith(name if name.startswith(".") else f".{name}")


IDENTITY: Final = "BearerToken"
"""The key under which kubernetes.aio stores the whole Authorization header."""

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

HEADERS: Final = {
    "Accept": "application/json",
    # The server is near: compressing would take longer than sending.
    "Accept-Encoding": "identity",
    "User-Agent": f"vgpu-webhook/{webhook.__version__}",
}

KEEPALIVE: Final = {socket.TCP_KEEPIDLE: 20, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 5}
"""A vanished peer is noticed within 45 s, as by the pings of Go's clients."""


class _Request(Struct, frozen=True):
    """One request, independent of credentials."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Body = None
    content_type: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class _Session:
    """The connections with one set of credentials; closed once it is replaced and its last request has ended."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._connector = aiohttp.TCPConnector(
            ssl=client.rest_client.ssl_context, limit=MAX_CONNECTIONS, socket_factory=_socket
        )
        self._users = 1  # whoever may replace it
        client.configuration.client_session_kwargs = {
            "connector": self._connector,
            "cookie_jar": aiohttp.DummyCookieJar(),
            "headers": HEADERS,
            "read_bufsize": 2**16,  # of each connection: a longer line is collected by its reader
            "trust_env": False,  # `proxy_for` has looked there
        }

    @property
    def closed(self) -> bool:
        return self._connector.closed

    @contextlib.asynccontextmanager
    async def send(self, call: _Request, limit: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and return the response once its headers have arrived."""
        if self.closed:
            raise UnreachableError(f"{call}: the connection has been closed")
        self._users += 1
        try:
            configuration = self._client.configuration
            headers = {"Content-Type": call.content_type}
            if identity := await configuration.get_api_key_with_prefix(IDENTITY):
                # A token file often ends in a line break, which no header may contain.
                headers["Authorization"] = identity.strip()
            url = f"{configuration.host.rstrip('/')}{call.path}?{urlencode(call.query, quote_via=quote)}"
            answer = await self._client.call_api(call.method, url, headers, call.body, _request_timeout=limit)
            async with answer.response as response:
                yield response
        finally:
            await self.leave()

    async def leave(self) -> None:
        """Note that one user less needs the connections."""
        self._users -= 1
        if not self._users:
            await self.close()

    async def close(self) -> None:
        """Close the connections, and return when they have ended: a loop that ends earlier leaves them open."""
        await self._client.close()  # type: ignore[no-untyped-call]
        await self._connector.close()


class Connection:
    """An `Api` that loads credentials and CAs again when either side no longer accepts those of the other."""

    def __init__(self, load: Callable[[], Awaitable[ApiClient]], client: ApiClient) -> None:
        self.unread: deque[Unread] = deque(maxlen=MAX_UNREAD)
        self._load = load
        self._session = _Session(client)
        self._renewal = asyncio.Lock()
        self._renewed_at = -math.inf

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body = None,
        content_type: str = "application/json",
        seconds: float = 10.0,
    ) -> Answer:
        call = _Request(method, path, query or {}, body, content_type)
        limit = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS)
        with _unreachable(call, f"no answer within {seconds:g} s"):
            async with asyncio.timeout(seconds), contextlib.AsyncExitStack() as stack:
                return await _answer(await self._open(stack, call, limit))

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
                    (await _answer(response)).accepted()

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
        # Those that were replaced are closed by the last of their requests.
        await self._session.close()

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
                self._session = _Session(await self._load())
            except ConfigurationError:
                # The file may be in the middle of a replacement: the session stays, and the caller gets the server's answer.
                return False
        await used.leave()
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


async def _answer(response: aiohttp.ClientResponse) -> Answer:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > MAX_BODY:
            raise OversizeError(f"an answer of more than {MAX_BODY} bytes")
        chunks.append(chunk)
    pause = response.headers.get("Retry-After", "")
    return Answer(response.status, b"".join(chunks), float(pause) if pause.isdecimal() else None)


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
