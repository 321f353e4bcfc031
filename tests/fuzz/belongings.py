"""Names that only one system knows, from its own documentation, and pods that carry them."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.fuzz.draw import Draw
from tests.fuzz.environment import TABLES

Json = dict[str, Any]

NAMES: Mapping[str, Sequence[str]] = TABLES["belong"]
"""By vendor, with ``*`` for any text, and ``key=value`` for one value of a node's label or taint."""
PLACED = {
    "nvidia": ("p.example.com/selector=1", "p.example.com/label", "p.example.com/annotation", "gpu"),
    "aliyun": ("p.example.com/label", "gpu"),
}
"""What the policy with everything placed adds to them."""
_PICKS = (
    *(name.replace("*", "x") for names in NAMES.values() for name in names),
    *("gpu=true", "gpu", "volcano.sh/queue", "scheduling.volcano", "example.com/pool=a", "p.example.com/selector=1"),
)


def belong(draw: Draw, pod: Json) -> None:
    """Add names of systems to one pod of five."""
    if not draw.chance(0.2):
        return
    metadata, spec = pod["metadata"], pod["spec"]
    for _ in range(draw.pick((1, 1, 2, 4))):
        key, _, value = draw.pick(_PICKS).partition("=")
        value = value or "x"
        kind = draw.pick(("labels", "annotations", "nodeSelector", "affinity", "preference", "tolerations", "gates"))
        expression = {"key": key, "operator": draw.pick(("In", "In", "Exists", "NotIn")), "values": ["a", value]}
        if kind in {"labels", "annotations"}:
            metadata[kind] = {**(metadata.get(kind) or {}), key: value}
        elif kind == "nodeSelector":
            spec[kind] = {**(spec.get(kind) or {}), key: value}
        elif kind == "affinity":
            terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        elif kind == "preference":
            preferred = [{"weight": 1, "preference": {"matchExpressions": [expression]}}]
            spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        elif kind == "tolerations":
            spec[kind] = [*(spec.get(kind) or []), {"key": key, "operator": "Equal", "value": value}]
        else:
            spec["schedulingGates"] = [{"name": key}]
