"""No name in a request is looked for before it is known to be one, and nothing of a request outlives it."""

import tracemalloc
from typing import Any

import pytest

from tests.server.harness import CLIENT, call, connected, request, review, serving
from tests.server.test_in_flight import Waiting
from webhook.mapping.load import load_policy

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
