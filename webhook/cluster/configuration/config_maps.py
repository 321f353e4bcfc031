"""The ConfigMaps that make up a policy: their names, and the fields that are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from webhook.cluster.client.metadata import ObjectMetadata
from webhook.labels import MAPPING

MAPPING_KEY: Final = "mapping.yaml"
SETTINGS_KEY: Final = "settings.yaml"
SETTINGS_NAME: Final = "vgpu-webhook-settings"
LAST_GOOD_NAME: Final = "vgpu-webhook-last-good"
"""The ConfigMap that stores accepted documents."""


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


class Stored(msgspec.Struct):
    """A ConfigMap as the API server sends it."""

    metadata: ObjectMetadata
    data: dict[str, str] | None = None


def config_map(stored: Stored) -> ConfigMap:
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


def document_key(name: str) -> str:
    """The data key of the document in the ConfigMap of that name."""
    return SETTINGS_KEY if name == SETTINGS_NAME else MAPPING_KEY


decode_stored: Final = msgspec.json.Decoder(Stored).decode
"""Decodes a ConfigMap from its JSON; raises `msgspec.DecodeError`."""
