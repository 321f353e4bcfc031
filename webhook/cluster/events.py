"""Writes Kubernetes Events, which ``kubectl describe`` shows below an object.

The name of an Event is derived from its content, so that replicas and later processes find an existing one. Its count is
the number of the object's versions that it was written for; where the version is unknown, the number of writes.
"""

import asyncio
import datetime as dt
import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal, TypeAlias

import msgspec
from structlog.typing import FilteringBoundLogger

from certs.report import Backoff
from webhook.bounded import Bounded
from webhook.cluster.client import RETRY_PAUSES, Api, ApiError, is_temporary, read_as
from webhook.quantity import MIB
from webhook.text import shown

Type: TypeAlias = Literal["Normal", "Warning"]

MAX_MESSAGE: Final = 1024
"""The most bytes of an Event's message that the API server accepts."""

MAX_NAME: Final = 200
"""The most characters of the object's name in that of the Event, which has 253 at most, with a dot and 16 digits."""

MAX_WAITING: Final = MIB
"""Bytes of the Events that wait to be written; beyond them the namespace that has the most loses its oldest."""

COMPONENT: Final = "vgpu-webhook"
ATTEMPTS: Final = 3
"""Updates of a count that may lose against other replicas; a count that is too low does no harm."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an Event is about.

    Attributes:
        namespace: empty for a cluster-wide object, whose Events are in ``default``.
        version: its resourceVersion; an Event counts once for each version. If empty, every write counts; if None, only the
            first, of whatever replica.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    version: str | None


class _Involved(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Seen(msgspec.Struct):
    involved: _Involved = msgspec.field(name="involvedObject")
    count: int = 0


_decode_seen = msgspec.json.Decoder(_Seen).decode


async def write_event(api: Api, subject: Subject, type_: Type, reason: str, message: str) -> None:
    """Write an Event about one version of an object, once.

    Args:
        api: the API server.
        subject: the object.
        type_: ``Warning`` if an operator has to act.
        reason: a CamelCase word for programs.
        message: for people; cut if it is too long.

    Raises:
        StatusError: the server answers with an error.
        UnreachableError: there is no answer.
        UnreadableError: there is none that can be decoded.
    """
    event = event_of(subject, type_, reason, message, dt.datetime.now(dt.UTC))
    collection = f"/api/v1/namespaces/{event['metadata']['namespace']}/events"
    for _ in range(ATTEMPTS):
        answer = await api.request("POST", collection, body=event)
        if answer.status != HTTPStatus.CONFLICT:
            answer.accepted()
            return
        if subject.version is None:
            return
        if await _counted(api, f"{collection}/{event['metadata']['name']}", event):
            return


async def _counted(api: Api, path: str, event: dict[str, Any]) -> bool:
    """Increase the count of an existing Event; False if another replica was faster, or the Event is gone."""
    answer = await api.request("GET", path)
    if answer.status == HTTPStatus.NOT_FOUND:
        return False
    seen, whole = read_as(path, answer.accepted(), _decode_seen), answer.object()
    if seen.involved.resource_version == event["involvedObject"]["resourceVersion"] != "":
        return True
    whole |= {key: event[key] for key in ("involvedObject", "lastTimestamp")}
    whole["count"] = seen.count + 1
    answer = await api.request("PUT", path, body=whole)
    if answer.status in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
        return False
    answer.accepted()
    return True


class EventQueue:
    """Writes Events in the background: of each object and reason the newest, however long the API server is away.

    Args:
        api: the API server.
        log: for Events that cannot be written.
    """

    def __init__(self, api: Api, log: FilteringBoundLogger) -> None:
        self._api = api
        self._log = log
        self._waiting: Bounded[tuple[str, ...], tuple[Subject, Type, str, str]] = Bounded(
            MAX_WAITING, lambda key: key[1]
        )
        self._wake = asyncio.Event()
        self._failed = False

    def put(self, subject: Subject, reason: str, message: str, type_: Type = "Warning") -> None:
        """Have an Event written."""
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
    digest = hashlib.sha256(msgspec.json.encode((subject.uid, type_, reason, message))).hexdigest()[:16]
    involved = {"apiVersion": subject.api_version, "kind": subject.kind, "name": subject.name, "uid": subject.uid}
    if subject.namespace:
        involved["namespace"] = subject.namespace
    if subject.version is not None:
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
