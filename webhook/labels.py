"""The labels and annotations of the webhook on namespaces, pods, ConfigMaps, webhook configurations and the Secret.

They are the API for users. `KEYS` describes them; no other module spells such a name.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

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
DEFAULT_DEVICES: Final = f"{DEFAULT_PREFIX}devices"
DEFAULT_MEMORY: Final = f"{DEFAULT_PREFIX}memory"
DEFAULT_CORES: Final = f"{DEFAULT_PREFIX}cores"
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
PATHS: Final = f"{PREFIX}paths"
CLAIM: Final = f"{PREFIX}claim"
ROTATE: Final = f"{PREFIX}rotate"

SETTINGS_NAME: Final = "vgpu-webhook-settings"
"""The name of the ConfigMap with the settings, which has no label."""

Place: TypeAlias = Literal["label", "annotation"]
ObjectKind: TypeAlias = Literal["namespace", "pod", "ConfigMap", "webhook configuration", "replica", "Secret"]


@dataclass(frozen=True, slots=True)
class OwnKey:
    """One label or annotation.

    Attributes:
        name: the name with its prefix.
        place: label or annotation.
        kind: the kind of objects that carry it.
        values: the allowed values, or in <> a description of them.
        purpose: a noun phrase or sentence, without a period.
    """

    name: str
    place: Place
    kind: ObjectKind
    values: tuple[str, ...]
    purpose: str


KEYS: Final = (
    OwnKey(INJECT, "label", "namespace", (ENABLED, DISABLED), "opts the namespace in; `optInLabel` renames it"),
    OwnKey(OPT_OUT, "label", "namespace", (FORBIDDEN,), "its pods cannot opt out"),
    OwnKey(MODE, "label", "namespace", ("enforce", "warn", "audit"), "what becomes of its pods"),
    OwnKey(ROLLOUT, "label", "namespace", ("<0 to 100>",), "percentage of workloads for which `enforce` holds"),
    OwnKey(TARGET, "annotation", "namespace", ("<vendor>",), "the vendor in whose keys requests are written"),
    OwnKey(DEFAULT_DEVICES, "annotation", "namespace", ("<1 and more>",), "devices of a request without a number"),
    OwnKey(
        DEFAULT_MEMORY, "annotation", "namespace", ("<quantity>", "<percent>", "all"), "memory per device, likewise"
    ),
    OwnKey(DEFAULT_CORES, "annotation", "namespace", ("<0 to 100>",), "percentage of each device's cores, likewise"),
    OwnKey(BARE_DEVICES, "annotation", "namespace", ("whole", "share"), "what a count of devices alone requests"),
    OwnKey(
        SHIM,
        "annotation",
        "namespace",
        ("hostPath", "image", "emptyDir", "csi", "none"),
        "how the shim gets in, whatever Pod Security permits",
    ),
    OwnKey(GUARD, "annotation", "namespace", ("deny", "strip", "allow", "audit"), "what becomes of what lifts a limit"),
    OwnKey(INJECT, "label", "pod", (DISABLED,), "opts the pod out, where its namespace permits that"),
    OwnKey(TARGET, "annotation", "pod", ("<vendor>",), "beats the namespace's"),
    OwnKey(
        STATUS,
        "annotation",
        "pod",
        ("<JSON>",),
        "what was read and written; written by the webhook, which reads only `hidden` and `claim`",
    ),
    OwnKey(
        SUMMARY,
        "annotation",
        "pod",
        ("<text>",),
        "a line for each changed container; written by the webhook, never read",
    ),
    OwnKey(
        CHANGED,
        "label",
        "pod",
        ("translated", "filled", "completed", "hidden"),
        "that the webhook changed it, and the most that it did; written by the webhook, never read",
    ),
    OwnKey(CLAIM, "label", "pod", ("true",), "that it has claims of the webhook's; written by it, never read"),
    OwnKey(MAPPING, "label", "ConfigMap", ("true",), "holds a mapping document"),
    OwnKey(
        WRITTEN_BY, "annotation", "webhook configuration", ("<version and digest>",), "who wrote it, by which policy"
    ),
    OwnKey(
        MATCHED_NAMES,
        "annotation",
        "webhook configuration",
        ("<JSON>",),
        "the names that its match conditions are made from",
    ),
    OwnKey(KEEP_SELECTORS, "annotation", "webhook configuration", ("true",), "keeps the selectors of others"),
    OwnKey(PATHS, "annotation", "replica", ("<paths>",), "what its version serves; written by the chart"),
    OwnKey(
        ROTATE, "annotation", "Secret", ("certificate", "ca"), "requests a new one, as `vgpu-webhook certs rotate` does"
    ),
)
"""One entry for each name and kind of object."""


def keys_of(kind: ObjectKind, place: Place) -> tuple[str, ...]:
    """Return the names that the webhook reads or writes on a kind of object."""
    return tuple(key.name for key in KEYS if (key.kind, key.place) == (kind, place))
