"""No name in a request is looked for before it is known to be one, and nothing of a request outlives it."""

import gc
import tracemalloc
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.depth import one_in
from tests.server.harness import CLIENT, call, connected, request, review, serving
from tests.server.test_in_flight import Waiting
from tests.waiting import until
from webhook.admission import decide
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


BODIES = {
    "namespace": review(namespace=LONG),
    "uid": review(uid=LONG),
    "name": review(name=LONG),
    "user": review(share(), userInfo={"username": LONG}),
    "kind": review(kind={"group": "", "version": "v1", "kind": LONG}),
    "operation": review(operation=LONG),
    "subresource": review(subResource=LONG),
    "pod": review(share(metadata={"name": LONG})),
    "generated name": review(share(metadata={"generateName": LONG})),
    "pod's namespace": review(share(metadata={"namespace": LONG}), namespace=""),
    "owner": review(share(metadata={"ownerReferences": [{"kind": LONG, "name": LONG}]})),
    "container": review(share(container={"name": LONG})),
    "resource": review(share(limits={f"nvidia.com/gpumem{LONG}": "1"})),
    "pattern": review(share(limits={f"nvidia.com/mig-1g.{'1' * 3_000_000}gb": "1"})),
    "quantity": review(share(limits={"nvidia.com/gpumem": "1" * 3_000_000})),
    "target": review(share(metadata={"annotations": {"vgpu-webhook.io/target": LONG}})),
    "mark": review(share(metadata={"annotations": {f"hami.io/{LONG}-devices-to-allocate": ""}})),
    "scheduler": review(share(schedulerName=LONG)),
    "node": review(share(nodeName=LONG)),
    "variable": review(share(container={"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": LONG}]})),
    "guarded name": review(share(container={"env": [{"name": f"CUDA_DEVICE_MEMORY_LIMIT_{LONG}"}]})),
}


@pytest.mark.parametrize("where", one_in(3, BODIES))
async def test_nothing_outlives_a_request(where: str) -> None:
    """Neither in a cache of ours nor of a library, nor in a log: the next two leave nothing that the first had not."""
    body = request(BODIES[where])
    async with serving(decide=decide) as server, connected(server.addresses.mutate, CLIENT) as connection:
        server.service.current.policy = load_policy()
        await connection.call(body)
        tracemalloc.start(1)
        try:
            for _ in range(2):
                assert len((await connection.call(body)).body) < 2 * len(body)
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held < 1_000_000
        assert len(server.log_file.getvalue()) < 20_000


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


async def test_who_waits_takes_no_more_than_its_bytes() -> None:
    """Only bytes of reviews in flight are limited, and what is decoded from them takes many times as much."""
    labels = {f"{number:x}": "" for number in range(150_000)}
    body, namespaces, count = request(review({"metadata": {"name": "p", "labels": labels}})), Waiting(), 4
    async with serving(namespaces=namespaces) as server, AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(connected(server.addresses.mutate, CLIENT)) for _ in range(count)
        ]
        tracemalloc.start(1)
        try:
            for connection in connections:
                await connection.send(body)
            await until(lambda: len(namespaces.lookups) == count)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        namespaces.known.set()
        for connection in connections:
            assert (await connection.answer()).status == 200
    assert held < count * 3 * len(body)
