"""The documents that were accepted last, stored in a ConfigMap (the record) for replicas that start.

Every replica writes what it has accepted, against the version that it has read; if nothing differs, nothing is written.
For a ConfigMap whose current document is invalid, the stored text takes precedence over a replica's memory, so that all
replicas agree.
"""

from collections import deque
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from webhook.cluster.client import Api, NamedObject, Object, StatusError, owner_reference
from webhook.cluster.policy.documents import LAST_GOOD_NAME, SETTINGS_NAME, ConfigMap

MAX_DATA: Final = 1024 * 1024
"""The most bytes of data in a ConfigMap (``MaxSecretSize`` of the API server)."""

ATTEMPTS: Final = 5
"""Writes of one change that may lose against other replicas: that many may start at once."""

KNOWN_VERSIONS: Final = 64
"""Versions written here that are remembered until the watch shows them, which takes a second."""


class Record(NamedTuple):
    """The stored documents by the name of their ConfigMap, and the resourceVersion; empty if there is no record."""

    texts: Mapping[str, str]
    version: str = ""


BARE: Final = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": LAST_GOOD_NAME}}
NOTHING: Final = Record({})


def within_limit(texts: Mapping[str, str]) -> dict[str, str]:
    """As many of the texts as a ConfigMap can contain: the settings first, then the smallest."""
    space, stored = MAX_DATA, {}
    for name, text in sorted(texts.items(), key=lambda item: (item[0] != SETTINGS_NAME, len(item[1]), item[0])):
        space -= len(name) + len(text.encode())
        if space < 0:
            break
        stored[name] = text
    return stored


class LastGood:
    """The record of one namespace; owned by the ClusterRole `owner`, if there is one."""

    def __init__(self, api: Api, namespace: str, owner: str | None = None) -> None:
        self._api = api
        self._owner = owner
        path = f"/api/v1/namespaces/{namespace}/configmaps/{LAST_GOOD_NAME}"
        self._object = NamedObject(api, path)
        self._current: Record | None = None
        self._known: deque[str] = deque(maxlen=KNOWN_VERSIONS)

    async def read(self) -> Record:
        """Read the record."""
        return self._remember(_record(await self._object.read()))

    def seen(self, stored: ConfigMap | None) -> Record | None:
        """Take the record from a watch; None if this process has read or written it already."""
        if stored is None:
            self._current = NOTHING
            return NOTHING
        return None if stored.version in self._known else self._remember(Record(stored.data, stored.version))

    async def write(self, accepted: Mapping[str, str], in_force: Collection[str]) -> Record:
        """Store the last good texts as far as this replica knows them, if they are not stored yet; return the whole record.

        Of ConfigMaps whose documents are not in force, the stored text takes precedence.
        """
        for _ in range(ATTEMPTS):
            current = self._current or await self.read()
            stored = {name: text for name, text in current.texts.items() if name in accepted and name not in in_force}
            texts = within_limit({**accepted, **stored})
            if texts == current.texts:
                return current
            if not current.version:
                made = await self._object.create(BARE)
                self._current = None if made is None else self._remember(_record(made))
                continue
            owner = await owner_reference(self._api, self._owner)
            metadata = {
                "name": LAST_GOOD_NAME,
                "labels": {"app.kubernetes.io/managed-by": "vgpu-webhook"},
                "resourceVersion": current.version,
                **({} if owner is None else {"ownerReferences": [owner]}),
            }
            changed = {**BARE, "metadata": metadata, "data": dict(sorted(texts.items()))}
            written = await self._object.replace(changed)
            if written is not None:
                return self._remember(_record(written))
            self._current = None
        why = f"other replicas changed {LAST_GOOD_NAME} {ATTEMPTS} times in a row"
        raise StatusError(HTTPStatus.CONFLICT, "Conflict", why)

    def _remember(self, record: Record) -> Record:
        self._current = record
        self._known.append(record.version)
        return record


def _record(stored: Object | None) -> Record:
    if stored is None:
        return NOTHING
    return Record(stored.get("data") or {}, str(stored["metadata"]["resourceVersion"]))
