"""Clients that are slow, silent or half gone: none of them holds anything for long, or much, and nobody else notices."""

import asyncio
import contextlib
import ssl
import tracemalloc
from contextlib import AsyncExitStack

import pytest

from tests.server.harness import CLIENT, Server, call, connected, get, request, review, serving
from tests.waiting import PATIENCE, Later, running_ahead, turns, until
from webhook.server.limits import Limits

LIMITS = Limits()
LATE = 2
"""Seconds after which a limit has come into force."""


@pytest.fixture
async def later() -> Later:
    """The clock of the loop can be let run ahead."""
    return running_ahead()


async def still_served(server: Server) -> bool:
    """Whether another client is answered."""
    async with connected(server.addresses.mutate, CLIENT) as connection:
        return (await connection.call(request(review()))).status == 200


@pytest.mark.parametrize("hello", [b"", b"\x16\x03\x01\x02\x00\x01"])
async def test_half_a_handshake(later: Later, hello: bytes) -> None:
    """Whoever connects and doesn't get on with the TLS handshake is dropped."""
    async with serving() as server, connected(server.addresses.mutate) as connection:
        await connection.send(hello)
        assert await still_served(server)
        await later(LIMITS.header_time + LATE)
        assert await connection.closed()


@pytest.mark.parametrize("start", [b"", b"POST /mutate HTTP/1.1\r\nHost: x\r\nX-Y: "])
@pytest.mark.parametrize("tls", [True, False])
async def test_half_a_header(later: Later, start: bytes, *, tls: bool) -> None:
    """Whoever sends no whole header is dropped, on either port."""
    async with serving() as server:
        endpoint = server.addresses.mutate if tls else server.addresses.plain
        async with connected(endpoint, CLIENT if tls else None) as connection:
            await connection.send(start)
            assert await still_served(server)
            await later(LIMITS.header_time + LATE)
            assert await connection.closed()


async def test_header_byte_by_byte(later: Later) -> None:
    """A trickle does not extend the time."""
    async with serving() as server, connected(server.addresses.mutate, CLIENT) as connection:

        async def trickle() -> None:
            for byte in b"POST /mutate HTTP/1.1\r\nX: " + b"x" * 100:
                await connection.send(bytes([byte]))
                await later(1)

        with pytest.raises(ConnectionError):
            await trickle()


async def test_header_of_a_later_request(later: Later) -> None:
    """The time for a header holds for each request of a connection."""
    async with serving() as server, connected(server.addresses.mutate, CLIENT) as connection:
        assert (await connection.call(request(review()))).status == 200
        await connection.send(b"POST /mut")
        await later(LIMITS.header_time + LATE)
        assert await connection.closed()


async def test_half_a_body(later: Later) -> None:
    """A body that doesn't come in time is a 408 and the end of the connection."""
    async with serving() as server, connected(server.addresses.mutate, CLIENT) as connection:
        await connection.send(request(b"{", length=100))
        await until(lambda: server.service.in_flight.reviews == 1)
        assert await still_served(server)
        await later(LIMITS.body_time)
        answer = await connection.answer()
        assert (answer.status, answer.json["reason"], answer.closes) == (408, "Timeout", True)
        await later(LIMITS.linger + LATE)
        assert await connection.closed()
        assert server.service.in_flight.reviews == 0


async def test_refusal_reaches_a_client_that_goes_on_sending(later: Later) -> None:
    """Whoever sends too much gets to read why, before the connection is cut."""
    async with serving() as server, connected(server.addresses.mutate, CLIENT) as connection:
        await connection.send(request(b"x" * 100_000, length=100_000_000))
        answer = await connection.answer()
        assert (answer.status, answer.closes) == (413, True)
        await later(LIMITS.linger + LATE)
        assert await connection.closed()


async def test_answers_that_nobody_fetches(later: Later) -> None:
    """A client that goes on sending requests and reads no answers is dropped when they pile up."""
    data = request(review(uid="u" * 128)) * 100
    async with serving() as server:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", server.addresses.mutate.port, ssl=CLIENT, server_hostname="localhost", limit=4096
        )

        async def send_on() -> None:
            # Whoever doesn't read learns of the end only by writing.
            with contextlib.suppress(ConnectionError):
                while not writer.transport.is_closing():
                    writer.write(data)
                    await writer.drain()

        sending = asyncio.create_task(send_on())
        while not sending.done():
            await later(1)
        assert writer.transport.is_closing()
        assert await still_served(server)
        with pytest.raises(ConnectionError):
            await writer.wait_closed()


async def test_idle_connection_outlives_all_other_times(later: Later) -> None:
    """Between requests a connection may rest; only keep-alive ends it."""
    async with serving() as server, connected(server.addresses.mutate, CLIENT) as connection:
        for _ in range(3):
            assert (await connection.call(request(review()))).status == 200
            await later(LIMITS.keepalive * 2 / 3)
            assert await connection.stays()
        await later(LIMITS.keepalive / 3 + LATE)
        assert await connection.closed()


def test_keepalive_is_longer_than_the_api_servers() -> None:
    """Go's client lets go of an idle connection after 90 s; the side that waits longer loses no request."""
    assert Limits().keepalive >= 120


async def test_client_that_never_closes_its_tls_session(later: Later) -> None:
    """The end of a session is not waited for."""
    async with serving() as server:
        raw_reader, raw_writer = await asyncio.open_connection("127.0.0.1", server.addresses.mutate.port)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = CLIENT.wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw_writer.write(outgoing.read())
                incoming.write(await raw_reader.read(65536))
        session.write(request(extra="Connection: close"))
        raw_writer.write(outgoing.read())
        await turns()
        await later(LIMITS.tls_close + LATE)
        async with asyncio.timeout(PATIENCE):
            while await raw_reader.read(65536):
                pass
        raw_writer.close()
        await raw_writer.wait_closed()


async def test_many_silent_clients(later: Later) -> None:
    """A hundred of them at once are dropped, and others are served meanwhile."""
    async with serving() as server:
        clients = [await asyncio.open_connection("127.0.0.1", server.addresses.mutate.port) for _ in range(100)]
        assert await still_served(server)
        assert (await get(server, "/healthz")).status == 200
        await later(LIMITS.header_time + LATE)
        async with asyncio.timeout(PATIENCE):
            for reader, writer in clients:
                assert await reader.read() == b""
                writer.transport.abort()


MANY = 20


async def test_idle_connections_take_little_memory() -> None:
    """An API server opens one for each review in flight; with asyncio's own buffers both ends of one take half a MiB."""
    async with serving() as server, AsyncExitStack() as connections:
        assert (await call(server, request(review()))).status == 200
        tracemalloc.start(1)
        try:
            for _ in range(MANY):
                await connections.enter_async_context(connected(server.addresses.mutate, CLIENT))
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held / MANY < 300 * 1024
