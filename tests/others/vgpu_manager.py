"""vgpu-manager's mutating webhook of pods.

Held against coldzerofear/vgpu-manager 3d7f66d: pkg/webhook/pod/mutate/pod_mutate.go (`MutateCreate`, `convertDRARequest`),
pkg/webhook/common (`ConvertDRAContainerRequest`), pkg/controller/reschedule/recovery.go (`CleanupMetadata`, which means to
remove annotations too, and does not), options as in charts/vgpu-manager/values.yaml.
"""

from .pod import Json, annotations, containers, encoded, limits, number

SCHEDULER = "vgpu-scheduler"
NUMBER, CORES, MEMORY = (f"nvidia.com/vgpu-{name}" for name in ("number", "cores", "memory"))
POLICIES = tuple(f"nvidia.com/{name}-scheduler-policy" for name in ("node", "device", "memory"))


def vgpu_manager(pod: Json, *, claims: bool = False, runtime_class: str = "") -> Json:
    """`MutateCreate`: a number beside memory or cores, all cores for a number alone, and where the pod is placed.

    Args:
        pod: the pod.
        claims: `--default-convert2-dra`: resources become claims.
        runtime_class: `--default-runtime-class`.
    """
    made = encoded(pod)
    most = max((_completed(container) for container in containers(made)), default=0)
    for label in ("nvidia.com/assigned-phase", "nvidia.com/metrics-node"):
        made["metadata"].get("labels", {}).pop(label, None)
    if not most:
        for policy in POLICIES:
            made["metadata"].get("annotations", {}).pop(policy, None)
        return made
    _placed(made, most, runtime_class)
    if claims:
        for container in containers(made):
            _claimed(made, container)
    return made


def _placed(pod: Json, most: int, runtime_class: str) -> None:
    spec = pod["spec"]
    if spec.get("schedulerName", "") in ("", "default-scheduler"):
        spec["schedulerName"] = SCHEDULER
    for policy in POLICIES[:2]:
        annotations(pod).setdefault(policy, "binpack")
    if runtime_class and not spec.get("runtimeClassName"):
        spec["runtimeClassName"] = runtime_class
    if most > 1:
        annotations(pod).setdefault("nvidia.com/device-topology-mode", "numa")
    if spec.get("nodeName"):
        spec.setdefault("nodeSelector", {})["kubernetes.io/hostname"] = spec.pop("nodeName")


def _completed(container: Json) -> int:
    side = container["resources"].get("limits", {})
    cards = number(side, NUMBER) or 0
    sized = bool(number(side, CORES) or number(side, MEMORY))
    if not cards and sized:
        cards = 1
        limits(container)[NUMBER] = "1"
    if cards and not sized:
        limits(container)[CORES] = "100"
    return cards


def _claimed(pod: Json, container: Json) -> None:
    resources = container["resources"]
    if not number(resources.get("limits", {}), NUMBER):
        return
    name = f"{pod['metadata'].get('name', 'pod')}-{container['name']}"
    resources.setdefault("claims", []).append({"name": name, "request": "vgpu"})
    for side in ("limits", "requests"):
        for key in (NUMBER, CORES, MEMORY):
            resources.get(side, {}).pop(key, None)
    pod["spec"].setdefault("resourceClaims", []).append({"name": name, "resourceClaimName": name})
    annotations(pod)["vgpu-manager.io/original-resources"] = "encoded"
