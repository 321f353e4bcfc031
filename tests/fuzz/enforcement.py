"""Property 6: never a shim without its limit, no variable that lifts a limit, no search path through the current directory."""

import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from tests.fuzz.amounts import LIBRARY, NVIDIA, card_of, kept_elsewhere, target_of
from tests.fuzz.misspelled import PREFIX
from tests.fuzz.oracle.keeping import not_kept
from tests.fuzz.oracle.meaning import Amounts
from tests.fuzz.oracle.reading import Read
from tests.fuzz.policies import AUDITING, COPIED, LOADED, Setup
from tests.fuzz.served import stays
from tests.fuzz.trial import Finding, Trial, all_containers

Json = dict[str, Any]

FOLDER = "/usr/local/vgpu-shim"
PRELOAD_FILE = {"name": "vgpu-shim", "mountPath": "/etc/ld.so.preload", "subPath": "ld.so.preload", "readOnly": True}
HAMI_CORE = frozenset({"nvidia", "volcano", "koordinator", "kai"})
"""The vendors under which HAMi-core (``HAMi-core/src``) enforces, which reads its limits from variables."""
PRELOADED = frozenset({*HAMI_CORE, "ascend", "vcuda", "vgpu-manager"})
"""The vendors under which a library in the container enforces, which the loader loads from a path of the node."""
ON_THE_NODE = frozenset({*PRELOADED, "amd", "nvfractions"})
"""The vendors under which a process of the node, or a file that it mounts, enforces."""
BY_KUBELET = frozenset({"mig", "mig-single", "whole", "timeslicing", "mps"})
"""Whose devices the kubelet chooses by itself (NVIDIA/k8s-device-plugin ``README.md``); other schedulers write down which ones
a container gets, and their plugins look that up, whole devices or not (HAMi ``nvinternal/plugin/server.go``)."""
HAMI = frozenset(
    {
        *(
            "nvidia",
            "amd",
            "ascend",
            "biren",
            "cambricon",
            "enflame",
            "hygon",
            "iluvatar",
            "kunlun",
            "metax",
            "mthreads",
        ),
        *("neuron", "vastai"),
    }
)
"""The vendors whose pods HAMi's webhook looks at, if they are for its scheduler: it denies privileged containers with any of
its resources (``pkg/scheduler/webhook.go``)."""
SANDBOXES = ("gvisor", "runsc", "kata")
CAPABILITIES = frozenset({"ALL", "SYS_MODULE", "SYS_RAWIO", "SYS_BOOT", "BPF", "DAC_READ_SEARCH"})
"""What takes a container out of its limits by itself (capabilities(7)); SYS_ADMIN, which profilers need, is reported."""
NODE_PATH = re.compile(
    r"/|/(proc|sys/fs/cgroup|var/lib/kubelet)(/.*)?|/(sys|sys/fs|run|var|var/run|var/lib)|/dev/(k?mem|kvm|vfio.*)"
    r"|/(var/)?run/(containerd|crio|docker|cri-dockerd|k3s).*|/var/lib/(containerd|docker).*"
)
"""Paths of the node with what enforces, with sockets that start any container, or with memory and devices."""
VGPU_MANAGER = re.compile(r"CUDA_MEM_LIMIT.*|CUDA_CORE_LIMIT.*|MANAGER_VISIBLE_DEVICES")
"""The variables of vgpu-manager's library (``vgpu-manager/pkg/deviceplugin/vgpu/vnum_plugin.go``)."""
OTHERS = {
    "amd": re.compile(r"HSA_CU_MASK|ROCR_VISIBLE_DEVICES|HIP_DEVICE_MEMORY_.*|LD_AUDIT"),
    "ascend": re.compile(r"ASCEND_VNPU_SPECS|NPU_(MEM_QUOTA|PRIORITY|(GLOBAL|LOCAL)_SHM_PATH|FIXED_SHARE_RATIO)"),
    "cambricon": re.compile(r"CAMBRICON_SPLIT_.*"),
    "enflame": re.compile(r"TOPS_VISIBLE_DEVICES"),
    "kunlun": re.compile(r"BAIDU_COM_XPU_MEM_LIMIT_INBYTES|XPU[0-9]+_MEMORY_LIMIT"),
    "neuron": re.compile(r"NEURON_RT_VISIBLE_CORES"),
    "nvfractions": re.compile(r"NVIDIA_GPU_MEMORY_(LIMIT|REQUEST)S?|CUDA_MPS_(PIPE_DIRECTORY|PINNED_DEVICE_MEM_LIMIT)"),
}
"""Variables that are the limit itself: amd-device-plugin ``plugin.go``, ascend-device-plugin ``allocate.go``, fractiond,
xpu-container-toolkit ``container_config.go``, the flow of AWS Neuron's scheduler extension.
"""
SHOWING = {
    "amd": re.compile(r"AMD_VISIBLE_DEVICES|DOCKER_RESOURCE_.*"),
    "ascend": re.compile(r"ASCEND_VISIBLE_DEVICES"),
    "cambricon": re.compile(r"CAMBRICON_VISIBLE_DEVICES|VIRTUAL_DEVICES"),
    "hygon": re.compile(r"(D|H|VH)CU_VISIBLE_DEVICES|(NVIDIA|MIG)_VISIBLE_DEVICES|DOCKER_RESOURCE_.*"),
    "iluvatar": re.compile(r"(IX|ILUVATAR_COREX)_VISIBLE_DEVICES"),
    "vastai": re.compile(r"VASTAI_VISIBLE_DEVICES"),
    **dict.fromkeys(NVIDIA, re.compile(r"NVIDIA_VISIBLE_DEVICES")),
}
"""Variables by which a container runtime gives devices: ROCm/container-toolkit ``oci.go``, hcu-container-toolkit
``dtk_image.go``, cambricon-k8s-device-plugin ``server.go``, ix-container-toolkit ``graphics.go``, Vastai's guides.
"""
COVERED = {
    **dict.fromkeys(HAMI_CORE, ("/etc/ld.so.preload", "/usr/local/vgpu")),
    "volcano": ("/etc/ld.so.preload", "/usr/local/vgpu", "/tmp/vgpu"),
    "vgpu-manager": ("/etc/ld.so.preload", "/etc/vgpu-manager"),
    "vcuda": ("/etc/vcuda", "/usr/local/nvidia"),
    "ascend": ("/etc/ld.so.preload", "/hami-vnpu-core", "/hami-vnpu-shmem", "/etc/enpu", "/usr/local/enpu"),
}
"""Where device plugins mount what enforces a share: HAMi ``nvinternal/plugin/server.go``, volcano-vgpu-device-plugin
``server.go``, koordinator ``hooks/gpu/gpu.go``, vgpu-manager ``vnum_plugin.go``, gpu-manager ``allocator.go``,
ascend-device-plugin ``allocate.go``, ``enpu.go``."""
NODE = {
    "/etc/ld.so.preload": "/usr/local/vgpu/ld.so.preload",
    "/usr/local/vgpu": "/usr/local/vgpu",
    "/usr/local/vgpu/containers": "/usr/local/vgpu/containers",
}
"""What of the node the webhook of KAI-resource-isolator mounts where (``cmd/webhook/main.go``): that is what enforces."""
SHARED_GPU = re.compile(r".+-[a-z0-9]{7}-shared-gpu-i?[0-9]+")
"""A ConfigMap of KAI's (``pkg/binder/common/gpusharingconfigmap/config_map.go``)."""
GPU_MINORS = "metadata.annotations['scheduling.koordinator.sh/gpu-minors']"
"""What Koordinator's scheduler assigned (``deviceshare/device_plugin_adapter.go``)."""
NOT_ENFORCED = "VGW114"
TRUE = frozenset({"1", "t", "true", "y", "yes", "on"})
REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


