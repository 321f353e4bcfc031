"""A client that costs little: it must not be the bottleneck beside a server that answers in 50 µs.

One thread, TLS sockets that don't block, `select.epoll`; bodies are bytes, prebuilt but for a few marks. OpenSSL writes
to the sockets itself, which is half as dear as asyncio's way through memory. wrk would be cheaper still, but cannot vary its
requests cheaply. It never sleeps: waking it up costs the server's core, and only a server that is slower than the client.
"""

import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.processes import Server

CONNECTIONS: Final = 16
READ: Final = 65536
SEND_BUFFER: Final = 262144
"""A whole large review fits, so that sending it is one call."""

LENGTH: Final = b"Content-Length: "
LAST_CHUNK: Final = b"\r\n0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Sample:
    """What one run gave; seconds."""

    reviews: int
    elapsed: float
    cpu: float
    latencies: list[float]

    @property
    def cpu_each(self) -> float:
        """CPU of the server for one review."""
        return self.cpu / self.reviews

    @property
    def rate(self) -> float:
        """Reviews in a second."""
        return self.reviews / self.elapsed

    def percentile(self, part: float) -> float:
        """The latency that a part of the reviews stayed below."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


@dataclass(slots=True)
class Connection:
    """A connection, what of its review is not sent yet, and what of the answer is received."""

    tls: ssl.SSLSocket
    begun: float = 0.0
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    received: bytes = b""


class Client:
    """Keep-alive connections to one server, each with one review under way."""

    def __init__(
        self, server: Server, ca_file: Path | None, bodies: Iterator[bytes], connections: int = CONNECTIONS
    ) -> None:
        self._server = server
        self._bodies = bodies
        self._poll = select.epoll()
        context = ssl.create_default_context(cafile=ca_file)
        if ca_file is None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self._connections: dict[int, Connection] = {}
        for _ in range(connections):
            raw = socket.create_connection((server.host, server.port))
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tls = context.wrap_socket(raw, server_hostname="localhost")
            tls.settimeout(0)
            self._connections[tls.fileno()] = Connection(tls)
            self._poll.register(tls.fileno(), select.EPOLLIN)

    def close(self) -> None:
        """Close all connections."""
        self._poll.close()
        for connection in self._connections.values():
            connection.tls.close()

    def run(self, *, seconds: float | None = None, reviews: int | None = None) -> Sample:
        """Send reviews for a time, or until so many were answered."""
        latencies: list[float] = []
        cpu = self._server.cpu
        begin = time.perf_counter()
        for connection in self._connections.values():
            self._ask(connection)
        answering = True
        while answering:
            for connection in self._just_answered():
                latencies.append(time.perf_counter() - connection.begun)
                self._ask(connection)
            now = time.perf_counter()
            answering = now - begin < seconds if seconds is not None else len(latencies) < (reviews or 0)
        elapsed = time.perf_counter() - begin
        cpu = self._server.cpu - cpu
        self._finish()
        return Sample(len(latencies), elapsed, cpu, latencies)

    def paced(self, rate: float, reviews: int) -> Sample:
        """Send so many reviews a second, or as many as are answered if those are fewer; return when all are answered."""
        idle = deque(self._connections.values())
        latencies: list[float] = []
        sent, cpu, begin = 0, self._server.cpu, time.perf_counter()
        while len(latencies) < reviews:
            while idle and sent < min(reviews, rate * (time.perf_counter() - begin)):
                self._ask(idle.popleft())
                sent += 1
            for connection in self._just_answered():
                latencies.append(time.perf_counter() - connection.begun)
                idle.append(connection)
        return Sample(reviews, time.perf_counter() - begin, self._server.cpu - cpu, latencies)

    def _just_answered(self) -> Iterator[Connection]:
        """Go on sending what could not be sent, and yield the connections whose review is answered."""
        for descriptor, events in self._poll.poll(0):
            connection = self._connections[descriptor]
            if events & select.EPOLLOUT:
                self._send(connection)
            if events & select.EPOLLIN and self.answered(connection):
                yield connection

    def _ask(self, connection: Connection) -> None:
        connection.unsent = memoryview(self._request(next(self._bodies)))
        connection.begun = time.perf_counter()
        self._send(connection)

    def _request(self, body: bytes) -> bytes:
        """What the API server sends."""
        head = (
            f"POST {self._server.path}?timeout=10s HTTP/1.1\r\nHost: vgpu-webhook.vgpu-webhook.svc:443\r\n"
            "User-Agent: kube-apiserver-admission\r\n"
            f"Content-Length: {len(body)}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n"
            "Accept-Encoding: gzip\r\n\r\n"
        )
        return head.encode() + body

    def _send(self, connection: Connection) -> None:
        descriptor = connection.tls.fileno()
        while connection.unsent:
            try:
                sent = connection.tls.send(connection.unsent)
            except ssl.SSLWantWriteError:
                self._poll.modify(descriptor, select.EPOLLIN | select.EPOLLOUT)
                return
            connection.unsent = connection.unsent[sent:]
        self._poll.modify(descriptor, select.EPOLLIN)

    @staticmethod
    def answered(connection: Connection) -> bool:
        """Receive, and return whether an answer is complete."""
        try:
            connection.received += connection.tls.recv(READ)
        except ssl.SSLWantReadError:
            return False
        received = connection.received
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return False
        start = received.find(LENGTH, 0, end)
        if start < 0:
            if not received.endswith(LAST_CHUNK):
                return False
        elif len(received) < end + 4 + int(received[start + len(LENGTH) : received.index(b"\r\n", start)]):
            return False
        assert received.startswith(b"HTTP/1.1 200"), received[:500]
        assert b'"allowed":true' in received, received[:500]
        connection.received = b""
        return True

    def _finish(self) -> None:
        """Let the reviews that are under way be answered."""
        for connection in self._connections.values():
            connection.tls.settimeout(10)
            while connection.unsent:
                connection.unsent = connection.unsent[connection.tls.send(connection.unsent) :]
            while not self.answered(connection):
                pass
            connection.tls.settimeout(0)
