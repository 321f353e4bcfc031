"""Writes Kubernetes Events, which ``kubectl describe`` shows below an object, also about workloads.

The name of an Event is derived from its content and the version of its object: what several replicas say, or one says again,
is written once as long as the API server keeps it, by default for an hour.

The warnings of a pod that is changed or denied reach a controller, which drops them; so an Event is about its workload. A pod
often names an owner that nobody looks at, such as a ReplicaSet; the Event is about what owns that, such as a Deployment, and
a replica says the same of it once, also after that hour.
"""

import asyncio
import datetime as dt
import hashlib
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from certs.upkeep import Backoff
from webhook.cluster.client import RETRY_PAUSES, Api, ApiError, is_temporary, read_object
from webhook.cluster.reflector import Bounded
from webhook.mapping.notation import MAX_KEY
from webhook.pod import OwnerReference
from webhook.request import MIB
from webhook.text import shown

Type: TypeAlias = Literal["Normal", "Warning"]

MAX_MESSAGE: Final = 1024
"""The most bytes of an Event's message that the API server accepts."""

MAX_NAME: Final = 200
"""The most characters of the object's name in that of the Event, which has 253 at most, with a dot and 16 digits."""

MAX_WAITING: Final = MIB
"""Bytes of the Events that wait to be written; beyond them the namespace that has the most loses its oldest."""

COMPONENT: Final = "vgpu-webhook"


class Subject(Struct, frozen=True):
    """The object that an Event is about; one without a namespace is cluster-wide, and its Events are in ``default``."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    version: str = ""


async def write_event(api: Api, subject: Subject, type_: Type, reason: str, message: str) -> None:
    """Write an Event, unless it is there already; a ``Warning`` if an operator has to act."""
    event = event_of(subject, type_, reason, message, dt.datetime.now(dt.UTC))
    answer = await api.request("POST", f"/api/v1/namespaces/{event['metadata']['namespace']}/events", body=event)
    if answer.status != HTTPStatus.CONFLICT:
        answer.accepted()


class EventQueue:
    """Writes Events in the background: of each object and reason the newest, however long the API server is away."""

    def __init__(self, api: Api, log: FilteringBoundLogger) -> None:
        self._api = api
        self._log = log
        self._waiting: Bounded[tuple[str, ...], tuple[Subject, Type, str, str]] = Bounded(
            MAX_WAITING, lambda key: key[1]
        )
        self._wake = asyncio.Event()
        self._failed = False

    def put(self, subject: Subject, reason: str, message: str, type_: Type = "Warning") -> None:
        key = subject.kind, subject.namespace, subject.name, reason
        self._waiting.put(key, (subject, type_, reason, shortened(message, MAX_MESSAGE)))
        self._wake.set()

    async def run(self) -> None:
        """Write the Events until cancelled, one after the other."""
        backoff = Backoff(*RETRY_PAUSES)
        while True:
            await self._wake.wait()
            waiting = self._waiting.values
            if not waiting:
                self._wake.clear()
                continue
            key, event = next(iter(waiting.items()))
            try:
                await write_event(self._api, *event)
                backoff.reset()
                self._failed = False
            except ApiError as error:
                if is_temporary(error):
                    await asyncio.sleep(backoff.failed())
                    continue
                if not self._failed:
                    self._failed = True
                    self._log.error("event_not_written", error=str(error))
            if waiting.get(key) is event:
                self._waiting.drop(key)


def event_of(subject: Subject, type_: Type, reason: str, message: str, now: dt.datetime) -> dict[str, Any]:
    """The Event as it is first created."""
    message = shortened(shown(message), MAX_MESSAGE)
    content = (subject.uid, subject.version, type_, reason, message)
    digest = hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:16]
    involved = {"apiVersion": subject.api_version, "kind": subject.kind, "name": subject.name, "uid": subject.uid}
    if subject.namespace:
        involved["namespace"] = subject.namespace
    if subject.version:
        involved["resourceVersion"] = subject.version
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{subject.name[:MAX_NAME].rstrip('.-')}.{digest}",
            "namespace": subject.namespace or "default",
        },
        "involvedObject": involved,
        "type": type_,
        "reason": reason,
        "message": message,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }


def shortened(text: str, most: int) -> str:
    """A text of at most `most` bytes, with an ellipsis if it was cut."""
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    return encoded[: most - len("…".encode())].decode(errors="ignore") + "…"


MAX_REMEMBERED: Final = 4096
"""Workloads whose Event is not written again."""

MAX_OWNERS: Final = 256
"""Events that wait to be written: beyond them, workloads get theirs with a later pod."""

PAUSE: Final = 0.2
"""Seconds between two Events, each of which takes one or two calls of the API server."""

MAX_UID: Final = 64
"""The most characters of an owner's uid, which has 36; the API server checks neither those of pods nor of their owners."""

MAX_OWNER_NAME: Final = 253
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
    """Finds the workloads, and has their Events written in the background; `api` reads the owners of owners."""

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
        if key in self._remembered or self._waiting.qsize() >= MAX_OWNERS:
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
            subject = Subject(workload.api_version, workload.kind, namespace, workload.name, workload.uid)
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
    names = max(len(owner.name), len(owner.kind))
    return len(owner.uid) <= MAX_UID and names <= MAX_OWNER_NAME and len(owner.api_version) <= MAX_KEY