def enforcement_findings(trial: Trial) -> Iterator[Finding]:
    """Everything by which a container could use more than its share."""
    if trial.skipped or not trial.decision.allowed or not trial.enforced:
        return
    if not any(read.meaning for read in trial.before):
        return
    for (before, after), read, was in zip(trial.containers(), trial.after, trial.before, strict=True):
        if was.meaning is None or read.meaning is None:
            continue
        got = read.meaning.amounts()
        if got is None:
            continue
        yield from _told(trial, after, (was, read), got)
        got = _sized(trial, got) if read.vendor == "nvidia" else got
        values = effective(after)
        if trial.guarded:
            yield from _lifted(after, values, read.vendor or "", got, limits_of(trial.setup, got))
            yield from _from_elsewhere(after, read.vendor or "")
            yield from _out_of_isolation(trial.stored["spec"], after, read.vendor or "", whole=got.whole)
            at_home = stays(trial, was) or was.left or (got.whole and kept_elsewhere(trial, was))
            if not at_home and target_of(trial, was.vendor or "") == read.vendor:
                yield from _beside_devices(trial, after, read.vendor, whole=got.whole)
            yield from _covered(trial, after, read.vendor or "", whole=got.whole)
            if not got.whole:
                yield from _switched_off(trial, read.vendor or "", was.vendor or "", got)
        if before.get("env") != after.get("env"):
            yield from _paths(before, after, values)
        added = LIBRARY in str(after.get("env")) and LIBRARY not in str(before.get("env"))
        yield from _shim(trial, after, values, Held(read.vendor or "", got, injected=added))
    yield from _switched_off_beside(trial)


