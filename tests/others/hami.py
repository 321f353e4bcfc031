"""HAMi's mutating webhook: every container is shown to every kind of device that its configuration has.

Held against Project-HAMi/HAMi 4707fb02: pkg/scheduler/webhook.go (`Handle`), `MutateAdmission` of each package in pkg/device,
names and numbers from charts/hami/templates/scheduler/device-configmap.yaml and charts/hami/values.yaml. Its quota check is
left out: it changes nothing. hygon, cambricon, biren, vastai, amd, kunlun (whole) and metax (whole) only look for their count.
"""

from dataclasses import dataclass

from .hami_devices import ascend, ascend_hidden, enflame, found_only, iluvatar, kunlun, metax, mthreads, neuron
from .pod import DeniedThereError, Json, append_env, containers, encoded, limits, number

SCHEDULER = "hami-scheduler"
ASKED_IN_LIMITS = (
    "cambricon.com/vmlu",
    "hygon.com/dcunum",
    "metax-tech.com/gpu",
    "kunlunxin.com/xpu",
    "vastaitech.com/va",
    "birentech.com/gpu",
    "amd.com/gpu",
    "amd.com/gpumem",
    "amd.com/gpucores",
)
"""Names of which one is enough for a pod of HAMi's, without a change to the container."""


@dataclass(frozen=True, slots=True)
class Configured:
    """What HAMi's administrator chose; as its chart has it.

    Attributes:
        core_policy: `devices.nvidia.gpuCorePolicy`.
        overwrite_env: `scheduler.overwriteEnv`.
        runtime_class: `devicePlugin.runtimeClassName` and `devices.ascend.runtimeClassName`.
    """

    core_policy: str = "default"
    overwrite_env: bool = False
    runtime_class: str = ""


def hami(pod: Json, configured: Configured = Configured()) -> Json:
    """`Handle`: pods of another scheduler, and those with its label, stay; a pod with a device gets HAMi's scheduler.

    Raises:
        DeniedThereError: a number that a kind of device does not take, a privileged container or a node's name.
    """
    if pod["metadata"].get("labels", {}).get("hami.io/webhook") == "ignore":
        return pod
    if pod["spec"].get("schedulerName", "default-scheduler") not in ("", "default-scheduler", SCHEDULER):
        return pod
    made = encoded(pod)
    # A list, not a generator in any(): each kind of device sees each container.
    found = [shown(container, made, configured) for container in containers(made)]
    if any(found):
        if any(container.get("securityContext", {}).get("privileged") for container in containers(made)):
            raise DeniedThereError("container is privileged")
        if made["spec"].get("nodeName"):
            raise DeniedThereError("pod has node assigned")
        made["spec"]["schedulerName"] = SCHEDULER
    return made


def shown(container: Json, pod: Json, configured: Configured) -> bool:
    """Every kind of device; whether one of them is requested."""
    if configured.overwrite_env:
        ascend_hidden(container)
    return any(
        [
            nvidia(container, pod, configured),
            ascend(container, pod, configured.runtime_class),
            enflame(container),
            iluvatar(container),
            kunlun(container),
            metax(container, pod),
            mthreads(container, pod),
            neuron(container),
            found_only(container, ASKED_IN_LIMITS),
        ]
    )


def nvidia(container: Json, pod: Json, configured: Configured) -> bool:
    """pkg/device/nvidia/device.go: `MutateAdmission`, `mutateContainerResource`, `defaultExclusiveCoreIfNeeded`."""
    side = limits(container) if "limits" in container["resources"] else {}
    both = {**container["resources"].get("requests", {}), **side}
    percent = number(both, "nvidia.com/gpumem-percentage")
    if percent is not None and not 0 <= percent <= 100:
        raise DeniedThereError("invalid nvidia.com/gpumem-percentage")
    if (priority := number(side, "nvidia.com/priority")) is not None:
        append_env(container, "CUDA_TASK_PRIORITY", str(priority))
    if configured.core_policy not in ("", "default"):
        append_env(container, "GPU_CORE_UTILIZATION_POLICY", configured.core_policy)
    found = "nvidia.com/gpu" in side
    if not found and any(f"nvidia.com/{name}" in side for name in ("gpucores", "gpumem", "gpumem-percentage")):
        limits(container)["nvidia.com/gpu"] = "1"
        both["nvidia.com/gpu"] = "1"
        found = True
    whole = percent == 100 if percent is not None else "nvidia.com/gpumem" not in both
    if "nvidia.com/gpu" in both and "nvidia.com/gpucores" not in both and whole:
        limits(container)["nvidia.com/gpucores"] = "100"
        found = True
    if found and configured.runtime_class:
        pod["spec"].setdefault("runtimeClassName", configured.runtime_class)
    if not found and configured.overwrite_env:
        append_env(container, "NVIDIA_VISIBLE_DEVICES", "none")
    return found
