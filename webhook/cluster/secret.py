"""A Secret that stores certificates, and requests for new ones as an annotation; it requires permissions on its own name only.

RBAC cannot limit a ``create`` by POST to a name. It can limit a server-side apply of a missing object, which requires
the verbs ``patch`` and ``create`` on that name. So an empty Secret is applied, without force: if another replica was
faster, the apply is a conflict, or changes nothing. Then the Secret is filled in the way it is changed later: by a PUT
against the version that was read.
"""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass
from http import HTTPStatus
from typing import Final, TypeVar

from structlog.typing import FilteringBoundLogger

from certs.rotation import CERTIFICATE, FILES, KEY, ROTATE
from certs.store import Snapshot
from certs.x509 import StoreError
from webhook import labels
from webhook.cluster.client import (
    Api,
    ApiError,
    NamedObject,
    Object,
    PlainObject,
    StatusError,
    annotations_of,
    owner_reference,
)
from webhook.cluster.reflector import USUAL, Reflector, WatchConfig

NAME: Final = "vgpu-webhook-certificates"
TYPE: Final = "kubernetes.io/tls"
VERBS: Final = "get, list, watch, create, patch and update"

T = TypeVar("T")

_ABSENT: Final = ""
"""The version of a missing Secret."""

_ABOUT_CONTENT: Final = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
"""Errors whose message may repeat what was sent."""


@dataclass(eq=False)
class SecretStore:
    """One Secret as a `certs.store.Store`; `changed` returns only while `reflector` runs. A ClusterRole may own it."""

    api: Api
    namespace: str
    name: str
    log: InitVar[FilteringBoundLogger]
    _: KW_ONLY
    owner: str | None = None
    config: WatchConfig = USUAL

    def __post_init__(self, log: FilteringBoundLogger) -> None:
        collection = f"/api/v1/namespaces/{self.namespace}/secrets"
        self.place = f"secret {self.namespace}/{self.name}"
        self._object = NamedObject(self.api, f"{collection}/{self.name}")
        self._found: Object = {}
        self._version = _ABSENT
        self._changed = asyncio.Event()
        # The watch decodes no key.
        self.reflector: Reflector[PlainObject, str] = Reflector(
            self.api,
            collection,
            PlainObject,
            lambda seen: seen.metadata.resource_version,
            log,
            changed=lambda _: self._changed.set(),
            query={"fieldSelector": f"metadata.name={self.name}"},
            config=self.config,
        )

    async def read(self) -> Snapshot:
        await self._remember(self._object.read())
        encoded = self._found.get("data") or {}
        try:
            files = {name: base64.b64decode(encoded[name]) for name in FILES if encoded.get(name)}
        except (binascii.Error, ValueError, TypeError):
            raise StoreError(self.place, "contains a value that is not base64") from None
        if request := annotations_of(self._found).get(labels.ROTATE):
            files[ROTATE] = str(request).encode()
        return Snapshot(files or None, self._version)

    async def write(self, files: Mapping[str, bytes], version: str) -> bool:
        if version != self._version:
            return False
        if version == _ABSENT and not await self._create():
            return False
        others = {name: data for name, data in (self._found.get("data") or {}).items() if name not in FILES}
        # The type requires these two, even if they are empty.
        ours = {CERTIFICATE: b"", KEY: b"", **files}
        request = ours.pop(ROTATE, b"").decode()
        data = {**others, **{name: base64.b64encode(content).decode() for name, content in ours.items()}}
        annotations = {**annotations_of(self._found), labels.ROTATE: request or None}
        kept = {name: value for name, value in annotations.items() if value is not None}
        changed = {**self._found, "metadata": {**self._found["metadata"], "annotations": kept}, "data": data}
        return await self._remember(self._object.replace(changed), keep=True)

    async def changed(self) -> None:
        """Return when the watch has received another version than the one last read or written."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if next(iter(self.reflector.objects.values()), _ABSENT) != self._version:
                return

    async def _create(self) -> bool:
        """Apply an empty Secret; False if there is one with content."""
        owner = await self._answer(owner_reference(self.api, self.owner))
        empty = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self.name, **({} if owner is None else {"ownerReferences": [owner]})},
            "type": TYPE,
            "data": {CERTIFICATE: "", KEY: ""},
        }
        made = await self._remember(self._object.create(empty), keep=True)
        return made and not any((self._found.get("data") or {}).values())

    async def _remember(self, request: Awaitable[Object | None], *, keep: bool = False) -> bool:
        """Remember the Secret in an answer, or that there is none (unless to `keep` it); return whether there is one."""
        found = await self._answer(request)
        if found is None and keep:
            return False
        try:
            self._version = _ABSENT if found is None else str(found["metadata"]["resourceVersion"])
        except (KeyError, TypeError):
            raise StoreError(self.place, "the API server's answer is not a Secret") from None
        self._found = found or {}
        return found is not None

    async def _answer(self, request: Awaitable[T]) -> T:
        try:
            return await request
        except StatusError as error:
            raise StoreError(self.place, _why(error)) from None
        except ApiError as error:
            raise StoreError(self.place, str(error)) from error


def _why(error: StatusError) -> str:
    if error.status in _ABOUT_CONTENT:
        return f"{error.status} {error.reason}"
    if error.status == HTTPStatus.FORBIDDEN:
        return f"{error}; a Role has to permit {VERBS} for this name"
    return str(error)
