"""The ConfigMaps that make up a policy, and the verdict on each: for metrics, log lines, Events, the readiness page."""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from webhook import labels
from webhook.cluster.client import ObjectMetadata
from webhook.labels import MAPPING
from webhook.mapping.document.problem import Problem
from webhook.mapping.document.schema import API_VERSION

MAPPING_KEY: Final = "mapping.yaml"
SETTINGS_KEY: Final = "settings.yaml"
SETTINGS_NAME: Final = labels.SETTINGS_NAME
LAST_GOOD_NAME: Final = "vgpu-webhook-last-good"
"""The ConfigMap that stores accepted documents."""

NO_SETTINGS: Final = (
    f"there is no ConfigMap {SETTINGS_NAME}, so there is no target, and a count alone requests whole devices"
)

SELECTORS: Final = (
    {"labelSelector": f"{MAPPING}=true"},
    {"fieldSelector": f"metadata.name={SETTINGS_NAME}"},
    {"fieldSelector": f"metadata.name={LAST_GOOD_NAME}"},
)
"""One watch for each, so that other ConfigMaps of the namespace are never sent."""


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """A ConfigMap, with the fields that are used.

    Attributes:
        created: its creation time, RFC 3339 in UTC and full seconds, so that texts sort by time.
        version: its resourceVersion, opaque.
    """

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


class StoredConfigMap(msgspec.Struct):
    """A ConfigMap as the API server sends it."""

    metadata: ObjectMetadata
    data: dict[str, str] | None = None


def config_map(stored: StoredConfigMap) -> ConfigMap:
    """Convert a ConfigMap of the API server."""
    metadata = stored.metadata
    return ConfigMap(
        name=metadata.name,
        data=stored.data or {},
        labels=metadata.labels or {},
        uid=metadata.uid,
        created=metadata.creation_timestamp,
        version=metadata.resource_version,
    )


decode_stored: Final = msgspec.json.Decoder(StoredConfigMap).decode
"""Decodes a ConfigMap from its JSON; raises `msgspec.DecodeError`."""


DocumentKind: TypeAlias = Literal["mapping", "settings"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on the document in a ConfigMap.

    Attributes:
        config_map: the ConfigMap.
        kind: the kind of document that it should contain.
        vendor: the vendor that it describes, if that can be read.
        problems: why its document is not in force; empty if it is.
        instead: what is in force instead, as the end of a sentence; empty if the document itself is.
    """

    config_map: ConfigMap
    kind: DocumentKind
    vendor: str | None
    problems: tuple[Problem, ...] = ()
    instead: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the document is in force."""
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


@dataclass(frozen=True, slots=True)
class PolicyFaults:
    """What is wrong beside the documents in ConfigMaps, for metrics.

    Attributes:
        left_out: the number of documents in force that the record of last good documents has no space for.
        invalid: the documents in that record that are invalid, while a replica remembers a valid one.
        not_compiled: a bug keeps changed ConfigMaps from being compiled.
    """

    left_out: int = 0
    invalid: frozenset[str] = frozenset()
    not_compiled: bool = False