def _told(trial: Trial, container: Json, reads: tuple[Read, Read], got: Amounts) -> Iterator[Finding]:
    """What is not kept is reported, and nothing else is."""
    was, read = reads
    target = target_of(trial, was.vendor or "")
    vendor = target if {read.vendor, target} == {"aliyun", "gpushare"} else read.vendor or ""  # one name of both
    metadata = trial.stored["metadata"]
    keys = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    due = not_kept(vendor, got, container, keys, init=read.init)
    told = any(each.reason.code == NOT_ENFORCED and each.container == read.name for each in trial.decision.warnings)
    if due != told and not (read.left or stays(trial, was) or (got.whole and kept_elsewhere(trial, was))):
        yield Finding(
            "6 a limit that is none is reported, and no other",
            f"{read.name} is {'' if told else 'not '}told",
            read.vendor or "",
        )


def _switched_off_beside(trial: Trial) -> Iterator[Finding]:
    """A device plugin can take the variable of a container without a share for that of the share (seen with HAMi's)."""
    reads = {read.name: read for read in trial.after if read.meaning is not None}
    amounts = {name: read.meaning.amounts() for name, read in reads.items() if read.meaning is not None}
    shares = {
        name
        for name, got in amounts.items()
        if got is not None and not got.whole and reads[name].vendor in {"nvidia", "volcano"}
    }
    for _, after in trial.containers() if shares and trial.guarded else ():
        value = effective(after).get("CUDA_DISABLE_CONTROL")
        if after["name"] not in shares and value is not None and value.lower() in TRUE:
            yield Finding("6 no variable lifts the limit of another container", f"{after['name']}: {value}")


def effective(container: Json) -> dict[str, str | None]:
    """The variables as the kubelet makes them, the last of a name counts; None: not known before the container starts."""
    found: dict[str, str | None] = {}
    unknown = bool(container.get("envFrom"))
    for entry in container.get("env") or []:
        if entry.get("valueFrom"):
            found[entry["name"]] = None
            continue
        found[entry["name"]] = _expanded(entry.get("value") or "", found, unknown=unknown)
    return found


def _expanded(text: str, known: dict[str, str | None], *, unknown: bool) -> str | None:
    if "$" not in text:
        return text
    open_ = False

    def value(match: re.Match[str]) -> str:
        nonlocal open_
        if match[0] == "$$":
            return "$"
        name = match[1]
        known_value = known.get(name)
        if (name in known and known_value is None) or (name not in known and unknown):
            open_ = True
        return match[0] if known_value is None else known_value

    expanded = REFERENCE.sub(value, text)
    return None if open_ else expanded


def _lifted(
    container: Json, values: dict[str, str | None], vendor: str, got: Amounts, limits: dict[str, str]
) -> Iterator[Finding]:
    for name, value in values.items():
        if value is None:
            continue
        if vendor in SHOWING and SHOWING[vendor].fullmatch(name) and value not in {"void", "none", ""}:
            kind = "whole devices" if got.whole else "a share"
            yield Finding(f"6 no variable shows {kind} every device", f"{container['name']}: {name}={value}", vendor)
        elif not got.whole and _lifts(name, value, vendor, limits):
            yield Finding("6 no variable lifts the limit", f"{container['name']}: {name}={value}", vendor)


