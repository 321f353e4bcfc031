"""The end of a server: real signals to a real process."""

import asyncio
import io
import select
import signal
import socket
import ssl
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from aiohttp import web

from certs.store import Serving
from tests.server.harness import ANY, CLIENT, LEAF, NOW, connected, request, review
from tests.server.process import started
from tests.waiting import PATIENCE, turns
from webhook.server.http import Connections, Endpoint, dispatcher, listening
from webhook.server.limits import InFlight, Lifecycle, Limits
from webhook.server.logs import make_logger


async def test_drain(tmp_path: Path) -> None:
    """After SIGTERM: not ready, answered with the end of each connection for the grace, then refused, then exit 0."""
    async with started(tmp_path, "--drain-grace", "60") as server:
        assert (await server.get("/readyz")).status == 200
        async with (
            connected(server.mutate, server.client) as idle,
            connected(server.mutate, server.client) as waiting,
            connected(server.mutate, server.client) as slow,
        ):
            assert not (await waiting.call(request(review()))).closes
            assert not (await idle.call(request(review()))).closes
            server.signal(signal.SIGTERM)
            await server.logged("draining")

            ready = await server.get("/readyz")
            assert (ready.status, ready.body) == (503, b"lifecycle: draining\n")
            assert (await server.get("/healthz")).status == 200
            answer = await waiting.call(request(review()))
            assert (answer.status, answer.closes) == (200, True)
            assert await waiting.closed()
            answer = await server.call()
            assert (answer.status, answer.closes, answer.json["response"]["allowed"]) == (200, True, True)

            body = review()
            await slow.send(request(body[:20], length=len(body)))  # it holds up the end, however long all of this takes
            server.signal(signal.SIGTERM)  # ends the grace
            await server.logged("stopping")
            answer = await idle.call(request(review()))
            assert (answer.status, answer.headers["retry-after"], answer.closes) == (503, "1", True)
            answer = await server.call()
            assert (answer.status, answer.headers["retry-after"], answer.closes) == (503, "1", True)
            assert (await slow.call(body[20:])).status == 200
        assert await server.ended() == 0
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
        answer = await slow.call(body[20:])
        assert (answer.status, answer.closes) == (200, True)
        assert await server.ended() == 0


async def test_the_end_waits_for_what_is_in_flight() -> None:
    """Without a grace, and for as long as any review is not answered."""
    in_flight, log = InFlight(), make_logger("debug", io.BytesIO())
    for _ in range(2):
        in_flight.reviews += 1
    limits = Limits(unavailable_time=0)
    end = asyncio.create_task(Lifecycle().drain(grace=0, in_flight=in_flight, limits=limits, log=log))
    for _ in range(2):
        await turns()
        assert not end.done()
        in_flight.reviews -= 1
    await end


@pytest.mark.parametrize("signals", [[signal.SIGTERM, signal.SIGINT], [signal.SIGINT]])
async def test_hurry(tmp_path: Path, signals: list[signal.Signals]) -> None:
    """A second signal ends the grace, and Ctrl-C needs none."""
    async with started(tmp_path, "--drain-grace", "3600") as server:
        for number, event in zip(signals, ["draining", "stopping"], strict=False):
            server.signal(number)
            await server.logged(event)
        assert await server.ended() == 0


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
            assert await connection.closed()
        assert await server.ended() == 0


async def test_request_on_its_way_to_the_end_is_answered(tmp_path: Path) -> None:
    """A client that writes when the server has closed the idle connection reads a 503, which the API server repeats."""
    async with started(tmp_path, "--drain-grace", "0") as server:

        def client() -> bytes:
            address = (server.mutate.host, server.mutate.port)
            with (
                socket.create_connection(address, timeout=PATIENCE) as plain,
                server.client.wrap_socket(plain, server_hostname="localhost") as idle,
            ):
                idle.sendall(request(review()))
                assert idle.recv(2**16).startswith(b"HTTP/1.1 200")
                server.signal(signal.SIGTERM)
                assert select.select([idle], [], [], PATIENCE)[0], "the server closes the connection"
                idle.sendall(request(review()))
                return idle.recv(2**16)

        answer = await asyncio.to_thread(client)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"\r\nRetry-After: 1\r\n" in answer
        assert await server.ended() == 0


PATIENT = Limits(linger=60)
FIRST, LAST = (request(method="GET", path=path, content_type=None) for path in ("/first", "/last"))


async def first(_request: web.BaseRequest) -> web.Response:
    """Answer, and keep the connection."""
    return web.Response(status=204)


async def last(_request: web.BaseRequest) -> web.Response:
    """Answer as a replica that ends."""
    response = web.Response(status=204)
    response.force_close()
    return response


def ending(context: ssl.SSLContext | None = None) -> AbstractAsyncContextManager[Endpoint]:
    """A listener that waits for long at its end."""
    handler = dispatcher({"/first": ("GET", first), "/last": ("GET", last)}, PATIENT)
    return listening(handler, ANY, Connections(PATIENT, 9), make_logger("debug", io.BytesIO()), context)


async def test_handshake_on_its_way_to_the_end_is_answered() -> None:
    """A client whose connection is not open yet when idle ones are closed: it would not repeat a request on a new one."""
    loop, served = asyncio.get_running_loop(), asyncio.Event()
    tls = Serving(None)
    tls.swap(LEAF.certificate_pem, LEAF.key_pem, NOW)

    def go_on() -> None:
        asyncio.run_coroutine_threadsafe(turns(), loop).result()

    def client(port: int) -> bytes:
        address = ("127.0.0.1", port)
        with socket.create_connection(address, timeout=PATIENCE) as late:
            with (
                socket.create_connection(address, timeout=PATIENCE) as plain,
                CLIENT.wrap_socket(plain, server_hostname="localhost") as idle,
            ):
                idle.sendall(FIRST)
                assert idle.recv(2**16).startswith(b"HTTP/1.1 204")
                loop.call_soon_threadsafe(served.set)
                assert idle.recv(2**16).startswith(b"HTTP/1.1 503")
            go_on()  # by which a server that does not wait is gone
            with CLIENT.wrap_socket(late, server_hostname="localhost") as new:
                go_on()
                new.sendall(LAST)
                return new.recv(2**16)

    async with ending(tls.context) as at:
        answer = asyncio.create_task(asyncio.to_thread(client, at.port))
        await asyncio.wait([answer, asyncio.create_task(served.wait())], return_when=asyncio.FIRST_COMPLETED)
    assert (await answer).startswith(b"HTTP/1.1 204")


@pytest.mark.parametrize("turns_later", [0, 1, 2])
async def test_connection_that_nobody_has_accepted_yet_is_answered(turns_later: int) -> None:
    """The kernel has opened it for the client, which would see it reset at the end of the listener.

    A turn later the loop has seen it, and not told the listener; then it is accepted, and nobody has it yet.
    """
    async with ending() as at:
        await asyncio.sleep(0)
        client = socket.create_connection(("127.0.0.1", at.port), timeout=PATIENCE)
        client.sendall(LAST)
        for _ in range(turns_later):
            await asyncio.sleep(0)
    with client:
        assert client.recv(2**16).startswith(b"HTTP/1.1 204")
