"""As many connections as there may be, and more that knock: those who have something to say are served."""

import errno
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.server.harness import (
    AUTHORITY,
    CLIENT,
    Connection,
    Server,
    call,
    connected,
    get,
    request,
    review,
    serving,
)
from tests.server.test_in_flight import Waiting
from tests.waiting import turns, until, until_told
from webhook.server import http
from webhook.server.limits import Limits, within

MOST = 8
FEW = Limits(connections=MOST, plain_connections=4)
KNOCKS = 40

Knock = Callable[[Server, AsyncExitStack], Awaitable[Connection]]


async def half_a_handshake(server: Server, stack: AsyncExitStack) -> Connection:
    """Begins TLS and no more."""
    connection = await stack.enter_async_context(connected(server.addresses.mutate))
    await connection.send(b"\x16\x03\x01\x02\x00\x01")
    return connection


async def no_handshake(server: Server, stack: AsyncExitStack) -> Connection:
    """Says nothing at all."""
    return await stack.enter_async_context(connected(server.addresses.mutate))


async def idle(server: Server, stack: AsyncExitStack) -> Connection:
    """Has a TLS session and says nothing."""
    return await stack.enter_async_context(connected(server.addresses.mutate, CLIENT))


async def served(server: Server, stack: AsyncExitStack) -> Connection:
    """Was answered, and rests."""
    connection = await idle(server, stack)
    assert (await connection.call(request(review()))).status == 200
    return connection


async def half_a_header(server: Server, stack: AsyncExitStack) -> Connection:
    """Begins a request."""
    connection = await idle(server, stack)
    await connection.send(b"POST /mutate HTTP/1.1\r\nX: ")
    return connection


async def half_a_body(server: Server, stack: AsyncExitStack) -> Connection:
    """Sends a header and the beginning of a body."""
    connection = await idle(server, stack)
    await connection.send(request(b"{", length=100))
    return connection


KINDS: list[Knock] = [no_handshake, half_a_handshake, idle, served, half_a_header, half_a_body]


async def open_there(server: Server, listener: str = "reviews") -> dict[str, float]:
    """What the metrics say of the connections of a listener."""
    lines = (await get(server, "/metrics")).body.decode().splitlines()
    return {
        name.removeprefix("vgpu_webhook_connections").removesuffix(f'{{listener="{listener}"}}'): float(value)
        for name, _, value in (line.rpartition(" ") for line in lines)
        if name.endswith(f'{{listener="{listener}"}}')
    }


async def until_open(server: Server, number: int) -> None:
    """Wait until so many connections for reviews are open; the clients of a test do not hear of it."""

    async def is_so() -> bool:
        return (await open_there(server))[""] == number

    await until_told(is_so, f"{number} are open")


@pytest.mark.parametrize("knock", KINDS)
async def test_a_crowd(knock: Knock) -> None:
    """However many there are, an honest client is served, again and again, and so are probes."""
    async with serving(FEW) as server, AsyncExitStack() as stack:
        for number in range(KNOCKS):
            await knock(server, stack)
            if number % 5 == 0:
                assert (await call(server, request(review()))).status == 200
                assert (await get(server, "/healthz")).status == 200
        found = await open_there(server)
        assert 1 < found[""] <= found["_max"] == MOST
        assert found["_evicted_total"] >= KNOCKS - MOST


@pytest.mark.parametrize("knock", KINDS)
async def test_who_was_waited_for_the_longest_goes_first(knock: Knock) -> None:
    """The next connection takes the place of the oldest one, and of no other."""
    async with serving(FEW) as server, AsyncExitStack() as stack:
        crowd = []
        for number in range(MOST):
            crowd.append(await knock(server, stack))
            await until_open(server, number + 1)
        assert (await call(server, request(review()))).status == 200
        assert await crowd[0].closed()
        for connection in crowd[1:]:
            assert await connection.stays()


async def test_who_is_used_is_not_the_oldest() -> None:
    """A connection that came first stays if there was a review on it since."""
    async with serving(FEW) as server, AsyncExitStack() as stack:
        honest = await served(server, stack)
        for _ in range(3 * MOST):
            await idle(server, stack)
            assert (await honest.call(request(review()))).status == 200


async def test_who_is_being_answered_stays() -> None:
    """A review in our hands is never cut off for somebody else; who finds no room then is closed at once."""
    namespaces = Waiting()
    async with serving(FEW, namespaces=namespaces) as server, AsyncExitStack() as stack:
        busy = [await idle(server, stack) for _ in range(MOST)]
        for connection in busy:
            await connection.send(request(review()))
        await until(lambda: len(namespaces.lookups) == MOST)
        late = await no_handshake(server, stack)
        assert await late.closed()
        namespaces.known.set()
        for connection in busy:
            assert (await connection.answer()).status == 200


async def test_a_crowd_at_the_plain_port() -> None:
    """Probes are answered there, and reviews at the other one."""
    async with serving(FEW) as server, AsyncExitStack() as stack:
        for _ in range(KNOCKS):
            await stack.enter_async_context(connected(server.addresses.plain))
            assert (await get(server, "/healthz")).status == 200
        assert (await call(server, request(review()))).status == 200
        assert (await open_there(server, "plain"))["_evicted_total"] >= KNOCKS - 4


async def test_headers_that_never_end_are_bounded_together() -> None:
    """Not each for itself: hundreds of them would fill the memory."""
    async with serving(Limits(headers=40_000)) as server, AsyncExitStack() as stack:
        crowd = []
        for _ in range(20):
            connection = await half_a_header(server, stack)
            await connection.send(b"x" * 4000 + b"\r\nY: " + b"y" * 4000)
            crowd.append(connection)
            await turns()
        assert (await call(server, request(review()))).status == 200
        assert (await open_there(server))[""] <= 6
        assert await crowd[0].closed()
        assert await crowd[-1].stays()


async def test_a_failing_accept_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without descriptors nothing spins and nothing floods the log; who was waited for makes room."""
    monkeypatch.setattr(http, "PAUSE", 0.005)
    accept, fails = socket.socket.accept, 50

    def failing(of: socket.socket) -> Any:
        nonlocal fails
        if fails and of.getsockname()[1] == server.addresses.mutate.port:
            fails -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(of)

    async with serving() as server, AsyncExitStack() as stack:
        first = await idle(server, stack)
        monkeypatch.setattr(socket.socket, "accept", failing)
        await idle(server, stack)
        await until(lambda: not fails)
        assert await first.closed()
        assert (await call(server, request(review()))).status == 200
        lines = [line for line in server.log if line["event"] == "no_connection_accepted"]
    assert [(line["error"], line["suppressed"]) for line in lines] == [("EMFILE", 0)]


def test_connections_fit_the_descriptors() -> None:
    """Fewer than are allowed, and some are left for probes, files and the API server."""
    assert within(Limits(), 1_000_000) == Limits()
    for descriptors in (64, 256, 600):
        limits = within(Limits(), descriptors)
        assert 0 < limits.connections + limits.plain_connections <= descriptors - min(128, descriptors // 2)


async def test_callers_without_a_certificate_are_counted_apart() -> None:
    """Where callers have to show one: those without never come to a review."""
    async with serving(client_authorities=AUTHORITY.certificate_pem) as server:
        with pytest.raises((OSError, EOFError)):
            await call(server, request(review()))
        metrics = (await get(server, "/metrics")).body
    assert b'vgpu_webhook_handshake_failures_total{reason="no_client_certificate"} 1.0' in metrics
    assert b"vgpu_webhook_reviews_total{" not in metrics