def _from_elsewhere(container: Json, vendor: str) -> Iterator[Finding]:
    """Nobody knows what a variable will hold that the vendor's own scheduler does not write."""
    for entry in container.get("env") or []:
        source = entry.get("valueFrom")
        if not source or vendor not in NVIDIA or entry["name"] != "NVIDIA_VISIBLE_DEVICES":
            continue
        config_map = (source.get("configMapKeyRef") or {}).get("name", "")
        path = (source.get("fieldRef") or {}).get("fieldPath")
        by_kai = vendor in {"kai", "nvfractions"} and SHARED_GPU.fullmatch(config_map) is not None
        if not by_kai and not (vendor == "koordinator" and path == GPU_MINORS):
            yield Finding("6 no devices from elsewhere", f"{container['name']}: {source}", vendor)


def _covered(trial: Trial, container: Json, vendor: str, *, whole: bool) -> Iterator[Finding]:
    """A mount or a device lies over what the device plugin mounts, or shows devices to NVIDIA's runtime."""
    spec = trial.stored["spec"]
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or []}
    for entry in placed(container):
        path = PurePosixPath(_resolved(entry.get("mountPath") or entry["devicePath"]))
        host_path = volumes.get(entry["name"], {}).get("hostPath") if "mountPath" in entry else None
        shown = None if host_path is None else str(PurePosixPath(host_path["path"], entry.get("subPath") or ""))
        if vendor in HAMI_CORE and not entry.get("subPathExpr") and shown is not None and NODE.get(str(path)) == shown:
            continue
        if vendor in NVIDIA and str(path).startswith("/var/run/nvidia-container-devices"):
            yield Finding("6 no mount shows every device", f"{container['name']}: {entry}", vendor)
        if vendor == "nvidia" and LOADED in trial.setup.mappings and entry == PRELOAD_FILE:
            continue
        delivered = vendor == "nvidia" and entry["name"] != "vgpu-shim"  # no policy delivers it for others
        if delivered and not whole and path.is_relative_to(FOLDER) and _shimmed(container):
            yield Finding("6 nothing covers the library", f"{container['name']}: {entry}", vendor)
        if not whole and any(path.is_relative_to(folder) for folder in COVERED.get(vendor, ())):
            yield Finding("6 no mount covers what enforces", f"{container['name']}: {entry}", vendor)


def placed(container: Json) -> list[Json]:
    """What the kubelet puts at a path of a container: mounts, devices, the file of the termination message."""
    message = container.get("terminationMessagePath")
    entries = [*(container.get("volumeMounts") or []), *(container.get("volumeDevices") or [])]
    return [*entries, {"name": "the kubelet's", "devicePath": message}] if message else entries


def _shimmed(container: Json) -> bool:
    """Whether the library is mounted, not only a volume of the user's that is called like it."""
    mounts = container.get("volumeMounts") or []
    return any((each["name"], each["mountPath"]) == ("vgpu-shim", FOLDER) for each in mounts)


def is_privileged(container: Json) -> bool:
    """Whether a container sees all devices of the node."""
    return bool((container.get("securityContext") or {}).get("privileged"))


def _out_of_isolation(spec: Json, container: Json, vendor: str, *, whole: bool) -> Iterator[Finding]:
    """A share beside what lets its container reach past the limit, or in which the limiting library cannot live."""
    if vendor in NVIDIA and shows_devices(spec, container):
        yield Finding("6 no mount shows every device", f"{container['name']}: {_of_the_node(spec, container)}", vendor)
    if whole:
        return
    if vendor in ON_THE_NODE and escapes(spec, container):
        yield Finding(
            "6 no share reaches out of its container", f"{container['name']}: {escapes(spec, container)}", vendor
        )
    if vendor in PRELOADED and sandboxed(spec):
        yield Finding("6 no share in a sandbox", f"{container['name']}: {spec['runtimeClassName']}", vendor)


