"""What reviews in flight may take, and what those beyond get."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest

from tests.server.harness import CLIENT, call, connected, get, request, review, serving
from tests.waiting import turns, until
from webhook.admission.decision import Namespace
from webhook.server.limits import Limits
from webhook.server.reviews import NotNowError


class Waiting:
    """Namespaces that nobody knows yet."""

    def __init__(self) -> None:
        self.known = asyncio.Event()
        self.lookups: list[str] = []

    def lookup(self, name: str) -> Namespace | None:
        """Nothing."""
        return None

    async def fetch(self, name: str) -> Namespace:
        """Known when the test says so."""
        self.lookups.append(name)
        await self.known.wait()
        return Namespace(name)


async def test_what_is_in_flight_is_counted() -> None:
    """Reviews, and the bytes of their bodies, until they are answered."""
    body, namespaces = review(), Waiting()
    async with serving(namespaces=namespaces) as server, AsyncExitStack() as stack:
        waiting = [await stack.enter_async_context(connected(server.addresses.mutate, CLIENT)) for _ in range(2)]
        for connection in waiting:
            await connection.send(request(body))
        await until(lambda: len(namespaces.lookups) == 2)
        assert b"vgpu_webhook_in_flight 2.0" in (await get(server, "/metrics")).body
        assert server.service.in_flight.bodies == 2 * len(body)
        namespaces.known.set()
        for connection in waiting:
            assert (await connection.answer()).status == 200
        assert server.service.in_flight.bodies == 0
        assert b"vgpu_webhook_in_flight 0.0" in (await get(server, "/metrics")).body


@pytest.mark.parametrize("announced", [True, False])
async def test_too_many_bytes(*, announced: bool) -> None:
    """Where bodies are too much together, the one that began first makes room, and is to come again."""
    head = "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    begun = request(b"x" * 900, length=1000) if announced else head.encode() + b"384\r\n" + b"x" * 900 + b"\r\n"
    async with serving(Limits(body=1000, bodies=1000)) as server:
        async with connected(server.addresses.mutate, CLIENT) as slow:
            await slow.send(begun)
            await until(lambda: server.service.in_flight.bodies == 900)
            async with connected(server.addresses.mutate, CLIENT) as second:
                body = review()
                await second.send(request(body[:-9], length=len(body)))
                answer = await slow.answer()
                assert (answer.status, answer.headers["retry-after"]) == (503, "1")
                assert (await second.call(body[-9:])).status == 200
        await until(lambda: server.service.in_flight.bodies == 0 and not server.service.in_flight.readings)


async def test_slow_bodies_that_announce_much_hold_nothing() -> None:
    """What is announced is not there yet: it takes no room from those who send."""
    async with serving(Limits(bodies=3000)) as server, AsyncExitStack() as slow:
        for _ in range(20):
            connection = await slow.enter_async_context(connected(server.addresses.mutate, CLIENT))
            await connection.send(request(b"{", length=7 * 1024 * 1024))
        async with connected(server.addresses.mutate, CLIENT) as honest:
            body = review()
            await honest.send(request(body[:-1], length=len(body)))
            await turns()
            assert (await honest.call(body[-1:])).status == 200


async def test_who_cannot_answer_now_says_so() -> None:
    """So that the API server repeats the call, at another replica: the pod must not be admitted for that."""

    class Away(Waiting):
        async def fetch(self, name: str) -> Namespace:
            raise NotNowError(f"namespace {name} is not known yet")

    async with serving(namespaces=Away()) as server:
        answer = await call(server, request(review()))
    assert (answer.status, answer.headers["retry-after"], answer.closes) == (503, "1", True)
    assert answer.json["message"] == "namespace team is not known yet"


async def test_pipelined_requests_are_answered_in_order() -> None:
    """Requests that were sent without waiting are all answered, one after the other."""
    async with serving() as server, connected(server.addresses.mutate, CLIENT) as connection:
        await connection.send(b"".join(request(review(uid=f"uid-{number}")) for number in range(50)))
        for number in range(50):
            assert json.loads((await connection.answer()).body)["response"]["uid"] == f"uid-{number}"
