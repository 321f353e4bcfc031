"""The documents that were accepted last, stored in a ConfigMap (the record) for replicas that start.

Every replica writes what it has accepted, against the version that it has read; if nothing differs, nothing is written.
For a ConfigMap whose current document is invalid, the stored text takes precedence over a replica's memory, so that all
replicas agree.

ConfigMaps that vanished without being deleted on purpose: together with the record, as all do with their namespace.

A user who deletes a single ConfigMap wants its document to be no longer in force. A namespace that is lost says nothing
about the policy: the documents stay in force in the running replicas until a ConfigMap of that name is created.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

import msgspec

from webhook.cluster.client.api import (
    Api,
    ApiError,
    Object,
    StatusError,
    UnreachableError,
    apply_bare,
    owner_reference,
    replace_object,
)
from webhook.cluster.configuration.config_maps import (
    LAST_GOOD_NAME,
    SETTINGS_NAME,
    ConfigMap,
    config_map,
    decode_stored,
    document_key,
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
            UnreachableError: there is no answer, or none that can be decoded.
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
            UnreachableError: there is no answer, or none that can be decoded.
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
    try:
        return record_of(config_map(decode_stored(body)))
    except msgspec.DecodeError as error:
        raise UnreachableError(f"configmap/{LAST_GOOD_NAME}: {error}") from error


TOGETHER: Final = 5.0
"""Seconds within which the deletions of the record and of another ConfigMap count as one event."""

DELAY: Final = 1.0
"""Seconds to wait after a deletion for others that may follow."""

_UNKNOWN: Final = {HTTPStatus.FORBIDDEN, HTTPStatus.UNAUTHORIZED}
"""Statuses that reveal nothing about the object, and that a retry would not change."""


class VanishedConfigMaps:
    """The ConfigMaps that vanished from one namespace, and stay in force.

    Args:
        api: the API server.
        namespace: the namespace of the ConfigMaps.
        report: called with the names of all of them, whenever they change.
        clock: monotonic seconds.
        delay: `DELAY`, for tests.

    Attributes:
        config_maps: all of them by name, each with the document that was accepted last.
        undecided: whether the API server's answers did not allow a decision; call `completed` again.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        report: Callable[[Collection[str]], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        delay: float = DELAY,
    ) -> None:
        self.config_maps: Mapping[str, ConfigMap] = {}
        self.undecided = False
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{LAST_GOOD_NAME}"
        self._report = report
        self._clock = clock
        self._delay = delay
        self._present: Mapping[str, ConfigMap] = {}
        self._record_uid = ""
        self._record_ended: float | None = None
        self._gone_since: float | None = None

    def record(self, stored: ConfigMap | None) -> None:
        """Note the current record; None if there is none."""
        uid = "" if stored is None else stored.uid
        if self._record_uid and uid != self._record_uid:
            self._record_ended = self._clock()
        self._record_uid = uid

    async def completed(
        self, present: Callable[[], Sequence[ConfigMap]], accepted: Mapping[str, str]
    ) -> list[ConfigMap]:
        """The current ConfigMaps, and the vanished ones with their last good documents.

        Args:
            present: returns the current ConfigMaps.
            accepted: the texts that were accepted last, by name.
        """
        current = _by_name(present())
        if self._present.keys() - current.keys():
            await asyncio.sleep(self._delay)
            current = _by_name(present())
        gone = {
            name: replace(config_map, data={document_key(name): accepted[name]})
            for name, config_map in self._present.items()
            if name not in current and name in accepted
        }
        kept = {
            name: config_map
            for name, config_map in self.config_maps.items()
            if name not in current and name not in gone
        }
        before, self.undecided = self.config_maps.keys(), False
        if gone:
            self._gone_since = self._gone_since or self._clock()
            if not await self._deleted_on_purpose(self._gone_since):
                kept |= gone
        # What is not decided yet stays known, to be decided later.
        self._present = {**gone, **current} if self.undecided else current
        self._gone_since = self._gone_since if self.undecided else None
        self.config_maps = kept
        if before != kept.keys():
            self._report(sorted(kept))
        return [*current.values(), *kept.values()]

    async def _deleted_on_purpose(self, since: float) -> bool:
        """Whether the record is still there; it is read, because its watch may be late."""
        try:
            answer = await self._api.request("GET", self._path)
            if answer.status not in _UNKNOWN:
                missing = answer.status == HTTPStatus.NOT_FOUND
                self.record(None if missing else config_map(decode_stored(answer.accepted())))
        except (ApiError, msgspec.DecodeError):
            self.undecided = True
            return False
        return self._record_ended is None or since - self._record_ended > TOGETHER


def _by_name(config_maps: Sequence[ConfigMap]) -> dict[str, ConfigMap]:
    return {config_map.name: config_map for config_map in config_maps if config_map.name != LAST_GOOD_NAME}
