"""A server over real sockets with a stand-in engine, and a client that sends exact bytes."""

import asyncio
import datetime as dt
import io
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import msgspec

from certs.store import Serving
from certs.x509 import issue, make_ca
from tests.waiting import PATIENCE, turns
from webhook.admission.decision import Context, Decision
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod
from webhook.reasons import Finding, Reason
from webhook.replica.run import Addresses, Certificates, Options, Service, running
from webhook.server.http import Endpoint
from webhook.server.limits import Limits
from webhook.server.logs import make_logger
from webhook.server.reviews import Current, Decide, Described, Knowledge, NamespaceSource

NOW = dt.datetime.now(dt.UTC)
AUTHORITY = make_ca("test", NOW)
LEAF = issue(AUTHORITY, ["localhost", "127.0.0.1"], NOW)
ANY = Endpoint("127.0.0.1", 0)
POLICY = cast("Policy", object())
"""The stand-in engine looks at no policy."""

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
Object: TypeAlias = dict[str, Any]


CLIENT = ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode())
"""Of a client that trusts our CA."""


def pod(name: str = "web") -> Object:
    """Give a small pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


def review(obj: Any = None, **request: Any) -> bytes:
    """Give a review of the creation of a pod, with fields of the request replaced."""
    fields = {
        "uid": UID,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "team",
        "userInfo": {"username": "alice"},
        "object": pod() if obj is None else obj,
        **request,
    }
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": fields}
    return json.dumps(document).encode()


def engine(pod: Pod, context: Context, policy: Policy) -> Decision:
    """Decide by the pod's name: ``deny``, ``bug`` or, else, a patch."""
    assert policy is POLICY
    match pod.metadata.name:
        case "deny":
            denial = Finding(Reason.PRIVILEGED, "because of its value s3cr3t", "c", field="securityContext")
            return Decision(allowed=False, reason=denial.reason, denial=denial, vendors=("acme",))
        case "bug":
            raise KeyError("s3cr3t")
        case "would":
            return Decision(
                allowed=True,
                reason=Reason.WOULD_CHANGE,
                status_json='{"containers": {"c": {"written": {"acme.example/memory": "5"}}}}',
                vendors=("acme",),
            )
        case "would-deny":
            denied = {"denied": "VGW506: container c: no"}
            return Decision(allowed=True, reason=Reason.PRIVILEGED, audit=denied, vendors=("acme",))
        case "leave":
            return Decision(allowed=True, reason=Reason.NO_GPU_KEYS)
        case _:
            pass
    operation = {"op": "add", "path": "/metadata/labels", "value": {"user": context.user}}
    return Decision(
        allowed=True,
        reason=Reason.CHANGED,
        patch_json=msgspec.json.encode([operation]),
        warnings=(Finding(Reason.DEFAULT_FILLED, "filled"),),
        notes=tuple(Finding(Reason.IMAGE_PATH_ASSUMED, "assumed", container) for container in ("a", "b")),
        audit={"reason": "changed"},
        vendors=("acme",),
    )


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: where it listens, its parts, and the log lines so far."""

    addresses: Addresses
    service: Service
    log_file: io.BytesIO

    @property
    def log(self) -> list[Object]:
        """The log lines."""
        return [json.loads(line) for line in self.log_file.getvalue().splitlines()]


@asynccontextmanager
async def serving(
    limits: Limits | None = None,
    decide: Decide = engine,
    namespaces: NamespaceSource | None = None,
    client_authorities: bytes | None = None,
    policy: Policy = POLICY,
) -> AsyncIterator[Server]:
    """Give a running server."""
    log_file = io.BytesIO()
    tls, log = Serving(client_authorities), make_logger("debug", log_file)
    tls.swap(LEAF.certificate_pem, LEAF.key_pem, NOW)
    known = Knowledge(Current(policy), namespaces or Described({}), "privileged")
    service = Service(decide, known, Certificates(tls, log), log)
    async with running(service, Options(ANY, ANY, limits=limits or Limits())) as addresses:
        yield Server(addresses, service, log_file)


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Object:
        """The body as JSON."""
        found: Object = json.loads(self.body)
        return found

    @property
    def closes(self) -> bool:
        """Whether the server says that it will close the connection."""
        return self.headers.get("connection", "").lower() == "close"


class Connection:
    """A client's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        """Read the next answer.

        Raises:
            EOFError: the server closed the connection instead.
        """
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status_line, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        status = int(status_line.split()[1])
        if status == 100:
            return Answer(status, headers, b"")
        return Answer(status, headers, await self.reader.readexactly(int(headers.get("content-length", "0"))))

    async def call(self, data: bytes) -> Answer:
        """Send a request and read its answer."""
        await self.send(data)
        return await self.answer()

    async def closed(self) -> bool:
        """Whether the server closes the connection, sending nothing more."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await self.reader.read() == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True

    async def stays(self) -> bool:
        """Whether the server does nothing about the connection."""
        await turns()
        return not self.reader.at_eof() and self.reader.exception() is None


@asynccontextmanager
async def connected(endpoint: Endpoint, context: ssl.SSLContext | None = None) -> AsyncIterator[Connection]:
    """Give a connection."""
    name = None if context is None else "localhost"
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context, server_hostname=name)
    try:
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()


def request(
    body: bytes = b"",
    *,
    method: str = "POST",
    path: str = "/mutate",
    content_type: str | None = "application/json",
    length: int | None = None,
    extra: str = "",
) -> bytes:
    """Give the bytes of a request; `length` is announced instead of the body's own."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {len(body) if length is None else length}",
    ]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    return "\r\n".join([*lines, *extra.splitlines(), "", ""]).encode() + body


async def call(server: Server, data: bytes) -> Answer:
    """Send one request over a TLS connection of its own."""
    async with connected(server.addresses.mutate, CLIENT) as connection:
        return await connection.call(data)


async def get(server: Server, path: str, method: str = "GET") -> Answer:
    """Call the plain endpoint."""
    async with connected(server.addresses.plain) as connection:
        return await connection.call(request(method=method, path=path, content_type=None))
