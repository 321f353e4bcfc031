"""Names that only one system knows, from its own documentation, and pods that carry them."""

from collections.abc import Mapping
from typing import Any

from tests.fuzz.draw import Draw

Json = dict[str, Any]

_VOLCANO = (
    *("scheduling.volcano.sh/*", "scheduling.k8s.io/group-name", "volcano.sh/queue-name", "volcano.sh/nodegroup-name"),
    *("volcano.sh/preemptable", "volcano.sh/revocable-zone", "volcano.sh/jdb-*", "volcano.sh/cooldown-time"),
    *("volcano.sh/numa-topology-policy", "volcano.sh/sla-waiting-time"),
)
_KAI = ("kai.scheduler/queue", "kai.scheduler/node-pool", "kai.scheduler/subgroup-name", "runai/queue")
_GANGS = ("gang.scheduling.koordinator.sh/*", "pod-group.scheduling.sigs.k8s.io/*")
NAMES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("volcano", "volcano-legacy", "cce", "baidu"), _VOLCANO),
    **dict.fromkeys(("kai", "nvfractions"), _KAI),
    "koordinator": (
        *_GANGS,
        *("quota.scheduling.koordinator.sh/*", "koordinator.sh/gpu-isolation-provider", "node.koordinator.sh/gpu-*"),
    ),
    "aliyun": ("ack.node.gpu.schedule", *_GANGS),
    "gpushare": ("gpushare=true",),
    "nvidia": ("gpu=on",),
    "hygon": ("dcu=on",),
    "ascend": ("ascend=on",),
    "qgpu": ("qgpu-device-enable", "tke.cloud.tencent.com/qgpu-schedule-policy"),
    "vcuda": ("nvidia-device-enable=enable",),
    "vke": ("vke.node.gpu.schedule",),
    "vgpu-manager": ("vgpu-manager-enable=enable",),
    "tensor-fusion": ("tensor-fusion.ai/enabled",),
}
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
