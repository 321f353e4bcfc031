"""Misspelled labels and annotations: of the webhook, on pods and namespaces, and of systems, on pods."""

import os.path
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
SYSTEMS = (
    *("tensor-fusion.ai/vram-limit", "tensor-fusion.ai/compute-percent-limit", "tensor-fusion.ai/inject-container"),
    *("aliyun.com/gpu-count", "huawei.com/vnpu-mode", "vke.volcengine.com/container-multiple-gpu"),
    *("gpu-fraction-num-devices", "gpu-memory"),
)
"""Labels and annotations that systems read."""
VALUES = ("enabled", "disabled", "warn", "audit", "forbidden", "nvidia", "aliyun", "none", "allow", "0", "1", "4Gi", "")


def misspell(draw: Draw, labels: dict[str, str], annotations: dict[str, str], metadata: dict[str, Any]) -> None:
    """Add misspelled keys to one pod of twenty, of a system to one of forty, and to the namespace of one of forty.

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
    if draw.chance(0.025):
        place = draw.pick(("labels", "annotations"))
        metadata[place] = {**(metadata.get(place) or {}), misspelled_key_of_a_system(draw): draw.pick(VALUES)}


def misspelled_in(carried: Mapping[str, str] | None) -> list[str]:
    """The misspelled keys among the labels or annotations of an object."""
    return [key for key in carried or {} if key.startswith(PREFIX) and not _known(key.removeprefix(PREFIX))]


def _known(name: str) -> bool:
    parts = name.split(".")
    return name in NAMES or (len(parts) > 2 and parts[0] == "container" and parts[-1] in PARTS)


def misspelled_key(draw: Draw) -> str:
    """A key with one letter too few, too many, or wrong."""
    before, name = ("container.c0.", draw.pick(PARTS)) if draw.chance(0.2) else ("", draw.pick(NAMES))
    return f"{PREFIX}{before}{_one_letter_away(draw, name)}"


def misspelled_key_of_a_system(draw: Draw) -> str:
    """A key with one letter too few, too many, or wrong, after its domain."""
    domain, slash, name = draw.pick(SYSTEMS).rpartition("/")
    return f"{domain}{slash}{_one_letter_away(draw, name)}"


def nearly_read(carried: Mapping[str, str] | None) -> list[str]:
    """The keys among labels or annotations that are misspelled ones of a system."""
    return [key for key in carried or {} if key not in SYSTEMS and any(_one_letter(key, known) for known in SYSTEMS)]


def _one_letter(key: str, known: str) -> bool:
    """Whether one letter is too few, too many, or wrong: what both begin and end with is all but a letter."""
    same = len(os.path.commonprefix([key, known]))  # noqa: RUF071  (letters are meant)
    return any(key[same + more :] == known[same + less :] for more, less in ((0, 1), (1, 0), (1, 1)))


def _one_letter_away(draw: Draw, name: str) -> str:
    at = draw.whole(0, len(name) - 1)
    return f"{name[:at]}{draw.pick(('', 'x', name[at] * 2))}{name[at + 1 :]}"
