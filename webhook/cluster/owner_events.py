"""Events about the workloads whose pods are changed or denied: the warnings of a pod reach a controller, which drops them.

A pod often names an owner that nobody looks at, such as a ReplicaSet; the Event is about what owns that, such as a Deployment.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from webhook.cluster.client import Api, ApiError, read_object
from webhook.cluster.events import MAX_MESSAGE, EventQueue, Subject, Type, shortened
from webhook.mapping.notation import MAX_KEY
from webhook.pod import OwnerReference

MAX_REMEMBERED: Final = 4096
"""Workloads whose Event is not written again."""

MAX_WAITING: Final = 256
"""Events that wait to be written: beyond them, workloads get theirs with a later pod."""

PAUSE: Final = 0.2
"""Seconds between two Events, each of which takes two or three calls of the API server."""

MAX_UID: Final = 64
"""The most characters of an owner's uid, which has 36; the API server checks neither those of pods nor of their owners."""

MAX_NAME: Final = 253
"""Likewise of its name and its kind."""

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""A DNS subdomain (RFC 1123)."""

_OWNED: Final[Mapping[tuple[str, str], str]] = {("apps/v1", "ReplicaSet"): "replicasets", ("batch/v1", "Job"): "jobs"}
"""API version and kind of what other workloads make, with the resource."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    owner_references: list[OwnerReference] = []


class _Owned(msgspec.Struct, frozen=True):
    metadata: _Metadata


class WorkloadEvent(NamedTuple):
    """What became of the pods of a workload."""

    namespace: str
    owner: OwnerReference
    reason: str
    message: str
    type: Type


class OwnerEvents:
    """Finds the workloads, and has their Events written in the background.

    Args:
        api: reads the owners of owners.
        events: writes.
    """

    def __init__(self, api: Api, events: EventQueue) -> None:
        self._api = api
        self._events = events
        self._remembered: dict[int, None] = {}
        self._waiting: asyncio.Queue[WorkloadEvent] = asyncio.Queue()

    def is_new(self, uid: str, *what: str) -> bool:
        """Return whether nothing was written about this owner and these texts, and remember them; called for every pod.

        Nothing is about an owner with a uid that no object has.
        """
        if len(uid) > MAX_UID:
            return False
        key = hash((uid, *what))  # the texts have any length
        if key in self._remembered or self._waiting.qsize() >= MAX_WAITING:
            return False
        if len(self._remembered) >= MAX_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[key] = None
        return True

    def put(self, event: WorkloadEvent) -> None:
        """Have an Event written, unless nothing that exists has such an owner."""
        if _plausible(event.owner):
            self._waiting.put_nowait(event._replace(message=shortened(event.message, MAX_MESSAGE)))

    async def run(self) -> None:
        """Find workloads until cancelled, one after the other."""
        while True:
            namespace, owner, reason, message, type_ = await self._waiting.get()
            workload = await self._workload(namespace, owner)
            subject = Subject(workload.api_version, workload.kind, namespace, workload.name, workload.uid, None)
            self._events.put(subject, reason, message, type_)
            await asyncio.sleep(PAUSE)

    async def _workload(self, namespace: str, owner: OwnerReference) -> OwnerReference:
        """The owner of an owner; the owner itself if it has none, or cannot be read."""
        resource = _OWNED.get((owner.api_version, owner.kind))
        # The API server validates a pod after its webhooks, so any text may be a name.
        if resource is None or _NAME.fullmatch(owner.name) is None:
            return owner
        try:
            path = f"/apis/{owner.api_version}/namespaces/{namespace}/{resource}/{owner.name}"
            found = await read_object(self._api, path, _Owned)
        except ApiError:
            return owner
        owners = found.metadata.owner_references
        return next((each for each in owners if each.controller and _plausible(each)), owner)


def _plausible(owner: OwnerReference) -> bool:
    """Whether an object may have such a uid, name and kind: none is longer than this."""
    return len(owner.uid) <= MAX_UID and all(
        len(text) <= most
        for text, most in ((owner.name, MAX_NAME), (owner.kind, MAX_NAME), (owner.api_version, MAX_KEY))
    )
