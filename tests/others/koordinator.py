"""Koordinator's mutating webhook of pods, as far as it is about devices and the scheduler.

Held against koordinator-sh/koordinator a7a1b76b, pkg/webhook/pod/mutating: mutating_handler.go (`handleCreate`),
device_resource_spec.go and, for what a ClusterColocationProfile brings, cluster_colocation_profile.go
(`doMutateByColocationProfile`). Containers that initialise are not looked at.
"""

from .pod import Json, encoded, limits, number, requests, text

NAMES = tuple(f"koordinator.sh/{name}" for name in ("gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio", "gpu.shared"))


def koordinator(pod: Json, *, profile: bool = False) -> Json:
    """`mutateByDeviceResources`: a percentage of devices becomes cores and memory; the number of devices is written.

    Args:
        pod: the pod.
        profile: whether a ClusterColocationProfile with Koordinator's scheduler and a class of service selects it.
    """
    made = encoded(pod)
    if profile:
        made["spec"]["schedulerName"] = "koord-scheduler"
        made["metadata"].setdefault("labels", {}).update({"koordinator.sh/qosClass": "LS"})
        made["metadata"]["labels"]["koordinator.sh/priority"] = "1000"
    for container in made["spec"]["containers"]:
        resources = container["resources"]
        if not any(name in resources.get(side, {}) for name in NAMES for side in ("requests", "limits")):
            continue
        shared = "koordinator.sh/gpu.shared" in requests(container)
        if "koordinator.sh/gpu" in requests(container):
            _spread(container)
        if not shared:
            _counted(container)
    return made


def _spread(container: Json) -> None:
    """`injectGPU`."""
    amount = requests(container)["koordinator.sh/gpu"]
    for side in (requests(container), limits(container)):
        side["koordinator.sh/gpu-core"] = side["koordinator.sh/gpu-memory-ratio"] = amount
        side.pop("koordinator.sh/gpu", None)


def _counted(container: Json) -> None:
    """`injectGPUShare`: hundreds of the ratio are devices, or else of the cores; one device otherwise."""
    ratio = number(requests(container), "koordinator.sh/gpu-memory-ratio")
    percent = ratio if ratio is not None else number(requests(container), "koordinator.sh/gpu-core") or 0
    cards = percent // 100 if percent > 100 and percent % 100 == 0 else 1
    for side in (requests(container), limits(container)):
        side["koordinator.sh/gpu.shared"] = text(cards)