def _beside_devices(trial: Trial, container: Json, vendor: str, *, whole: bool) -> Iterator[Finding]:
    """Devices, whole ones too, beside what their system denies, or in which they are not given or cannot be used."""
    spec = trial.stored["spec"]
    if spec.get("nodeName") and vendor not in BY_KUBELET:
        yield Finding("6 nobody bypasses who allocates", f"{container['name']}: {spec['nodeName']}", vendor)
    denied = not whole or (vendor in HAMI and spec.get("schedulerName") == "hami-scheduler")
    permitted = "privileged: allow" in trial.setup.mappings
    if denied and not permitted and any(map(is_privileged, all_containers(trial.stored))):
        yield Finding("6 no container sees all devices beside a share", container["name"], vendor)
    # Their plugins mount the library beside whole devices, too.
    preloaded = vendor in {"nvidia", "volcano", "vgpu-manager"} and "guard:" not in trial.setup.mappings
    if preloaded and sandboxed(spec):
        yield Finding("6 no library in a sandbox", f"{container['name']}: {spec['runtimeClassName']}", vendor)


def sandboxed(spec: Json) -> bool:
    """Whether the runtime class is one of gVisor's or Kata's by its name."""
    return (spec.get("runtimeClassName") or "").lower().startswith(SANDBOXES)


def escapes(spec: Json, container: Json) -> list[str]:
    """By what a container reaches processes, memory or files of the node."""
    security = container.get("securityContext") or {}
    added = (security.get("capabilities") or {}).get("add") or []
    names = {str(name).upper().removeprefix("CAP_") for name in added}
    found = ["hostPID"] if spec.get("hostPID") else []
    found += ["procMount"] if security.get("procMount") == "Unmasked" else []
    return [*found, *(names & CAPABILITIES), *filter(NODE_PATH.fullmatch, _of_the_node(spec, container))]


def reaches_beside(spec: Json, container: Json) -> bool:
    """Whether a container reaches what honest pods need, too, which is only reported where nobody says otherwise."""
    added = ((container.get("securityContext") or {}).get("capabilities") or {}).get("add") or []
    names = {str(name).upper().removeprefix("CAP_") for name in added}
    return bool(
        spec.get("hostIPC")
        or spec.get("shareProcessNamespace")
        or names & {"SYS_ADMIN", "SYS_PTRACE", "PERFMON", "CHECKPOINT_RESTORE"}
        or "/dev" in _of_the_node(spec, container)
    )


def shows_devices(spec: Json, container: Json) -> bool:
    """Whether a container mounts device files of GPUs from the node."""
    return any(path.startswith("/dev/nvidia") for path in _of_the_node(spec, container))


def _of_the_node(spec: Json, container: Json) -> list[str]:
    """The paths of the node that a container mounts; of a `subPathExpr`, whose value nobody knows, the whole volume."""
    volumes = {volume["name"]: volume.get("hostPath") for volume in spec.get("volumes") or []}
    mounts = [mount for mount in container.get("volumeMounts") or [] if volumes.get(mount["name"])]
    return [_resolved(f"{volumes[mount['name']]['path']}/{mount.get('subPath') or ''}") for mount in mounts]


def is_covered(path: str) -> bool:
    """Whether a device plugin of any vendor mounts there what enforces a share, or NVIDIA's runtime looks for devices."""
    covered = {*(each for paths in COVERED.values() for each in paths), "/var/run"}
    # Where such a path leads depends on the image.
    return (
        "/../" in path
        or path.startswith("/proc/")
        or any(PurePosixPath(_resolved(path)).is_relative_to(each) for each in covered)
    )


def _resolved(path: str) -> str:
    """A path from the root, without ``.`` and ``..``, through the links that there are in any image."""
    parts: list[str] = []
    for part in path.split("/"):
        parts = parts[:-1] if part == ".." else parts if part in {"", "."} else [*parts, part]
        if parts == ["proc", "self", "root"]:
            parts = []
        elif parts == ["var", "run"] and "/../" in path:
            parts = ["run"]
    return "/" + "/".join(parts)


