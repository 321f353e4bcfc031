"""The end of a server: real signals to a real process."""

import asyncio
import io
import select
import signal
import socket
import time
from pathlib import Path

import pytest
from aiohttp import web

from tests.server.harness import ANY, connected, request, review
from tests.server.process import started
from webhook.server.listener import listening
from webhook.server.logs import make_logger
from webhook.server.protocol import Limits, Watchdog


async def test_drain(tmp_path: Path) -> None:
    """After SIGTERM: not ready, answered with the end of each connection for the grace, then refused, then exit 0."""
    async with started(tmp_path, "--drain-grace", "60") as server:
        assert (await server.get("/readyz")).status == 200
        async with connected(server.mutate, server.client) as idle, connected(server.mutate, server.client) as waiting:
            assert not (await waiting.call(request(review()))).closes
            assert not (await idle.call(request(review()))).closes
            server.signal(signal.SIGTERM)
            await server.logged("draining")

            ready = await server.get("/readyz")
            assert (ready.status, ready.body) == (503, b"lifecycle: draining\n")
            assert (await server.get("/healthz")).status == 200
            answer = await waiting.call(request(review()))
            assert (answer.status, answer.closes) == (200, True)
            assert await waiting.closed(30)
            answer = await server.call()
            assert (answer.status, answer.closes, answer.json["response"]["allowed"]) == (200, True, True)

            server.signal(signal.SIGTERM)  # ends the grace, however long all of this took
            await server.logged("stopping")
            answer = await idle.call(request(review()))
            assert (answer.status, answer.headers["retry-after"], answer.closes) == (503, "1", True)
            answer = await server.call()
            assert (answer.status, answer.headers["retry-after"], answer.closes) == (503, "1", True)
        assert await server.ended(30) == 0
        await server.logged("stopped")
        assert {line["level"] for line in server.log} == {"info"}


async def test_review_in_flight_is_finished(tmp_path: Path) -> None:
    """A review that had begun before the drain is answered even after its grace."""
    body = review()
    async with started(tmp_path, "--drain-grace", "0") as server, connected(server.mutate, server.client) as slow:
        await slow.send(request(body[:20], length=len(body)))
        await server.call()
        server.signal(signal.SIGTERM)
        assert (await server.logged("stopping"))["in_flight"] == 1
        with pytest.raises(TimeoutError):
            await server.ended(1)
        answer = await slow.call(body[20:])
        assert (answer.status, answer.closes) == (200, True)
        assert await server.ended(30) == 0


@pytest.mark.parametrize("signals", [[signal.SIGTERM, signal.SIGINT], [signal.SIGINT]])
async def test_hurry(tmp_path: Path, signals: list[signal.Signals]) -> None:
    """A second signal ends the grace, and Ctrl-C needs none."""
    async with started(tmp_path, "--drain-grace", "60") as server:
        start = time.monotonic()
        for number, event in zip(signals, ["draining", "stopping"], strict=False):
            server.signal(number)
            await server.logged(event)
        assert await server.ended(30) == 0
        assert time.monotonic() - start < 30


async def test_idle_connections_do_not_hold_the_end_up(tmp_path: Path) -> None:
    """Clients that keep their connections open, or are stuck in a handshake, are closed."""
    async with (
        started(tmp_path, "--drain-grace", "0") as server,
        connected(server.mutate, server.client) as idle,
        connected(server.mutate) as silent,
        connected(server.plain) as probe,
    ):
        await idle.call(request(review()))
        server.signal(signal.SIGTERM)
        for connection in (idle, probe):
            answer = await connection.answer()
            assert (answer.status, answer.headers["retry-after"], answer.closes) == (503, "1", True)
        for connection in (idle, silent, probe):
            assert await connection.closed(5)
        assert await server.ended(30) == 0


async def test_request_on_its_way_to_the_end_is_answered(tmp_path: Path) -> None:
    """A client that writes when the server has closed the idle connection reads a 503, which the API server repeats."""
    async with started(tmp_path, "--drain-grace", "0") as server:

        def client() -> bytes:
            address = (server.mutate.host, server.mutate.port)
            with (
                socket.create_connection(address, timeout=30) as plain,
                server.client.wrap_socket(plain, server_hostname="localhost") as idle,
            ):
                idle.sendall(request(review()))
                assert idle.recv(2**16).startswith(b"HTTP/1.1 200")
                server.signal(signal.SIGTERM)
                assert select.select([idle], [], [], 30)[0], "the server closes the connection"
                idle.sendall(request(review()))
                return idle.recv(2**16)

        answer = await asyncio.to_thread(client)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"\r\nRetry-After: 1\r\n" in answer
        assert await server.ended(30) == 0


async def test_handshake_on_its_way_to_the_end_is_answered(tmp_path: Path) -> None:
    """A client whose connection is not open yet when idle ones are closed: it would not repeat a request on a new one."""
    async with started(tmp_path, "--drain-grace", "0") as server:

        def client() -> bytes:
            address = (server.mutate.host, server.mutate.port)
            with socket.create_connection(address, timeout=30) as late:
                with (
                    socket.create_connection(address, timeout=30) as plain,
                    server.client.wrap_socket(plain, server_hostname="localhost") as idle,
                ):
                    idle.sendall(request(review()))
                    assert idle.recv(2**16).startswith(b"HTTP/1.1 200")
                    server.signal(signal.SIGTERM)
                    assert idle.recv(2**16).startswith(b"HTTP/1.1 503")
                time.sleep(0.2)  # nothing else is left to wait for
                with server.client.wrap_socket(late, server_hostname="localhost") as new:
                    time.sleep(0.2)
                    new.sendall(request(review()))
                    return new.recv(2**16)

        answer = await asyncio.to_thread(client)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"\r\nRetry-After: 1\r\n" in answer
        assert await server.ended(30) == 0


async def test_connection_that_nobody_has_accepted_yet_is_answered() -> None:
    """The kernel has opened it for the client, which would see it reset at the end of the listener."""

    async def handler(_request: web.BaseRequest) -> web.Response:
        return web.Response(status=204)

    async with listening(handler, ANY, Watchdog(Limits(), 9), make_logger("debug", io.BytesIO())) as endpoint:
        await asyncio.sleep(0)
        client = socket.create_connection(("127.0.0.1", endpoint.port), timeout=30)
        client.sendall(request(method="GET", content_type=None))
    with client:
        assert client.recv(2**16).startswith(b"HTTP/1.1 204")
