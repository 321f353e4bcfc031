"""Misspelled labels and annotations of the webhook, on pods and namespaces."""

from collections.abc import Mapping
from typing import Any

from tests.fuzz.draw import Draw

PREFIX = "vgpu-webhook.io/"
NAMES = (
    *("inject", "opt-out", "mode", "rollout", "target", "shim", "guard", "status", "summary", "changed"),
    *("default-devices", "default-memory", "default-cores", "bare-devices"),
)
"""The names of the webhook's own keys."""
PARTS = ("devices", "memory", "cores", "profile")
"""The last parts of neutral keys, ``container.<name>.<part>``."""
VALUES = ("enabled", "disabled", "warn", "audit", "forbidden", "nvidia", "aliyun", "none", "allow", "0", "1", "4Gi", "")


def misspell(draw: Draw, labels: dict[str, str], annotations: dict[str, str], metadata: dict[str, Any]) -> None:
    """Add misspelled keys to one pod of twenty, and to the namespace of one of forty.

    Args:
        draw: the choices.
        labels: of the namespace.
        annotations: of the namespace.
        metadata: of the pod.
    """
    if draw.chance(0.05):
        for _ in range(draw.pick((1, 1, 2))):
            place = draw.pick(("labels", "annotations"))
            metadata[place] = {**(metadata.get(place) or {}), misspelled_key(draw): draw.pick(VALUES)}
    if draw.chance(0.025):
        draw.pick((labels, annotations))[misspelled_key(draw)] = draw.pick(VALUES)


def misspelled_in(carried: Mapping[str, str] | None) -> list[str]:
    """The misspelled keys among the labels or annotations of an object."""
    return [key for key in carried or {} if key.startswith(PREFIX) and not _known(key.removeprefix(PREFIX))]


def _known(name: str) -> bool:
    parts = name.split(".")
    return name in NAMES or (len(parts) > 2 and parts[0] == "container" and parts[-1] in PARTS)


def misspelled_key(draw: Draw) -> str:
    """A key with one letter too few, too many, or wrong."""
    before, name = ("container.c0.", draw.pick(PARTS)) if draw.chance(0.2) else ("", draw.pick(NAMES))
    at = draw.whole(0, len(name) - 1)
    return f"{PREFIX}{before}{name[:at]}{draw.pick(('', 'x', name[at] * 2))}{name[at + 1 :]}"
