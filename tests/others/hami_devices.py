"""What HAMi's webhook does for devices other than NVIDIA's: one function for each package, which changes the container.

Held against Project-HAMi/HAMi 4707fb02, `MutateAdmission` in pkg/device/*/device.go, kunlun/vdevice.go and metax/sdevice.go.
"""

from collections.abc import Iterable

from .pod import DeniedThereError, Json, annotations, append_env, limits, number, requests, text

ASCEND = {
    "910A": (32768, 32768, (2184, 4369, 8738, 17476)),
    "910B2": (65536, 65536, (8192, 16384, 32768)),
    "910B3": (65536, 65536, (16384, 32768)),
    "910B4-1": (65536, 65536, (16384, 32768)),
    "910B4": (32768, 32768, (8192, 16384)),
    "310P": (21527, 24576, (3072, 6144, 12288)),
    "910C": (65536, 65536, (16384, 32768)),
}
"""For each chip of the chart what a device has to give, what it has, and the memory of each template, in MiB."""
ILUVATAR = ("MR-V100", "MR-V50", "BI-V150", "BI-V100")


def found_only(container: Json, names: Iterable[str]) -> bool:
    """Most packages: the name is looked for in the limits."""
    return any(name in container["resources"].get("limits", {}) for name in names)


def ascend(container: Json, pod: Json, runtime_class: str) -> bool:
    """ascend/device.go, once for each chip: memory is always written, the device's if none was; 910C goes in pairs."""
    chips = [chip for chip in ASCEND if found_only(container, [f"huawei.com/Ascend{chip}"])]
    soft = pod["metadata"].get("annotations", {}).get("huawei.com/vnpu-mode") == "hami-core"
    for chip in chips:
        name = f"huawei.com/Ascend{chip}"
        count = _paired(chip, container)
        memory = _soft(container, name, ASCEND[chip][0]) if soft else _hard(container, name, count, ASCEND[chip])
        for side in (limits(container), requests(container)):
            side[f"{name}-memory"] = text(memory)
        if runtime_class:
            pod["spec"].setdefault("runtimeClassName", runtime_class)
    return bool(chips)


def ascend_hidden(container: Json) -> None:
    """The same where `overwriteEnv` is set: once for each chip that is not requested, beside one that is, too."""
    for chip in ASCEND:
        if not found_only(container, [f"huawei.com/Ascend{chip}"]):
            append_env(container, "ASCEND_VISIBLE_DEVICES", "")


def _paired(chip: str, container: Json) -> int:
    name = f"huawei.com/Ascend{chip}"
    count = number(limits(container), name) or 0
    if chip == "910C" and count == 1:
        limits(container)[name] = "2"
        if name in requests(container):
            requests(container)[name] = "2"
    elif chip == "910C" and count % 2:
        raise DeniedThereError("Ascend910C device request must be 1 or 2*n")
    return count


def _soft(container: Json, name: str, memory_of_device: int) -> int:
    memory = number(limits(container), f"{name}-memory")
    return memory_of_device if memory is None else memory


def _hard(container: Json, name: str, count: int, device: tuple[int, int, tuple[int, ...]]) -> int:
    memory_of_device, capacity, templates = device
    if (number({**requests(container), **limits(container)}, f"{name}-core") or 0) > 0:
        raise DeniedThereError(f"{name}-core is only supported in hami-core (soft split) mode")
    requested = number(limits(container), f"{name}-memory")
    if requested is None:
        return memory_of_device
    memory = next(
        (template for template in templates if requested <= template), memory_of_device if requested <= capacity else 0
    )
    if memory <= 0:
        raise DeniedThereError(f"{name}-memory is invalid")
    if count > 1 and memory != memory_of_device:
        raise DeniedThereError("vNPU not supported for multiple devices")
    return memory


