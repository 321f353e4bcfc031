"""The labels and annotations of the webhook on namespaces, pods, ConfigMaps, webhook configurations and the Secret.

They are the API for users. `KEYS` describes them; no other module spells such a name.
"""

from importlib import resources
from typing import Final, Literal, TypeAlias

import msgspec

PREFIX: Final = "vgpu-webhook.io/"

INJECT: Final = f"{PREFIX}inject"
ENABLED: Final = "enabled"
DISABLED: Final = "disabled"
OPT_OUT: Final = f"{PREFIX}opt-out"
FORBIDDEN: Final = "forbidden"
MODE: Final = f"{PREFIX}mode"
ROLLOUT: Final = f"{PREFIX}rollout"
TARGET: Final = f"{PREFIX}target"
DEFAULT_PREFIX: Final = f"{PREFIX}default-"
BARE_DEVICES: Final = f"{PREFIX}bare-devices"
SHIM: Final = f"{PREFIX}shim"
GUARD: Final = f"{PREFIX}guard"
STATUS: Final = f"{PREFIX}status"
SUMMARY: Final = f"{PREFIX}summary"
CHANGED: Final = f"{PREFIX}changed"
MAPPING: Final = f"{PREFIX}mapping"
KEEP_SELECTORS: Final = f"{PREFIX}keep-selectors"
WRITTEN_BY: Final = f"{PREFIX}written-by"
MATCHED_NAMES: Final = f"{PREFIX}matched-names"
CLAIM: Final = f"{PREFIX}claim"
ROTATE: Final = f"{PREFIX}rotate"
SETTINGS_NAME: Final = "vgpu-webhook-settings"  # the name of the ConfigMap with the settings, which has no label
Place: TypeAlias = Literal["label", "annotation"]
ObjectKind: TypeAlias = Literal["namespace", "pod", "ConfigMap", "webhook configuration", "Secret"]


class OwnKey(msgspec.Struct, frozen=True):
    """One label or annotation, as ``labels.yaml`` describes it."""

    name: str  # with its prefix
    place: Place
    kind: ObjectKind  # of objects that carry it
    values: tuple[str, ...]  # the allowed values, or in <> a description of them
    purpose: str


KEYS: Final = msgspec.yaml.decode((resources.files("webhook") / "labels.yaml").read_bytes(), type=tuple[OwnKey, ...])


def keys_of(kind: ObjectKind, place: Place) -> tuple[str, ...]:
    """Return the names that the webhook reads or writes on a kind of object."""
    return tuple(key.name for key in KEYS if (key.kind, key.place) == (kind, place))
