"""Documents in ConfigMaps: which ConfigMaps count, what is read of each by itself, the verdict on it, and the record.

The record is a ConfigMap with the documents that were accepted last, for replicas that start. Every replica writes what it
has accepted, against the version that it has read; if nothing differs, nothing is written. For a ConfigMap whose current
document is invalid, the stored text takes precedence over a replica's memory, so that all replicas agree.
"""

import difflib
import re
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from webhook import labels
from webhook.cluster.client import Api, NamedObject, Object, ObjectMetadata, StatusError, owner_reference
from webhook.labels import MAPPING
from webhook.mapping.document import Document, MappingError, Problem, parse, problems_of
from webhook.mapping.load import Prepared, prepare, probed
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.settings import Settings
from webhook.mapping.strict import API_VERSION, EXTENDS, validated_part

MAPPING_KEY: Final = "mapping.yaml"
SETTINGS_KEY: Final = "settings.yaml"
SETTINGS_NAME: Final = labels.SETTINGS_NAME
LAST_GOOD_NAME: Final = "vgpu-webhook-last-good"
"""The ConfigMap that stores accepted documents."""

LAST_GOOD: Final = " (last good)"
"""The suffix of the source of a document that its ConfigMap no longer contains."""

NO_SETTINGS: Final = (
    f"there is no ConfigMap {SETTINGS_NAME}, so there is no target, and a count alone requests whole devices"
)

SELECTORS: Final = (
    {"labelSelector": f"{MAPPING}=true"},
    {"fieldSelector": f"metadata.name={SETTINGS_NAME}"},
    {"fieldSelector": f"metadata.name={LAST_GOOD_NAME}"},
)
"""One watch for each, so that other ConfigMaps of the namespace are never sent."""

DocumentProblems: TypeAlias = tuple[Problem, ...]
DocumentKind: TypeAlias = Literal["mapping", "settings"]

T = TypeVar("T")


class ConfigMap(Struct, frozen=True):
    """A ConfigMap, with the fields that are used; texts of `created` (RFC 3339, UTC) sort by time."""

    name: str
    data: Mapping[str, str]
    labels: Mapping[str, str]
    uid: str = ""
    created: str = ""
    version: str = ""

    @property
    def is_mapping(self) -> bool:
        """Whether its label marks it as a mapping."""
        return self.labels.get(MAPPING) == "true" and self.name not in {SETTINGS_NAME, LAST_GOOD_NAME}


class StoredConfigMap(msgspec.Struct):
    """A ConfigMap as the API server sends it."""

    metadata: ObjectMetadata
    data: dict[str, str] | None = None


def config_map(stored: StoredConfigMap) -> ConfigMap:
    """Convert a ConfigMap of the API server."""
    found = stored.metadata
    return ConfigMap(
        found.name, stored.data or {}, found.labels or {}, found.uid, found.creation_timestamp, found.resource_version
    )


def overlooked(candidate: ConfigMap) -> str | None:
    """Return what keeps a ConfigMap with a document out of the policy, and what to write; None if nothing does."""
    if candidate.name in {SETTINGS_NAME, LAST_GOOD_NAME} or candidate.is_mapping:
        return None
    (near, *_) = *difflib.get_close_matches(MAPPING, candidate.labels, n=1, cutoff=0.9), None
    if near is not None:
        written = f"the label {near}: {candidate.labels[near]!r} is not read"
    elif MAPPING_KEY in candidate.data:
        written = f"it has the key {MAPPING_KEY}, but not the label"
    elif SETTINGS_KEY in candidate.data:
        return f"it has the key {SETTINGS_KEY}, but another name: settings are in {SETTINGS_NAME}"
    else:
        return None
    return f'{written}: write {MAPPING}: "true"'


_VERSION: Final = re.compile(
    rf"""^apiVersion:[ ]*["']?({API_VERSION.partition("/")[0]}/v[0-9]+(?:(?:alpha|beta)[0-9]+)?)["']?[ ]*(?:#.*)?$""",
    re.MULTILINE,
)


def of_other_version(candidate: ConfigMap) -> bool:
    """Whether a document is in a version of the schema that this program does not know, such as the next one's."""
    return any(version != API_VERSION for text in candidate.data.values() for version in _VERSION.findall(text)[:1])


class ValidMapping(Struct, frozen=True, eq=False):
    """A mapping that is valid by itself: its source text, and what is compiled from it."""

    text: str
    prepared: Prepared

    @property
    def vendor(self) -> str:
        """The name of the vendor that it describes."""
        return self.prepared.vendor.name

    @property
    def source(self) -> str:
        """Where it comes from, for messages."""
        return self.prepared.vendor.source


class ValidSettings(Struct, frozen=True, eq=False):
    """A settings document that is valid by itself: its source text, the same parsed, with its lines, and its content."""

    text: str
    document: Document
    settings: Settings


class DocumentCache(Struct):
    """Remembers by text what was read and what its probes have found, so that a change costs only what has changed.

    What the last policy did not use is forgotten.
    """

    _before: dict[Hashable, Any] = {}
    _used: dict[Hashable, Any] = {}

    def mapping(self, text: str, source: str) -> ValidMapping | DocumentProblems:
        """Read a mapping, or return its problems if it is invalid."""
        return self._once((text, source), lambda: _mapping(text, source))

    def probe(self, mapping: ValidMapping, vendor: Vendor, most_memory: int) -> DocumentProblems:
        """Probe a mapping; `vendor` is its compiled form in a policy, where it may be inactive."""
        key = (mapping.text, vendor.inactive, most_memory)
        return self._once(key, lambda: probed(mapping.prepared, vendor, most_memory))

    def forget_unused(self) -> None:
        """Forget what the policy that was just compiled did not use."""
        self._before, self._used = self._used, {}

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._used:
            self._used[key] = self._before[key] if key in self._before else make()
        found: T = self._used[key]
        return found