def enflame(container: Json) -> bool:
    """enflame/device.go: what stands on one side is written to the other."""
    sides = limits(container), requests(container)
    names = ["enflame.com/drs-gcu"]
    if not any(names[0] in side for side in sides):
        names = [
            name for name in ("enflame.com/gcu-memory", "enflame.com/gcu-core") if any(name in side for side in sides)
        ]
    for name in names:
        values = [side[name] for side in sides if name in side]
        if not values:
            return False
        value = number({name: values[0]}, name) or 0
        if value <= 0 or (name.endswith("gcu-core") and value > 100):
            raise DeniedThereError(f"{name} is out of range")
        for side in sides:
            side.setdefault(name, values[0])
    return bool(names)


def iluvatar(container: Json) -> bool:
    """iluvatar/device.go, once for each chip: cores of several devices are all of them; the container's name as a variable."""
    found = False
    for chip in ILUVATAR:
        count = number(container["resources"].get("limits", {}), f"iluvatar.ai/{chip}-vgpu")
        if count is None:
            continue
        found = True
        if count > 1:
            limits(container)[f"iluvatar.ai/{chip}.vCore"] = text(100 * count)
        if all(variable["name"] != "SOL_CONTINER_NAME" for variable in container.get("env", ())):
            append_env(container, "SOL_CONTINER_NAME", container["name"])
    return found


def kunlun(container: Json) -> bool:
    """kunlun/vdevice.go: memory of a share becomes one of three sizes."""
    side = container["resources"].get("limits", {})
    if "kunlunxin.com/vxpu" not in side:
        return False
    memory = number(side, "kunlunxin.com/vxpu-memory")
    if memory is not None:
        size = text(next((each for each in (24576, 49152) if memory <= each), 98304))
        for each in (side, requests(container)):
            each["kunlunxin.com/vxpu-memory"] = size
    return True


def metax(container: Json, pod: Json) -> bool:
    """metax/sdevice.go: a share that is not online gets a policy, if none is named."""
    count = number(container["resources"].get("limits", {}), "metax-tech.com/sgpu")
    if count is None:
        return False
    kind = pod["metadata"].get("annotations", {}).get("metax-tech.com/sgpu-app-class")
    if kind is not None and (kind not in ("online", "offline") or count != 1):
        raise DeniedThereError("app-class pod must request single device")
    if kind != "online":
        policy = annotations(pod).setdefault("metax-tech.com/sgpu-qos-policy", "best-effort")
        if policy not in ("best-effort", "fixed-share", "burst-share"):
            raise DeniedThereError("metax-tech.com/sgpu-qos-policy")
    return True


def mthreads(container: Json, pod: Json) -> bool:
    """mthreads/device.go: whole devices get all their memory and cores, as a total, and their number as an annotation."""
    sides = limits(container), container["resources"].get("requests", {})
    count = next((found for side in sides if (found := number(side, "mthreads.com/vgpu")) is not None), None)
    if count is None:
        return False
    if count <= 0:
        raise DeniedThereError("mthreads.com/vgpu must be greater than 0")
    memory = number(sides[0], "mthreads.com/sgpu-memory")
    if count > 1 or memory is None:
        sides[0]["mthreads.com/sgpu-core"] = text(16 * count)
        sides[0]["mthreads.com/sgpu-memory"] = text(96 * count)
    elif memory not in (2, 4, 8, 16, 32, 64, 96):
        raise DeniedThereError("sGPU memory request value is invalid")
    if count > 1:
        annotations(pod)["mthreads.com/request-gpu-num"] = str(count)
    return True


def neuron(container: Json) -> bool:
    """awsneuron/device.go: nothing is changed; two cores to a device."""
    both = {**container["resources"].get("requests", {}), **container["resources"].get("limits", {})}
    for name in ("aws.amazon.com/neuron", "aws.amazon.com/neuroncore"):
        count = number(both, name)
        if count is None:
            continue
        if count <= 0 or (name.endswith("core") and count > 2 and count % 2):
            raise DeniedThereError(f"{name} is out of range")
        return True
    return False
