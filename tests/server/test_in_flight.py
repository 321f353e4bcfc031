"""What reviews in flight may take, and what those beyond get.

No name in a request is looked for before it is known to be one, and nothing of a request outlives it.
"""

import asyncio
import json
import tracemalloc
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.server.harness import CLIENT, call, connected, get, request, review, serving
from tests.waiting import turns, until
from webhook.admission.decision import Namespace
from webhook.mapping.load import load_policy
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


LONG = "a" * 3_000_000


@pytest.mark.parametrize(
    "namespace",
    [LONG, "Team", "a/b", "../secrets", "a b", "-a", "a-", "a.b", "a" * 64, "ü", "a\n", "a?x=1", "%2e", "\u0000"],
)
@pytest.mark.parametrize("of_the_pod", [True, False])
async def test_what_is_no_namespace_is_not_looked_for(namespace: str, *, of_the_pod: bool) -> None:
    """It is answered with a 400 without a lookup, in whatever place it is."""
    namespaces = Waiting()
    obj = {"metadata": {"name": "p", "namespace": namespace}, "spec": {"containers": []}}
    body = review(obj, namespace="") if of_the_pod else review(namespace=namespace)
    async with serving(namespaces=namespaces) as server:
        answer = await call(server, request(body))
    assert answer.status == 400
    assert len(answer.body) < 500
    assert namespaces.lookups == []


@pytest.mark.parametrize("namespace", ["a", "0", "a-b", "a" * 63, "kube-system"])
async def test_what_is_a_namespace_is(namespace: str) -> None:
    """Every name that Kubernetes takes."""
    async with serving() as server:
        assert (await call(server, request(review(namespace=namespace)))).status == 200


def share(**members: Any) -> Any:
    """A pod with a share."""
    limits = {"nvidia.com/gpu": "1", **members.pop("limits", {})}
    container = {"name": "c", "resources": {"limits": limits}, **members.pop("container", {})}
    return {"metadata": {"name": "p", **members.pop("metadata", {})}, "spec": {"containers": [container], **members}}


HEAPS: dict[str, Any] = {
    "claims": {"resourceClaims": [], "containers": []},
    "containers": {"containers": []},
    "init containers": {"initContainers": [], "containers": []},
}


@pytest.mark.parametrize("where", HEAPS)
async def test_a_heap_of_objects_is_not_decoded(where: str) -> None:
    """An object of three bytes takes a hundred once it is decoded: one request would take all that a replica may."""
    heap = b"[" + b",".join([b"{}"] * 2_000_000) + b"]"
    body = request(review({"metadata": {"name": "p"}, "spec": HEAPS[where]}).replace(b"[]", heap, 1))
    policy = load_policy()
    async with serving(policy=policy) as server, connected(server.addresses.mutate, CLIENT) as connection:
        tracemalloc.start(1)
        try:
            assert (await connection.call(body)).json["response"]["allowed"] is False
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 10 * len(body)
