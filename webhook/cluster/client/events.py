"""Kubernetes Events, so that ``kubectl describe`` of an object says what we make of it.

The name of an Event follows from what it says: replicas and later processes find the one that is there already. It counts how
many versions of the object it was said of, or, where the object's version is not known, how often it was said.
"""

import datetime as dt
import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal, TypeAlias

import msgspec

from webhook.cluster.client.api import Api, UnreachableError

Type: TypeAlias = Literal["Normal", "Warning"]

LONGEST_MESSAGE: Final = 1024
"""Bytes of an Event's message that the API server takes."""

LONGEST_NAME: Final = 200
"""Characters of the object's name in the Event's, which has 253 at most, a dot and 16 more."""

COMPONENT: Final = "vgpu-webhook"
ATTEMPTS: Final = 3
"""Counts that lose against another replica; one too few does not matter."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an Event is about.

    Attributes:
        namespace: empty for one without a namespace; its Events are in ``default``.
        version: its resourceVersion: of one version, the same is said once. Empty: each time is one of its own.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    version: str


class _Involved(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Seen(msgspec.Struct):
    involved: _Involved = msgspec.field(name="involvedObject")
    count: int = 0


_decode_seen = msgspec.json.Decoder(_Seen).decode
_decode_any = msgspec.json.Decoder(dict[str, Any]).decode


class Events:
    """Writes Events through one API server."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def tell(self, subject: Subject, type_: Type, reason: str, message: str) -> None:
        """Say something of one version of an object, once.

        Args:
            subject: the object.
            type_: ``Warning`` if somebody has to act.
            reason: one word for programs.
            message: for people; cut if it is too long.

        Raises:
            StatusError: the server says no.
            UnreachableError: it says nothing, or nothing that can be read.
        """
        event = event_of(subject, type_, reason, message, dt.datetime.now(dt.UTC))
        collection = f"/api/v1/namespaces/{event['metadata']['namespace']}/events"
        for _ in range(ATTEMPTS):
            answer = await self._api.request("POST", collection, body=msgspec.json.encode(event))
            if answer.status != HTTPStatus.CONFLICT:
                answer.accepted()
                return
            if await self._counted(f"{collection}/{event['metadata']['name']}", event):
                return

    async def _counted(self, path: str, event: dict[str, Any]) -> bool:
        """Count on an Event that is there; False if another replica came first, or it is gone."""
        answer = await self._api.request("GET", path)
        if answer.status == HTTPStatus.NOT_FOUND:
            return False
        body = answer.accepted()
        try:
            seen, whole = _decode_seen(body), _decode_any(body)
        except msgspec.DecodeError as error:
            raise UnreachableError(f"{path}: {error}") from error
        if seen.involved.resource_version == event["involvedObject"]["resourceVersion"] != "":
            return True
        whole |= {key: event[key] for key in ("involvedObject", "lastTimestamp")}
        whole["count"] = seen.count + 1
        answer = await self._api.request("PUT", path, body=msgspec.json.encode(whole))
        if answer.status in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
            return False
        answer.accepted()
        return True


def event_of(subject: Subject, type_: Type, reason: str, message: str, now: dt.datetime) -> dict[str, Any]:
    """The Event, as it is created the first time."""
    message = shortened(message, LONGEST_MESSAGE)
    said = hashlib.sha256(msgspec.json.encode((subject.uid, type_, reason, message))).hexdigest()[:16]
    involved = {"apiVersion": subject.api_version, "kind": subject.kind, "name": subject.name, "uid": subject.uid}
    if subject.namespace:
        involved["namespace"] = subject.namespace
    involved["resourceVersion"] = subject.version
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{subject.name[:LONGEST_NAME].rstrip('.-')}.{said}",
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
    """A text of at most so many bytes, with an ellipsis where it was cut."""
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    return encoded[: most - len("…".encode())].decode(errors="ignore") + "…"
