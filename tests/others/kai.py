"""KAI scheduler's mutating webhook, in the mode of GPU sharing by a ConfigMap and in that of NvFractions.

Held against kai-scheduler/KAI-Scheduler, below pkg/admission/webhook/v1alpha2. The first is v0.17.0, d5bc503a:
podhooks/pod_mutator.go and the plugins beside it, in the order of cmd/admission/main.go (gpusharing, hamicore, deviceaccess,
runtimeenforcement), with pkg/binder/common; the second 0caa3bd, nvfractions/mutation.go, and bf1bdd57,
gpusharing/pod_mutation.go.
"""

from dataclasses import dataclass

from .pod import DeniedThereError, Json, annotations, append_env, containers, encoded, replace_env

SCHEDULER = "kai-scheduler"
PREFIX = "runai/shared-gpu-configmap"
RANDOM = "x7k2p9q"
"""In place of the seven characters that are drawn for the name of the ConfigMap."""


@dataclass(frozen=True, slots=True)
class Configured:
    """What KAI's administrator chose.

    Attributes:
        hami_core: `admission.hamiCore`: the library is told its limit by a variable.
        block: `admission.blockNvidiaVisibleDevices`: other containers see no device.
        fractions: memory is copied to the annotations of NvFractions.
        visible_devices: whether NVIDIA_VISIBLE_DEVICES comes from the ConfigMap; not where the NRI plugin serves.
        runtime_class: `admission.gpuFractionRuntimeClassName`.
    """

    hami_core: bool = False
    block: bool = False
    fractions: bool = False
    visible_devices: bool = True
    runtime_class: str = "nvidia"


def kai(pod: Json, configured: Configured = Configured()) -> Json:
    """`podMutator.Default`: pods of its own scheduler only.

    Raises:
        DeniedThereError: a container is named that is not there, or memory that is no number.
    """
    if pod["spec"].get("schedulerName") != SCHEDULER:
        return pod
    made = encoded(pod)
    chosen = _fraction_container(made, configured)
    if chosen is not None:
        if configured.fractions:
            _copied(made, chosen)
        _shared(made, chosen, configured)
    if configured.block:
        for container in containers(made):
            if container is not chosen and not _asks_for_cards(container):
                _hidden(container)
    if chosen is not None and configured.runtime_class and not made["spec"].get("runtimeClassName"):
        made["spec"]["runtimeClassName"] = configured.runtime_class
    return made


def _fraction_container(pod: Json, configured: Configured) -> Json | None:
    """`RequestsGPUFraction` and `GetFractionContainerRef`: the first container, or the one that is named."""
    found = pod["metadata"].get("annotations", {})
    named = found.get("gpu-fraction-container-name")
    ends = (".gpu-memory.request", ".gpu-memory.limit")
    of_fractions = [key for key in found if key.startswith("nvidia.com/container.") and key.endswith(ends)]
    if configured.fractions and of_fractions and named is None:
        named = of_fractions[0].removeprefix("nvidia.com/container.").rsplit(".gpu-memory.", 1)[0]
    elif "gpu-fraction" not in found and "gpu-memory" not in found:
        return None
    if named is None:
        first: Json = pod["spec"]["containers"][0]
        return first
    chosen = next((container for container in containers(pod) if container["name"] == named), None)
    if chosen is None:
        raise DeniedThereError(f"container with name {named} not found for fraction request")
    return chosen


def _copied(pod: Json, container: Json) -> None:
    """`NvFractions.Mutate`: the older annotations stay, and are copied for the container."""
    carried = annotations(pod)
    name = container["name"]
    copies = {
        "gpu-memory": f"nvidia.com/container.{name}.gpu-memory.request",
        "gpu-memory.limit": f"nvidia.com/container.{name}.gpu-memory.limit",
        "gpu-fraction.limit": f"kai.scheduler/container.{name}.gpu-memory.portion.limit",
    }
    for old, new in copies.items():
        if old not in carried:
            continue
        if old == "gpu-memory" and not carried[old].isdecimal():
            raise DeniedThereError("failed to parse gpu memory annotation value")
        value = _binary(int(carried[old])) if old == "gpu-memory" else carried[old]
        if carried.setdefault(new, value) != value:
            raise DeniedThereError(f"{old} annotation conflicts with {new} annotation")


def _binary(mebibytes: int) -> str:
    """`resource.MustParse("1024Mi").String()` is 1Gi: texts are compared, not amounts."""
    suffixes = iter(("Mi", "Gi", "Ti", "Pi"))
    suffix = next(suffixes)
    while mebibytes and mebibytes % 1024 == 0:
        mebibytes, suffix = mebibytes // 1024, next(suffixes)
    return f"{mebibytes}{suffix}"


def _shared(pod: Json, container: Json, configured: Configured) -> None:
    """`GPUSharing.Mutate`, `AddGPUSharingEnvVars`, `SetConfigMapVolume`; `HamiCore.Mutate`."""
    spec = pod["spec"]
    before = f"{pod['metadata'].get('name', '')}-{RANDOM}-shared-gpu"
    prefix = annotations(pod).setdefault(PREFIX, before)
    initial = spec.get("initContainers", [])
    place = f"i{initial.index(container)}" if container in initial else str(spec["containers"].index(container))
    config_map = f"{prefix}-{place}"
    names = ["RUNAI_NUM_OF_GPUS", "GPU_PORTION"]
    for name in ["NVIDIA_VISIBLE_DEVICES", *names] if configured.visible_devices else names:
        replace_env(container, {"name": name, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": name}}})
    spec["volumes"] = [volume for volume in spec.get("volumes", ()) if volume["name"] != f"{config_map}-vol"]
    spec["volumes"].append({"name": f"{config_map}-vol", "configMap": {"name": config_map}})
    source = {"configMapRef": {"name": f"{config_map}-evar", "optional": False}}
    if source not in container.setdefault("envFrom", []):
        container["envFrom"].append(source)
    if configured.hami_core:
        limit = "CUDA_DEVICE_MEMORY_LIMIT"
        key = {"name": config_map, "key": limit, "optional": True}
        replace_env(container, {"name": limit, "valueFrom": {"configMapKeyRef": key}})


def _asks_for_cards(container: Json) -> bool:
    """`containerRequestsGPU`: whole devices or slices of MIG."""
    names = container["resources"].get("requests", {})
    return any(
        name == "nvidia.com/gpu" or name.startswith("nvidia.com/mig-") for name in names if str(names[name]) != "0"
    )


def _hidden(container: Json) -> None:
    """`blockGPUAccessIfNotRequested`."""
    for variable in container.get("env", ()):
        if variable["name"] == "NVIDIA_VISIBLE_DEVICES":
            variable["value"] = "void"
            return
    append_env(container, "NVIDIA_VISIBLE_DEVICES", "void")
