"""The documents that were accepted last, stored in a ConfigMap (the record) for replicas that start.

Every replica writes what it has accepted, against the version that it has read; if nothing differs, nothing is written.
For a ConfigMap whose current document is invalid, the stored text takes precedence over a replica's memory, so that all
replicas agree.
"""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from webhook.cluster.client import (
    Api,
    Object,
    StatusError,
    apply_bare,
    owner_reference,
    read_as,
    replace_object,
)
from webhook.cluster.configuration.config_maps import (
    LAST_GOOD_NAME,
    SETTINGS_NAME,
    ConfigMap,
    config_map,
    decode_stored,
)

MAX_DATA: Final = 1024 * 1024
"""The most bytes of data in a ConfigMap (``MaxSecretSize`` of the API server)."""

MARKS: Final = "_passed"
"""The data key of the marks of probes; no ConfigMap has an underscore in its name."""

ATTEMPTS: Final = 5
"""Writes of one change that may lose against other replicas: that many may start at once."""

KNOWN_VERSIONS: Final = 64
"""Versions written here that are remembered until the watch shows them, which takes a second."""


@dataclass(frozen=True, slots=True)
class Record:
    """The stored documents.

    Attributes:
        texts: documents by the name of their ConfigMap.
        marks: identify the probes that they have passed.
        version: the resourceVersion of the record; empty if there is none.
    """

    texts: Mapping[str, str]
    marks: frozenset[str] = frozenset()
    version: str = ""


NOTHING: Final = Record({})


def record_of(stored: ConfigMap) -> Record:
    """The record in a ConfigMap."""
    texts = {name: text for name, text in stored.data.items() if name != MARKS}
    return Record(texts, frozenset(stored.data.get(MARKS, "").split()), stored.version)


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
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{LAST_GOOD_NAME}"
        self._current: Record | None = None
        self._known: deque[str] = deque(maxlen=KNOWN_VERSIONS)

    async def read(self) -> Record:
        """Read the record.

        Raises:
            StatusError: the server answers with an error.
            UnreachableError: there is no answer.
            UnreadableError: there is none that can be decoded.
        """
        answer = await self._api.request("GET", self._path)
        return self._remember(NOTHING if answer.status == HTTPStatus.NOT_FOUND else _read(answer.accepted()))

    def seen(self, stored: ConfigMap | None) -> Record | None:
        """Take the record from a watch; None if this process has read or written it already."""
        if stored is None:
            self._current = NOTHING
            return NOTHING
        if stored.version in self._known:
            return None
        return self._remember(record_of(stored))

    async def write(self, accepted: Mapping[str, str], in_force: Collection[str], marks: frozenset[str]) -> Record:
        """Store documents if they are not stored yet, and return the whole record.

        Args:
            accepted: the last good texts, by the name of their ConfigMap, as far as this replica knows them.
            in_force: the names of those that are in force; of others, the stored text takes precedence.
            marks: identify the probes that were passed.

        Raises:
            StatusError: the server answers with an error, or other replicas changed the record before each write.
            UnreachableError: there is no answer.
            UnreadableError: there is none that can be decoded.
        """
        for _ in range(ATTEMPTS):
            current = self._current or await self.read()
            stored = {name: text for name, text in current.texts.items() if name in accepted and name not in in_force}
            texts = within_limit({**accepted, **stored})
            if texts == current.texts and marks <= current.marks:
                return current
            if not current.version:
                bare = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": LAST_GOOD_NAME}}
                self._remember(_read((await apply_bare(self._api, self._path, bare)).accepted()))
                continue
            owner = await owner_reference(self._api, self._owner)
            changed = self._object(Record(texts, marks, current.version), owner)
            answer = await replace_object(self._api, self._path, changed)
            if answer.status not in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
                return self._remember(_read(answer.accepted()))
            self._current = None
        raise StatusError(
            HTTPStatus.CONFLICT, "Conflict", f"other replicas changed {LAST_GOOD_NAME} {ATTEMPTS} times in a row"
        )

    def _remember(self, record: Record) -> Record:
        self._current = record
        self._known.append(record.version)
        return record

    def _object(self, record: Record, owner: Object | None) -> Object:
        metadata: Object = {
            "name": LAST_GOOD_NAME,
            "namespace": self._namespace,
            "labels": {"app.kubernetes.io/managed-by": "vgpu-webhook"},
            "resourceVersion": record.version,
        }
        if owner is not None:
            metadata["ownerReferences"] = [owner]
        data = dict(sorted(record.texts.items()))
        marks = "\n".join(sorted(record.marks))
        # Marks only save time, so they are stored only if there is space.
        if marks and sum(len(name) + len(text.encode()) for name, text in data.items()) + len(marks) < MAX_DATA:
            data[MARKS] = marks
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _read(body: bytes) -> Record:
    return record_of(config_map(read_as(f"configmap/{LAST_GOOD_NAME}", body, decode_stored)))
