"""Fills every memory of what comes from outside with the longest that an API server lets through: ``python -m``.

Prints by memory the bytes by which resident memory has grown. An API server reads requests of 3 MiB, and validates a pod after
its webhooks; it stores objects of 1.5 MiB.
"""

import asyncio
import ctypes
import gc
import json
import logging
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from webhook.cluster.claims import GROUP, PODS, RESOURCE, ClaimTemplates
from webhook.cluster.client import Answer, Unread
from webhook.cluster.events import EventQueue, OwnerEvents, Subject, WorkloadEvent
from webhook.cluster.namespaces import PATH, Namespaces
from webhook.cluster.policy.choose import judge_document
from webhook.cluster.policy.documents import MAPPING_KEY, ConfigMap, DocumentCache
from webhook.cluster.policy.live import watch_config_maps
from webhook.labels import CLAIM, MAPPING
from webhook.mapping.notation import PatternError, expression
from webhook.pod import OwnerReference
from webhook.quantity import MIB
from webhook.request import ClaimTemplate
from webhook.server.logs import Standard, Throttle
from webhook.server.metrics import Metrics
from webhook.server.reviews import Doubts

SENT: Final = 5 * MIB // 2
"""Characters of a text in a review."""

LOG: Final = structlog.get_logger()
PAGE: Final = 20

Make = Callable[[int], Mapping[str, Any]]


def text(number: int, length: int = SENT) -> str:
    """A text that is like no other."""
    return f"{number:0{length}}"