def source_of(name: str, *, last_good: bool = False) -> str:
    """How messages name the document of a ConfigMap."""
    key = SETTINGS_KEY if name == SETTINGS_NAME else MAPPING_KEY
    return f"configmap/{name}/{key}{LAST_GOOD if last_good else ''}"


def read_mapping(written: ConfigMap, memo: DocumentCache) -> ValidMapping | DocumentProblems:
    """Read the mapping of a ConfigMap, or return its problems if it is invalid."""
    text = written.data.get(MAPPING_KEY)
    return _missing(written, MAPPING_KEY) if text is None else memo.mapping(text, source_of(written.name))


def read_settings(written: ConfigMap) -> tuple[ValidSettings | None, DocumentProblems]:
    """Read the settings of a ConfigMap; see `_settings`."""
    text = written.data.get(SETTINGS_KEY)
    return (None, _missing(written, SETTINGS_KEY)) if text is None else _settings(text, source_of(written.name))


def _settings(text: str, source: str) -> tuple[ValidSettings | None, DocumentProblems]:
    """Read a settings document: its valid part, None if nothing is certain, and its problems. An empty one sets nothing.

    The valid part of an invalid one has the defaults of the invalid keys. Nothing of a text is certain that is not one
    document, or one of another version.
    """
    try:
        with problems_of(source):
            document = _single(text, source) or Document(source, {}, {})
            settings, problems, _ = validated_part(Settings, document.data, document)
            unsure = any(problem.path[:1] in {(), ("apiVersion",), ("kind",)} for problem in problems)
            return None if settings is None or unsure else ValidSettings(text, document, settings), problems
    except MappingError as error:
        return None, error.problems


def settings_before(last_good: Mapping[str, str]) -> ValidSettings | None:
    """The settings that were accepted last; None if there were none, or they are no longer valid."""
    text = last_good.get(SETTINGS_NAME)
    if text is None:
        return None
    found, problems = _settings(text, source_of(SETTINGS_NAME, last_good=True))
    return None if problems else found


def vendor_named_in(text: str) -> str | None:
    """The vendor that a mapping, valid or not, describes; None if its name cannot be read."""
    try:
        (document,) = parse(text, "")
    except (MappingError, ValueError):  # not YAML, or not a single document
        return None
    name = document.data.get("vendor", document.data.get(EXTENDS))
    return name if isinstance(name, str) else None


def _mapping(text: str, source: str) -> ValidMapping | DocumentProblems:
    try:
        with problems_of(source):
            document = _single(text, source)
            if document is None:
                hint = "write a mapping, or delete the ConfigMap"
                return (Problem("the document is empty", hint=hint, source=source, line=1),)
            return ValidMapping(text, prepare(document))
    except MappingError as error:
        return error.problems


def _single(text: str, source: str) -> Document | None:
    """The document of a text; None if it is empty."""
    documents = parse(text, source)
    for second in documents[1:]:
        hint, line = "write one per ConfigMap", second.lines.get(())
        raise MappingError([Problem("contains more than one document", hint=hint, source=second.source, line=line)])
    return documents[0] if documents else None


def _missing(written: ConfigMap, key: str) -> DocumentProblems:
    keys = f"its keys: {', '.join(sorted(written.data))}" if written.data else "it is empty"
    return (Problem(f"the data has no key {key}", hint=keys, source=f"configmap/{written.name}"),)


def invalid_in(stored: Mapping[str, str], remembered: Mapping[str, str], memo: DocumentCache) -> frozenset[str]:
    """The ConfigMaps whose stored text is invalid, while the remembered one is valid.

    The record was changed by hand or by a newer version: the remembered text stays in force.
    """

    def is_valid(name: str, text: str) -> bool:
        if name == SETTINGS_NAME:
            return settings_before({name: text}) is not None
        return isinstance(memo.mapping(text, source_of(name, last_good=True)), ValidMapping)

    others = {name: text for name, text in stored.items() if remembered.get(name, text) != text}
    return frozenset(
        name for name, text in others.items() if not is_valid(name, text) and is_valid(name, remembered[name])
    )


class Verdict(Struct, frozen=True):
    """The verdict on the document in a ConfigMap: the vendor that it describes, as far as known, and why it is not in force.

    `instead` is what is in force then, as the end of a sentence.
    """

    config_map: ConfigMap
    vendor: str | None = None
    problems: DocumentProblems = ()
    instead: str = ""

    @property
    def kind(self) -> DocumentKind:
        """The kind of document that it should contain."""
        return "settings" if self.config_map.name == SETTINGS_NAME else "mapping"

    @property
    def accepted(self) -> bool:
        return not self.problems

    @property
    def name(self) -> str:
        """The ConfigMap, as ``kubectl`` names it."""
        return f"configmap/{self.config_map.name}"

    def lines(self) -> Iterator[str]:
        """The verdict as text: the ConfigMap and what is in force, then a line for each problem."""
        if self.accepted:
            yield f"{self.name}: in force" + (f": {self.vendor}" if self.vendor else "")
            return
        yield f"{self.name}: rejected; in force: {self.instead}"
        yield from (f"  {problem}" for problem in self.problems)


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