def _switched_off(trial: Trial, vendor: str, before: str, got: Amounts) -> Iterator[Finding]:
    """What vgpu-manager (``pkg/config/vgpu/vgpu_config.go``) and TensorFusion (``internal/utils/compose.go``) read.

    And what MetaX's does through HAMi (``metax/sdevice.go``): only fixed-share limits cores. In its own keys that is reported.
    """
    metadata = trial.stored["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    if vendor == "vgpu-manager" and annotations.get("nvidia.com/vgpu-compute-policy", "").lower() == "none":
        yield Finding("6 no annotation lifts the limit", "nvidia.com/vgpu-compute-policy", vendor)
    fixed = annotations.get("metax-tech.com/sgpu-qos-policy") == "fixed-share"
    if vendor == "metax" and not fixed and got.cores[0] == "percent" and got.cores[1] < 100 and before != vendor:
        yield Finding("6 no annotation lifts the limit", "metax-tech.com/sgpu-qos-policy", vendor)
    if vendor == "tensor-fusion":
        for keys in (annotations, labels):
            if {"gpu-limiter", "gpu-opt"} & {*keys.get("tensor-fusion.ai/disable-features", "").split(",")}:
                yield Finding("6 no annotation lifts the limit", "tensor-fusion.ai/disable-features", vendor)


def _lifts(name: str, value: str, vendor: str, limits: dict[str, str]) -> bool:
    if vendor == "vgpu-manager":
        return VGPU_MANAGER.fullmatch(name) is not None or (name == "DISABLE_VGPU_CONTROL" and value.lower() in TRUE)
    if vendor in OTHERS and OTHERS[vendor].fullmatch(name) is not None:
        return True
    if vendor == "tensor-fusion":
        return name == "DISABLE_GPU_LIMITER" and value == "true"
    if vendor not in HAMI_CORE:
        return False
    if name == "CUDA_DISABLE_CONTROL":
        # Volcano's plugin looks for the name alone (``volcano-vgpu-device-plugin/pkg/plugin/server.go``).
        return value.lower() in TRUE or vendor == "volcano"
    if name == "GPU_CORE_UTILIZATION_POLICY":
        return value.lower() == "disable"
    if name.startswith(("CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT")):
        return value != limits.get(name)
    return name == "CUDA_REDIRECT" and value != LIBRARY


def _sized(trial: Trial, got: Amounts) -> Amounts:
    """What the shim is to enforce: of a device whose memory is configured, a percentage is a size."""
    card = card_of(trial)
    if got.memory[0] != "percent" or got.whole or card is None:
        return got
    return got._replace(memory=("size", -(-Fraction(got.memory[1]) * card // 100)))


def limits_of(setup: Setup, got: Amounts) -> dict[str, str]:
    """The variables with the limits that the shim gets, rounded up; none for memory that is no size, or unlimited cores."""
    limits = {"CUDA_DEVICE_SM_LIMIT": str(-(-got.cores[1] // 1))} if got.cores[0] == "percent" else {}
    if got.memory[0] == "size":
        unit, suffix = setup.unit
        limits["CUDA_DEVICE_MEMORY_LIMIT"] = f"{-(-got.memory[1] // unit)}{suffix}"
    # HAMi-core takes that of one device before the other (``multiprocess_memory_limit.c``), wherever either comes from.
    indexed = {f"{name}_{index}": value for name, value in limits.items() for index in range(got.devices)}
    return {**limits, **indexed}


def _paths(before: Json, after: Json, values: dict[str, str | None]) -> Iterator[Finding]:
    path = values.get("LD_LIBRARY_PATH")
    if path is not None and path not in own_search_paths(before) and has_open_element(after):
        yield Finding("6 no search path through the current directory", f"LD_LIBRARY_PATH={path}")


def has_open_element(container: Json) -> bool:
    """Whether its search path has an empty element.

    Not one inside a variable that itself refers to others: ``docs/threats.md`` says that these are not closed.
    """
    env = [
        {**entry, "value": "x"} if entry["name"] != "LD_LIBRARY_PATH" and _refers(entry.get("value") or "") else entry
        for entry in container.get("env") or []
    ]
    path = effective({**container, "env": env}).get("LD_LIBRARY_PATH")
    return path is not None and not all(path.split(":"))


def _refers(text: str) -> bool:
    return any(REFERENCE.findall(text))


def own_search_paths(container: Json) -> set[str | None]:
    """Every search path that the author wrote: where a later one is removed, an earlier one counts."""
    env = container.get("env") or []
    ends = [end for end, entry in enumerate(env, 1) if entry["name"] == "LD_LIBRARY_PATH"]
    expanded = [effective({**container, "env": env[:end]})["LD_LIBRARY_PATH"] for end in ends]
    # Written as it is where what it refers to is removed.
    return {*expanded, *[env[end - 1].get("value") or "" for end in ends]}


class Held(NamedTuple):
    """What a container holds, and whether the shim was put into it."""

    vendor: str
    got: Amounts
    injected: bool


def _shim(trial: Trial, after: Json, values: dict[str, str | None], held: Held) -> Iterator[Finding]:
    vendor, got, ours = held
    entries = [entry.get("value") or "" for entry in after.get("env") or [] if entry["name"] == "LD_PRELOAD"]
    injected = bool(entries) and LIBRARY in re.split("[: ]", values["LD_PRELOAD"] or entries[-1])
    if not injected and wants_shim(trial, vendor, got):
        yield Finding("6 a share gets its shim", f"{after['name']}: {got}", vendor)
    if not injected or not ours:
        return
    if vendor != "nvidia" or got.whole:
        yield Finding("6 no shim without a limit", f"{after['name']}: {vendor}, {got}", vendor)
        return
    limits = limits_of(trial.setup, got)
    # Where the guard lets variables through, one may stay that the shim does not write.
    names = {"CUDA_DEVICE_MEMORY_LIMIT", *limits}
    if trial.guarded:
        names |= {name for name in values if name.startswith("CUDA_DEVICE_SM_LIMIT")}
    found = {name: values[name] for name in names if name in values}
    if found != limits or "CUDA_DEVICE_MEMORY_LIMIT" not in limits:
        yield Finding("6 no shim without a limit", f"{found} for {got}", vendor)
    yield from _library(trial, after, values, vendor)


def _library(trial: Trial, after: Json, values: dict[str, str | None], vendor: str) -> Iterator[Finding]:
    """What loads the library, and where it comes from."""
    rule = "6 no shim without its library"
    if not {"GPU_CORE_UTILIZATION_POLICY", "LD_AUDIT"} <= values.keys():
        yield Finding("6 no envFrom and no image switches the shim off", str([*values]), vendor)
    mounts = [mount for mount in after.get("volumeMounts") or [] if mount["mountPath"].rstrip("/") == FOLDER]
    if {(mount["name"], mount.get("readOnly"), mount.get("subPath")) for mount in mounts} != {
        ("vgpu-shim", True, None)
    }:
        yield Finding(rule, str(mounts), vendor)
    if LOADED in trial.setup.mappings:
        selected = (trial.case.pod["spec"].get("nodeSelector") or {}).get("kubernetes.io/arch")
        source = f"/opt/{'arm64' if selected == 'arm64' else 'amd64'}"
        if source not in _sources(trial.stored["spec"]):
            yield Finding("6 the library is that of the nodes", f"{selected}: {source}", vendor)
        if PRELOAD_FILE not in after["volumeMounts"]:
            yield Finding(rule, "ld.so.preload", vendor)
    if AUDITING in trial.setup.mappings and (values["LD_AUDIT"], values["SHIM_PATH"]) != (f"{FOLDER}/audit.so", FOLDER):
        yield Finding(rule, f"{values['LD_AUDIT']}, {values['SHIM_PATH']}", vendor)


def _sources(spec: Json) -> set[str]:
    """Where the library of a shim comes from: paths of the node, and arguments of what copies it."""
    paths = {
        (volume.get("hostPath") or {}).get("path", "") for volume in spec["volumes"] if volume["name"] == "vgpu-shim"
    }
    copies = [each for each in spec.get("initContainers") or [] if each["name"] == "vgpu-shim"]
    return paths.union(*(each["command"] for each in copies))


def wants_shim(trial: Trial, vendor: str, got: Amounts) -> bool:
    """Whether a container has to get the shim: a share of a size, where a hostPath may bring it."""
    if vendor != "nvidia" or got.whole or got.memory[0] != "size" or "shim: {mode: plugin}" in trial.setup.mappings:
        return False
    ordered = trial.case.annotations.get(f"{PREFIX}shim")
    if COPIED in trial.setup.mappings or LOADED in trial.setup.mappings:
        return ordered != "none"
    if ordered in {"none", "hostPath"}:
        return ordered == "hostPath"
    default = "baseline" if "podSecurityDefault: baseline" in trial.setup.settings else "privileged"
    return trial.case.labels.get("pod-security.kubernetes.io/enforce", default) == "privileged"