class Endless:
    """An API server whose lists have objects that are made when they are read; it answers nothing else.

    Args:
        objects: by path, how many there are and how one is made.
        single: what a read of one object answers, by its name.
        changes: the events of the one watch.
        page: objects in one answer.
    """

    def __init__(
        self,
        objects: Mapping[str, tuple[int, Make]],
        single: Callable[[str], Mapping[str, Any]] | None = None,
        changes: tuple[int, Make] = (0, lambda _: {}),
        page: int = PAGE,
    ) -> None:
        self.objects = objects
        self.single = single
        self.changes = changes
        self.page = page
        self.over = asyncio.Event()
        self.unread: deque[Unread] = deque()

    async def request(self, method: str, path: str, *, query: Any = None, **_: Any) -> Answer:
        """A page of a list, or silence."""
        if method == "GET" and path in self.objects:
            most, make = self.objects[path]
            first = int((query or {}).get("continue", "0"))
            last = min(first + self.page, most)
            metadata = {"resourceVersion": "1", **({"continue": str(last)} if last < most else {})}
            items = [make(number) for number in range(first, last)]
            return Answer(200, msgspec.json.encode({"metadata": metadata, "items": items}))
        if self.single is None:
            await asyncio.Event().wait()
        assert self.single is not None
        return Answer(200, msgspec.json.encode(self.single(path.rpartition("/")[2])))

    @asynccontextmanager
    async def lines(self, path: str, **_: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        """The events, then silence."""

        async def events() -> AsyncIterator[bytes]:
            number, make = self.changes
            for each in range(number):
                yield msgspec.json.encode({"type": "MODIFIED", "object": make(each)})
            self.over.set()
            await asyncio.Event().wait()

        yield events()

    async def close(self) -> None:
        """There is no connection."""


def labelled(number: int, name: str | None = None) -> dict[str, Any]:
    """A namespace of 1.2 MB with labels that are like no others."""
    labels = {f"{text(each, 63)}.example/{text(number, 60)}": text(each, 63) for each in range(6_000)}
    return {"metadata": {"name": name or f"namespace-{number}", "resourceVersion": "1", "labels": labels}}


def claiming(number: int) -> dict[str, Any]:
    """A pod that waits for a thousand templates of ours."""
    metadata = {"name": text(number, 253), "namespace": f"team-{number}", "labels": {CLAIM: "true"}}
    claims = [
        {"name": text(each, 63), "resourceClaimTemplateName": f"vgpu-{1000 * number + each:020x}"}
        for each in range(1000)
    ]
    return {"metadata": metadata, "spec": {"resourceClaims": claims}}


def long_claims(number: int) -> dict[str, Any]:
    """A pod that waits for 3,000 templates with long names, which are not ours."""
    pod = claiming(number)
    claims = [{"name": text(each, 63), "resourceClaimTemplateName": f"vgpu-{text(each, 248)}"} for each in range(3000)]
    return {**pod, "spec": {"resourceClaims": claims}}


def planted(number: int) -> dict[str, Any]:
    """A template with the label and a name of ours."""
    metadata = {"name": f"vgpu-{number:020x}", "namespace": text(number % 100, 63), "labels": {CLAIM: "true"}}
    metadata["creationTimestamp"] = text(number, 20)
    return {"metadata": metadata, "spec": {}}


def mapping(number: int) -> dict[str, Any]:
    """A ConfigMap of 1 MB."""
    metadata = {"name": f"mapping-{number}", "namespace": "own", "resourceVersion": "1", "labels": {MAPPING: "true"}}
    return {"metadata": metadata, "data": {MAPPING_KEY: text(number, 1_000_000)}}


async def followed(reflector: Any) -> None:
    """Run a reflector until its list is read."""
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def owner_uids() -> Any:
    """Of denied pods."""
    events = OwnerEvents(Endless({}), EventQueue(Endless({}), LOG))
    for number in range(200):
        owner = OwnerReference("v1", "Other", "name", text(number))
        if events.is_new(owner.uid, "digest", "denied"):
            events.put(WorkloadEvent("team", owner, "PodsDenied", "denied", "Warning"))
    return events


async def owners() -> Any:
    """With names, kinds and messages of any length."""
    events = OwnerEvents(Endless({}), EventQueue(Endless({}), LOG))
    for number in range(100):
        for owner in (
            OwnerReference(text(number), "Other", "name", "uid"),
            OwnerReference("v1", text(number), "name", "uid"),
            OwnerReference("v1", "Other", text(number), "uid"),
            OwnerReference("v1", "Other", "name", "uid"),
        ):
            events.put(WorkloadEvent("team", owner, "PodsDenied", text(number), "Warning"))
    return events


async def owners_of_owners() -> Any:
    """Which the API server stores with uids of any length."""

    def owned(name: str) -> dict[str, Any]:
        owner = {"apiVersion": "v1", "kind": "Other", "name": "other", "uid": text(int(name), MIB), "controller": True}
        return {"metadata": {"ownerReferences": [{**owner, "name": f"other-{name}"}]}}

    queue = EventQueue(Endless({}), LOG)
    events = OwnerEvents(Endless({}, owned), queue)
    for number in range(200):
        owner = OwnerReference("apps/v1", "ReplicaSet", str(number), "uid")
        workload = await events._workload("team", owner)  # noqa: SLF001  (one in 0.2 s otherwise)
        queue.put(Subject("v1", workload.kind, "team", workload.name, workload.uid), "Reason", "message")
    return queue


async def statuses() -> Any:
    """Each as long as an annotation may be."""
    events = OwnerEvents(Endless({}), EventQueue(Endless({}), LOG))
    for number in range(2000):
        events.is_new(f"uid-{number}", "digest", text(number, 256 * 1024))
    return events


async def events() -> Any:
    """That cannot be written, about ever more objects."""
    queue = EventQueue(Endless({}), LOG)
    for number in range(60_000):
        queue.put(Subject("v1", "Other", f"team-{number % 9}", f"{number}", "uid"), "Reason", text(number, 2000))
    return queue


async def namespaces() -> Any:
    """With as many labels as are stored."""
    found = Namespaces(Endless({PATH: (60, labelled)}), LOG)
    await followed(found.reflector)
    return found


async def former_namespaces() -> Any:
    """One whose labels are all changed, again and again."""
    api = Endless({PATH: (1, labelled)}, changes=(60, lambda number: labelled(number, "namespace-0")))
    found = Namespaces(api, LOG)
    task = asyncio.create_task(found.reflector.run())
    await api.over.wait()
    task.cancel()
    return found


async def fetched_namespaces() -> Any:
    """Within a second."""
    found = Namespaces(Endless({}, lambda name: labelled(int(name), name)), LOG, clock=lambda: 0.0)
    for number in range(60):
        await found.fetch(str(number))
    return found


def claim_templates(api: Endless) -> ClaimTemplates:
    """Those of a cluster."""
    return ClaimTemplates(api, LOG, lambda _: [])


async def pods() -> Any:
    """That wait for templates."""
    found = claim_templates(Endless({PODS: (800, claiming)}))
    await followed(found.pods)
    return found


async def pods_with_long_claims() -> Any:
    """Likewise, with names as long as they can be."""
    found = claim_templates(Endless({PODS: (100, long_claims)}))
    await followed(found.pods)
    return found


async def templates() -> Any:
    """Of ours, as far as their label says."""
    found = claim_templates(Endless({f"{GROUP}/{RESOURCE}": (200_000, planted)}, page=1000))
    await followed(found.templates)
    return found


async def templates_in_the_making() -> Any:
    """While the API server is silent."""
    found = claim_templates(Endless({}))
    needed = ([ClaimTemplate.of({"spec": text(each, 20_000)}) for each in range(100)] for _ in range(60))
    await asyncio.gather(*[found.provide(f"team-{number}", each) for number, each in enumerate(needed)])
    return found


async def config_maps() -> Any:
    """Of mappings."""
    api = Endless({"/api/v1/namespaces/own/configmaps": (200, mapping)})
    found = watch_config_maps(api, "own", LOG, lambda _: None)
    await followed(found[0])
    return found


async def judged_documents() -> Any:
    """That are invalid, and never stored."""
    memo = DocumentCache()
    for number in range(200):
        data = {MAPPING_KEY: text(number, 1_000_000)}
        judge_document(ConfigMap(f"mapping-{number}", data, {MAPPING: "true"}), (), {}, memo)
    return memo


async def expressions() -> Any:
    """Of documents that are judged."""
    for number in range(4000):
        with suppress(PatternError):
            expression("|".join(f"[a-z]{{1,20}}{number}x{each}" for each in range(20)))
    return None


async def metrics() -> Any:
    """By namespace."""
    found = Metrics()
    for number in range(200_000):
        found.in_namespace((text(number, 63), "denied", "reason"))
    return found


async def doubts() -> Any:
    """By the uids of reviews."""
    found = Doubts()
    for number in range(200_000):
        found.over(text(number, 128), 2.0)
    return found


async def lines() -> Any:
    """Of libraries, whose texts vary."""
    handler = Standard(
        structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    )
    for number in range(200):
        handler.emit(logging.LogRecord("asyncio", logging.ERROR, "", 0, text(number), None, None))
    return handler


async def stale_lines() -> Any:
    """By namespace."""
    found = Throttle(1, 60.0)
    for number in range(300_000):
        found.passes(text(number, 63))
    return found


MEMORIES: Final[tuple[Callable[[], Awaitable[Any]], ...]] = (
    templates,
    expressions,
    metrics,
    doubts,
    stale_lines,
    owner_uids,
    owners,
    owners_of_owners,
    statuses,
    events,
    namespaces,
    former_namespaces,
    fetched_namespaces,
    pods,
    pods_with_long_claims,
    templates_in_the_making,
    config_maps,
    judged_documents,
    lines,
)


def resident() -> int:
    """Bytes of this process, without those that the allocator keeps for the next objects."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def fill() -> None:
    """Fill one after the other, keep all of them, and print."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    kept, grown = [], {}
    for memory in MEMORIES:
        before = resident()
        kept.append(await memory())
        grown[memory.__name__] = resident() - before
    json.dump(grown, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # what waits for a silent API server would be reported


if __name__ == "__main__":
    asyncio.run(fill())
