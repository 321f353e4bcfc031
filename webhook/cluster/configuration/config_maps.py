"""The ConfigMaps that a policy is made of: which they are, and what is read of them."""

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
"""The ConfigMap in which accepted documents are kept."""


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """What is read of a ConfigMap.

    Attributes:
        created: when, in UTC to the second, as RFC 3339 spells it: sorts by time.
        version: its resourceVersion, opaque.
    """

    name: str
    data: Mapping[str, str]
    labels: Mapping[str, str]
    uid: str = ""
    created: str = ""
    version: str = ""

    @property
    def holds_mapping(self) -> bool:
        """Whether it says that it describes a vendor."""
        return self.labels.get(MAPPING) == "true" and self.name not in {SETTINGS_NAME, LAST_GOOD_NAME}


class Stored(msgspec.Struct):
    """A ConfigMap as the API server sends it."""

    metadata: ObjectMetadata
    data: dict[str, str] | None = None


def config_map(stored: Stored) -> ConfigMap:
    """What is kept of a ConfigMap."""
    metadata = stored.metadata
    return ConfigMap(
        name=metadata.name,
        data=stored.data or {},
        labels=metadata.labels or {},
        uid=metadata.uid,
        created=metadata.creation_timestamp,
        version=metadata.resource_version,
    )


decode_stored: Final = msgspec.json.Decoder(Stored).decode
"""A ConfigMap from its JSON; raises `msgspec.DecodeError`."""
